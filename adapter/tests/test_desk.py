"""The desk: every question has exactly one outcome, whatever happens around it."""

import asyncio
import json

import pytest
from adapter.desk import Desk
from adapter.frames import Wake
from adapter.outbox import Outbox


class Hermes:
    """A stand-in for the gateway: starts nothing, remembers what it was asked."""

    def __init__(self):
        self.started, self.interrupted = [], []
        self.is_ready, self.is_draining, self.refuses = True, False, False
        self.busy, self.kept = set(), set()

    def ready(self):
        return self.is_ready

    def draining(self):
        return self.is_draining

    def session_busy(self, chat_id):
        return chat_id in self.busy

    def parked(self, request_id):
        return request_id in self.kept

    async def start_turn(self, wake, chat_id):
        if self.refuses:
            raise RuntimeError("no")
        self.started.append((chat_id, wake.request_id))

    def interrupt(self, chat_id):
        self.interrupted.append(chat_id)


class Scene:
    def __init__(self, outbox=None):
        self.hermes, self.outbox = Hermes(), outbox or Outbox(None)
        self.posted, self.delivered = [], []
        self.desk = Desk(self.hermes, self.outbox, self.posted.append, self.delivered.append)

    def ask(self, request_id, conversation="c1", **more):
        self.desk.question(Wake(request_id, conversation, "anna", "hi", **more))
        self.look()

    def look(self):
        return asyncio.run(self.desk.start_what_can())

    def turn(self, request_id, text=None, conversation="c1", outcome="success"):
        """A whole turn, as Hermes plays it."""
        self.desk.turn_began(conversation, request_id)
        turn = self.desk.turn(conversation)
        turn.model_began = turn.model_ended = True
        if text is not None:
            turn.model_text = text
            self.desk.final_text(conversation, request_id, text)
        self.desk.turn_over(conversation, request_id, outcome)
        self.look()

    def outcomes(self):
        return [(a.request_id, a.arguments.get("answer") or a.arguments["error"]) for a in self.delivered]

    def frames(self, kind):
        return [f["request_id"] for f in map(json.loads, self.posted) if f["type"] == kind]


@pytest.fixture
def scene():
    return Scene()


def test_a_question_is_acknowledged_started_and_answered_by_the_final_text(scene):
    scene.ask("r1")
    assert scene.frames("received") == ["r1"]
    assert scene.hermes.started == [("c1", "r1")]
    scene.turn("r1", "42")
    assert scene.outcomes() == [("r1", "42")]
    assert scene.desk.open_requests() == []


def test_the_same_question_again_is_acknowledged_and_not_worked_on_twice(scene):
    scene.ask("r1")
    scene.ask("r1", attempt=2)
    scene.turn("r1", "42")
    scene.ask("r1", attempt=3)
    assert scene.frames("received") == ["r1", "r1", "r1"]
    assert scene.hermes.started == [("c1", "r1")] and scene.outcomes() == [("r1", "42")]


def test_five_questions_in_one_conversation_are_answered_in_order_one_turn_each(scene):
    for n in range(5):
        scene.ask(f"r{n}")
    for n in range(5):
        assert len(scene.hermes.started) == n + 1
        scene.turn(f"r{n}", f"a{n}")
    assert scene.outcomes() == [(f"r{n}", f"a{n}") for n in range(5)]


def test_questions_in_different_conversations_run_side_by_side(scene):
    for n in range(5):
        scene.ask(f"r{n}", f"c{n}")
    assert len(scene.hermes.started) == 5


def test_a_session_that_something_else_keeps_busy_is_waited_for(scene):
    scene.hermes.busy.add("c1")
    scene.ask("r1")
    assert scene.hermes.started == [] and scene.look() is True
    scene.hermes.busy.clear()
    assert scene.look() is False and scene.hermes.started == [("c1", "r1")]


def test_nothing_starts_before_hermes_is_ready(scene):
    scene.hermes.is_ready = False
    scene.ask("r1")
    assert scene.hermes.started == [] and scene.desk.open_requests() == ["r1"]


def test_a_text_of_another_turn_of_the_session_is_never_an_answer(scene):
    scene.ask("r1")
    scene.desk.final_text("c1", None, "a notice")
    scene.desk.final_text("c1", "r0", "an old one")
    scene.turn("r1", "42")
    assert scene.outcomes() == [("r1", "42")]


def test_a_turn_that_was_not_ours_ends_nothing(scene):
    scene.ask("r1")
    scene.desk.turn_began("c1", None)
    scene.desk.turn_over("c1", None, "success")
    assert scene.outcomes() == []
    scene.turn("r1", "42")
    assert scene.outcomes() == [("r1", "42")]


def test_failed_cancelled_and_empty_turns_are_said_at_once(scene):
    for request_id, text, outcome, said in [("r1", None, "success", "empty"), ("r2", None, "failure", "failed"),
                                            ("r3", None, "cancelled", "cancelled")]:
        scene.ask(request_id)
        scene.turn(request_id, text, outcome=outcome)
        assert scene.outcomes()[-1] == (request_id, said)


def test_an_explicit_reply_wins_over_the_final_text(scene):
    scene.ask("r1")
    scene.desk.turn_began("c1", "r1")
    scene.desk.reply("r1", {"answer": "early"})
    scene.turn("r1", "late")
    assert scene.outcomes() == [("r1", "early")]


def test_the_next_question_waits_for_the_end_of_the_turn_that_replied_early(scene):
    scene.ask("r1")
    scene.ask("r2")
    scene.desk.turn_began("c1", "r1")
    scene.desk.reply("r1", {"answer": "early"})
    scene.look()
    assert scene.hermes.started == [("c1", "r1")]
    scene.turn("r1", "late")
    assert scene.hermes.started == [("c1", "r1"), ("c1", "r2")]


def test_an_explicit_reply_that_the_relay_refused_leaves_the_final_text_as_the_answer(scene):
    scene.ask("r1")
    scene.desk.turn_began("c1", "r1")
    scene.desk.reply("r1", {"answer": "early"})
    assert scene.desk.open_requests() == []
    scene.desk.reply_refused("r1")
    assert scene.desk.open_requests() == ["r1"], "its heart beats again"
    scene.turn("r1", "late")
    assert scene.outcomes() == [("r1", "early"), ("r1", "late")]


def test_a_cancelled_question_leaves_its_line(scene):
    scene.ask("r1")
    scene.ask("r2")
    scene.desk.cancelled("r2")
    scene.turn("r1", "42")
    assert scene.hermes.started == [("c1", "r1")] and scene.outcomes() == [("r1", "42")]


def test_a_cancelled_question_that_runs_is_stopped_and_nothing_is_said(scene):
    scene.ask("r1")
    scene.desk.turn_began("c1", "r1")
    scene.desk.cancelled("r1")
    assert scene.hermes.interrupted == ["c1"]
    scene.turn("r1", "too late")
    assert scene.outcomes() == []
    scene.ask("r2")
    assert scene.hermes.started[-1] == ("c1", "r2")


def test_what_hermes_will_not_take_fails_at_once_and_frees_the_session(scene):
    scene.hermes.refuses = True
    scene.ask("r1")
    scene.hermes.refuses = False
    scene.ask("r2")
    assert scene.outcomes() == [("r1", "failed")] and scene.hermes.started == [("c1", "r2")]


def test_a_question_that_hermes_parks_is_not_answered_with_nothing(scene):
    scene.ask("r1")
    scene.hermes.kept.add("r1")
    scene.desk.turn_began("c1", "r1")
    scene.desk.turn_over("c1", "r1", "success")
    assert scene.outcomes() == [] and scene.desk.open_requests() == ["r1"]
    scene.hermes.kept.clear()
    scene.turn("r1", "42")
    assert scene.outcomes() == [("r1", "42")] and len(scene.hermes.started) == 1


def test_too_many_questions_are_refused_at_once_and_the_others_keep_their_places(scene, monkeypatch):
    monkeypatch.setattr("adapter.sessions.MAX_WAITING", 1)
    scene.ask("r1")
    scene.ask("r2")
    scene.ask("r3")
    assert scene.outcomes() == [("r3", "failed")] and scene.desk.open_requests() == ["r1", "r2"]


def test_attachments_travel_as_text(scene):
    scene.ask("r1")
    scene.desk.turn_began("c1", "r1")
    scene.desk.final_text("c1", "r1", "see")
    scene.desk.attachment("c1", "[file: a.pdf]")
    scene.desk.turn_over("c1", "r1", "success")
    assert scene.outcomes() == [("r1", "see\n\n[file: a.pdf]")]


class TestRestart:
    """The gateway ends in the middle of a turn, and the next process takes the question up."""

    def cut_short(self, outcome):
        first = Scene()
        first.ask("r1")
        first.desk.turn_began("c1", "r1")
        if outcome:
            first.hermes.is_draining = True
            first.desk.turn_over("c1", "r1", outcome)
        assert first.outcomes() == []
        return Scene(first.outbox)

    @pytest.mark.parametrize("outcome", ["success", "failure", "cancelled", None])
    def test_nothing_is_said_about_a_turn_that_the_restart_cut_short(self, outcome):
        assert self.cut_short(outcome).outbox.begun() == {"c1": "r1"}

    def test_the_continued_turn_answers_and_the_question_sent_again_starts_no_other(self):
        second = self.cut_short("cancelled")
        second.hermes.is_ready = False
        second.ask("r1", attempt=2)
        # Hermes passes its continuation round once before it runs it.
        second.desk.turn_began("c1", None)
        second.desk.turn_over("c1", None, "success")
        second.desk.turn_began("c1", None)
        second.desk.turn("c1").model_began = second.desk.turn("c1").model_ended = True
        second.desk.final_text("c1", None, "42")
        second.desk.turn_over("c1", None, "success")
        second.hermes.is_ready = True
        second.look()
        assert second.outcomes() == [("r1", "42")] and second.hermes.started == []
        assert second.outbox.begun() == {}

    def test_the_question_that_comes_again_after_the_continued_turn_is_only_acknowledged(self):
        second = self.cut_short(None)
        second.desk.turn_began("c1", None)
        second.desk.turn("c1").model_began = second.desk.turn("c1").model_ended = True
        second.desk.final_text("c1", None, "42")
        second.desk.turn_over("c1", None, "success")
        second.ask("r1", attempt=2)
        assert second.frames("received") == ["r1"] and second.hermes.started == []

    def test_without_a_continuation_the_question_sent_again_gets_a_turn_of_its_own(self):
        second = self.cut_short(None)
        second.ask("r1", attempt=2)
        second.turn("r1", "42")
        assert second.outcomes() == [("r1", "42")]

    def test_a_continuation_that_comes_to_nothing_is_no_outcome(self):
        second = self.cut_short(None)
        second.ask("r1", "other-line")
        second.desk.turn_began("c1", None)
        second.desk.turn("c1").model_began = True
        second.desk.turn_over("c1", None, "failure")
        assert second.outcomes() == []

    def test_a_later_continuation_of_an_answered_session_is_no_second_answer(self):
        first = Scene()
        first.ask("r1")
        first.turn("r1", "42")
        second = Scene(first.outbox)
        second.desk.turn_began("c1", None)
        second.desk.final_text("c1", None, "as I said")
        second.desk.turn_over("c1", None, "success")
        assert second.outcomes() == []

    def test_an_undelivered_answer_is_not_computed_again(self):
        first = Scene()
        first.ask("r1")
        first.turn("r1", "42")
        second = Scene(first.outbox)
        second.ask("r1", attempt=2)
        assert second.hermes.started == [] and second.frames("received") == ["r1"]


class TestTicker:
    def run(self, scene, until, heartbeat=0.02):
        async def work():
            task = asyncio.ensure_future(scene.desk.run(heartbeat))
            end = asyncio.get_running_loop().time() + 5
            while not until():
                assert asyncio.get_running_loop().time() < end, scene.posted
                await asyncio.sleep(0.005)
            task.cancel()

        asyncio.run(work())

    def test_heartbeats_tell_what_is_queued_and_what_is_running(self, scene):
        scene.ask("r1")
        scene.desk.turn_began("c1", "r1")
        scene.desk.turn("c1").session_id = "s1"
        scene.ask("r2")
        scene.posted.clear()
        self.run(scene, lambda: len(scene.posted) >= 4)
        beats = {f["request_id"]: f for f in map(json.loads, scene.posted)}
        assert beats["r1"] == {"type": "heartbeat", "request_id": "r1", "session_id": "s1", "phase": "running"}
        assert beats["r2"] == {"type": "heartbeat", "request_id": "r2", "phase": "queued"}

    def test_an_answered_question_has_no_heartbeats_any_more(self, scene):
        scene.ask("r1")
        scene.ask("r2", "c2")
        scene.turn("r1", "42")
        scene.posted.clear()
        self.run(scene, lambda: len(scene.posted) >= 3)
        assert set(scene.frames("heartbeat")) == {"r2"}

    def test_a_short_quiet_limit_makes_the_heart_beat_faster(self, scene):
        assert scene.desk._beat_pause(5.0) == 5.0
        scene.ask("r1", quiet_ms=120_000)
        assert scene.desk._beat_pause(5.0) == 5.0
        scene.ask("r2", quiet_ms=5_000)
        assert scene.desk._beat_pause(5.0) == pytest.approx(5 / 3)
        scene.ask("r3", quiet_ms=1)
        assert scene.desk._beat_pause(5.0) == 0.2
        scene.desk.cancelled("r2")
        scene.desk.cancelled("r3")
        assert scene.desk._beat_pause(5.0) == 5.0

    def test_a_session_that_becomes_free_is_seen_without_being_told(self, scene):
        scene.hermes.busy.add("c1")
        scene.ask("r1")
        scene.hermes.busy.clear()
        self.run(scene, lambda: scene.hermes.started, heartbeat=60)

    def test_a_new_question_is_started_at_once(self, scene):
        async def work():
            task = asyncio.ensure_future(scene.desk.run(60))
            await asyncio.sleep(0)
            scene.desk.question(Wake("r1", "c1", "anna", "hi"))
            for _ in range(100):
                await asyncio.sleep(0)
            task.cancel()

        asyncio.run(work())
        assert scene.hermes.started == [("c1", "r1")]
