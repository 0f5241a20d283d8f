"""Answers on their way to the relay."""

import asyncio

from adapter.courier import Courier
from adapter.outbox import Outbox


def carry(results, arguments=None, rounds=200, explicit=False):
    """What is called, and what is left, when the relay answers with these results one by one."""
    box, calls = Outbox(None), []
    answers = iter(results)

    async def call(made):
        calls.append(made)
        return next(answers)

    async def work():
        courier = Courier(box, call, retry_seconds=0.0)
        courier.deliver(box.put("r1", arguments or {"answer": "42"}, explicit=explicit))
        for _ in range(rounds):
            await asyncio.sleep(0)
        await courier.stop()

    asyncio.run(work())
    return calls, box.undelivered()


def test_an_answer_is_sent_as_a_call_of_reply_and_then_forgotten():
    calls, left = carry([{"ok": True}])
    assert [(c.tool, c.arguments) for c in calls] == [("reply", {"request_id": "r1", "answer": "42"})]
    assert left == []


def test_a_relay_that_already_has_an_answer_ends_it_too():
    for result in ({"ok": False, "error": "already_answered"}, {"ok": False, "error": "unknown_request"},
                   {"ok": True, "late": True}):
        calls, left = carry([result])
        assert len(calls) == 1 and left == []


def test_a_refusal_that_may_pass_is_tried_again_as_the_same_call():
    calls, left = carry([{"ok": False, "error": "store_unavailable"}, {"ok": True}])
    assert left == [] and len(calls) == 2 and len({c.call_id for c in calls}) == 1


def test_an_answer_that_a_crash_of_the_relay_would_lose_is_kept_and_said_again():
    in_memory = {"ok": True, "recorded": False}
    calls, left = carry([in_memory, in_memory, {"ok": True}])
    assert left == [] and len(calls) == 3 and len({c.call_id for c in calls}) == 1
    box, told = Outbox(None), asyncio.Event()

    async def work():
        async def call(made):
            told.set()
            return in_memory

        courier = Courier(box, call, retry_seconds=3600)
        answer = box.put("r1", {"answer": "42"})
        courier.deliver(answer)
        await told.wait()
        while not courier.held_up(answer):
            await asyncio.sleep(0)
        await courier.stop()
        return courier.held_up(answer)

    assert asyncio.run(work()) is False and [a.request_id for a in box.undelivered()] == ["r1"]


def test_an_answer_that_is_too_large_becomes_a_clear_failure():
    calls, left = carry([{"ok": False, "error": "too_large"}, {"ok": True}])
    assert calls[1].arguments == {"request_id": "r1", "error": "failed",
                                  "detail": "The agent's answer is too large for the relay."}
    assert left == []


def test_an_explicit_answer_that_is_too_large_is_left_to_its_model():
    calls, left = carry([{"ok": False, "error": "too_large"}], explicit=True)
    assert len(calls) == 1 and left == []


def test_a_failure_that_is_refused_is_not_tried_for_ever():
    calls, left = carry([{"ok": False, "error": "too_large"}], {"error": "failed", "detail": "x"})
    assert len(calls) == 1 and left == []


def test_one_answer_has_one_delivery_however_often_it_is_asked_for():
    box, calls = Outbox(None), []

    async def work():
        async def call(made):
            calls.append(made)
            await asyncio.Event().wait()

        courier = Courier(box, call)
        answer = box.put("r1", {"answer": "42"})
        assert courier.deliver(answer) is courier.deliver(answer)
        courier.deliver_all()
        await asyncio.sleep(0)
        await courier.stop()

    asyncio.run(work())
    assert len(calls) == 1 and len(box.undelivered()) == 1
