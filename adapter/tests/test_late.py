"""Which session asked, and what becomes of an answer that comes after its call."""

import asyncio
import sys
import types

import pytest
from adapter import late
from adapter.frames import LateAnswer
from adapter.late import LateAnswers, Origin

ORIGIN = Origin("telegram", "77", "u1", "Uma", "")
ANSWER = LateAnswer("r1", "c1", "ben", "42")
PENDING = {"ok": False, "error": "still_working", "request_id": "r1"}


class Platform:
    """One platform of the gateway, with its messages."""

    def __init__(self, name, asynchronous=True):
        self.platform = types.SimpleNamespace(value=name)
        self.supports_async_delivery, self.taken, self.busy_for = asynchronous, [], 0
        self.gateway_runner = None

    def build_source(self, **source):
        return source

    def session_busy(self, chat_id):
        self.busy_for -= 1
        return self.busy_for >= 0

    async def handle_message(self, event):
        self.taken.append(event)


@pytest.fixture
def bridge(monkeypatch):
    """Our adapter beside another platform, and the two classes of Hermes that a message needs."""
    base = types.ModuleType("gateway.platforms.base")
    base.MessageEvent = lambda **fields: types.SimpleNamespace(**fields)
    base.MessageType = types.SimpleNamespace(TEXT="text")
    for name, module in (("gateway", types.ModuleType("gateway")), ("gateway.platforms", types.ModuleType("p")),
                         ("gateway.platforms.base", base)):
        monkeypatch.setitem(sys.modules, name, module)
    ours, telegram = Platform("hermes-bridge"), Platform("telegram")
    ours.gateway_runner = types.SimpleNamespace(adapters={"telegram": telegram, "hermes-bridge": ours})
    return ours, telegram


def hand_over(ours, origin, result=PENDING):
    answers = LateAnswers()
    answers.remember(result, origin)
    asyncio.run(answers.hand_over(ours, ANSWER))
    return answers


def test_the_session_that_asked_reads_the_answer_as_a_message(bridge):
    ours, telegram = bridge
    hand_over(ours, ORIGIN)
    (event,) = telegram.taken
    assert event.source["chat_id"] == "77" and event.internal is True
    assert "ben answered your earlier question" in event.text and "42" in event.text


def test_a_session_of_our_own_is_waited_for_until_it_is_free(bridge, monkeypatch):
    monkeypatch.setattr(late, "_LOOK_EVERY", 0.001)
    ours, _ = bridge
    ours.busy_for = 3
    hand_over(ours, Origin("hermes-bridge", "c1", "", "", ""))
    assert len(ours.taken) == 1 and ours.busy_for < 0


def test_an_answer_is_handed_over_once(bridge):
    ours, telegram = bridge
    answers = hand_over(ours, ORIGIN)
    asyncio.run(answers.hand_over(ours, ANSWER))
    assert len(telegram.taken) == 1


def test_a_platform_that_cannot_be_told_anything_later_is_left_alone(bridge):
    ours, telegram = bridge
    telegram.supports_async_delivery = False
    hand_over(ours, ORIGIN)
    assert telegram.taken == []


@pytest.mark.parametrize("result", [{"ok": True, "request_id": "r1"}, {"ok": False}, "text", None])
def test_only_a_question_without_its_answer_is_remembered(bridge, result):
    ours, telegram = bridge
    hand_over(ours, ORIGIN, result)
    assert telegram.taken == []


def test_the_oldest_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(late, "MAX_REMEMBERED", 2)
    answers = LateAnswers()
    for number in range(3):
        answers.remember({"ok": False, "request_id": f"r{number}"}, ORIGIN)
    assert [answers.take(f"r{number}") for number in range(3)] == [None, ORIGIN, ORIGIN]
