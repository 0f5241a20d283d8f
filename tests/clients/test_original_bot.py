"""A bot written for the original relay works unchanged: it knows the four fields of a wake, sends heartbeats, and answers
through the MCP SDK that Hermes pins. It never says hello and knows no frame besides."""

import re

import pytest

from client import PYTHON_1
from rig import Relay


@pytest.fixture(scope="module")
def relay(tmp_path_factory):
    relay = Relay(tmp_path_factory.mktemp("relay"), ask_timeout_ms=3_000, reconnect_grace_ms=10_000)
    yield relay
    relay.stop()


@pytest.fixture(scope="module")
def kind():
    return PYTHON_1


@pytest.fixture
def bot(relay):
    bot = relay.bot("bob", hello=False)
    yield bot
    bot.close()


def test_a_wake_begins_with_the_fields_of_the_original_and_a_reply_ends_the_ask(alice, bob, bot):
    call = alice.start("ask_agent", to="bob", message="what is six times seven?")
    wake = bot.wake()
    assert list(wake)[:4] == ["request_id", "conversation_id", "from", "message"]
    assert (wake["from"], wake["message"]) == ("alice", "what is six times seven?")
    assert bob.call("reply", request_id=wake["request_id"], answer="42") == {"ok": True}
    outcome = call.outcome()
    assert (outcome["ok"], outcome["answer"]) == (True, "42")
    assert (outcome["request_id"], outcome["conversation_id"]) == (wake["request_id"], wake["conversation_id"])


def test_the_next_question_of_a_conversation_has_its_id(alice, bob, bot):
    call = alice.start("ask_agent", to="bob", message="first")
    first = bot.wake()
    bob.call("reply", request_id=first["request_id"], answer="one")
    conversation = call.outcome()["conversation_id"]
    call = alice.start("ask_agent", to="bob", message="second", conversation_id=conversation)
    second = bot.wake()
    assert second["conversation_id"] == first["conversation_id"]
    assert second["request_id"] != first["request_id"]
    bob.call("reply", request_id=second["request_id"], answer="two")
    assert call.outcome()["answer"] == "two"


def test_heartbeats_keep_a_question_open_past_the_quiet_limit(alice, bob, bot):
    call = alice.start("ask_agent", to="bob", message="think for long")
    wake = bot.wake()
    # Twice the quiet limit, with a heartbeat well within it.
    for _ in range(6):
        bot.hears_nothing_for(1)
        bot.heartbeat(wake)
    assert not call.done()
    bob.call("reply", request_id=wake["request_id"], answer="done thinking")
    assert call.outcome()["answer"] == "done thinking"


def test_without_heartbeats_the_ask_ends_as_a_timeout(alice, bot):
    call = alice.start("ask_agent", to="bob", message="is anybody there?")
    bot.wake()
    outcome = call.outcome()
    assert (outcome["ok"], outcome["error"]) == (False, "timeout")
    assert re.search(r"Do not ask again", outcome["message"])


def test_the_heartbeats_of_another_bot_do_not_count(relay, alice, bot):
    other = relay.bot("carol", hello=False)
    call = alice.start("ask_agent", to="bob", message="silence")
    wake = bot.wake()
    for _ in range(4):
        other.heartbeat(wake)
        other.hears_nothing_for(1)
    assert call.outcome(within=2)["error"] == "timeout"
    other.close()


def test_a_bot_that_lost_its_connection_gets_its_wake_again(relay, alice, bob, bot):
    call = alice.start("ask_agent", to="bob", message="survive this")
    wake = bot.wake()
    bot.vanish()
    back = relay.bot("bob", hello=False)
    again = back.wake()
    assert again["request_id"] == wake["request_id"]
    assert again["attempt"] == wake["attempt"] + 1
    bob.call("reply", request_id=again["request_id"], answer="survived")
    assert call.outcome()["answer"] == "survived"
    back.close()


def test_frames_that_the_relay_does_not_know_are_ignored(alice, bob, bot):
    bot.send(type="status", mood="fine")
    bot.send(no="type")
    bot.socket.send("[1, 2")
    bot.socket.send('"text"')
    call = alice.start("ask_agent", to="bob", message="still there?")
    wake = bot.wake()
    bot.send(type="heartbeat", request_id="none")
    bot.send(type="heartbeat", request_id=7, also="this")
    bob.call("reply", request_id=wake["request_id"], answer="yes")
    assert call.outcome()["answer"] == "yes"
