"""Relays and gateways that go away and come back: nothing is lost, nothing is done twice."""

from __future__ import annotations

import json
import time
from threading import Event

import pytest
from bot import until
from model import Say


def outbox(bot):
    try:
        return json.loads((bot.home / "hermes-bridge" / "outbox.json").read_text())
    except (OSError, ValueError):
        return {"answers": [], "turns": {}}


@pytest.mark.parametrize("tools", ["native", "mcp"])
def test_a_relay_that_is_killed_while_a_bot_waits_costs_no_answer_and_no_second_turn(stage, tools):
    stage.start_relay()
    gate = Event()

    def a(turn):
        return Say(f"b says: {turn.relay_results[-1].get('answer')}") if turn.results else turn.call(
            "ask_agent", to="b", message="slowly please")

    def b(turn):
        gate.wait(60)
        return Say("at last")

    stage.bot("a", a, tools=tools, start=False).start(wait=False)
    stage.bot("b", b, start=False).start(wait=False)
    for bot in stage.bots.values():
        bot.wait_connected()
    ask = stage.asker.begin_ask("a", "ask b slowly")
    until(lambda: stage.bots["b"].model.turns, 60, "b works on it")
    stage.relay.restart()
    until(lambda: all(bot.connected() for bot in stage.bots.values()), 30, "both are back")
    gate.set()
    result = ask.result(90)
    assert result.get("answer") == "b says: at last", result
    assert len(stage.bots["b"].model.turns) == 1
    assert len([turn for turn in stage.bots["a"].model.turns if not turn.results]) == 1


def test_answers_computed_while_the_relay_is_away_are_delivered_once_when_it_is_back(stage):
    stage.start_relay()
    gate = Event()

    def script(turn):
        gate.wait(60)
        return Say(f"answer to {turn.question}")

    bot = stage.bot("b", script)
    asks = [stage.asker.begin_ask("b", f"q{n}") for n in range(3)]
    until(lambda: len(bot.model.turns) == 3, 60, "all are worked on")
    stage.relay.kill()
    gate.set()
    until(lambda: len(outbox(bot)["answers"]) == 3, 30, "the answers are kept")
    stage.relay.start()
    assert sorted(ask.result(60)["answer"] for ask in asks) == [f"answer to q{n}" for n in range(3)]
    until(lambda: outbox(bot) == {"answers": [], "turns": {}}, 10, "nothing is left")
    assert len(bot.model.turns) == 3


def test_answers_kept_while_the_relay_is_away_survive_the_gateway_too(stage):
    stage.start_relay(reconnect_grace_ms=120000)
    gate = Event()

    def script(turn):
        gate.wait(60)
        return Say(f"answer to {turn.question}")

    bot = stage.bot("b", script)
    ask = stage.asker.begin_ask("b", "q")
    until(lambda: bot.model.turns, 60, "it is worked on")
    stage.relay.kill()
    gate.set()
    until(lambda: outbox(bot)["answers"], 30, "the answer is kept")
    bot.kill()
    stage.relay.start()
    bot.start()
    assert ask.result(60)["answer"] == "answer to q"


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_gateway_that_ends_in_the_middle_of_a_turn_answers_after_its_restart(stage, how):
    stage.start_relay(reconnect_grace_ms=120000)
    first = Event()

    def script(turn):
        if not first.is_set():
            first.set()
            Event().wait(20)
        return Say("answered after the restart")

    bot = stage.bot("b", script)
    ask = stage.asker.begin_ask("b", "take your time")
    assert first.wait(60)
    # Hermes notes a running session with its first step; only then can it continue it.
    until(lambda: outbox(bot)["turns"], 10, "the turn is noted")
    getattr(bot, how)()
    assert not ask.done(), ask.result()
    bot.start()
    result = ask.result(90)
    assert result.get("answer") == "answered after the restart", result
    # The continuation of Hermes, or the question sent again, but not both after one another.
    until(lambda: outbox(bot) == {"answers": [], "turns": {}}, 10, "nothing is left open")


def test_a_bot_that_is_offline_is_said_to_be(stage):
    stage.start_relay()
    result = stage.asker.ask("b", "anybody there?")
    assert (result["ok"], result["error"]) == (False, "agent_offline")


def test_a_question_left_for_a_bot_that_is_offline_is_answered_when_it_comes(stage):
    stage.start_relay()
    queued = stage.asker.ask("b", "for later", when_offline="queue")
    assert queued["error"] == "queued"
    stage.bot("b", lambda turn: Say(f"answer to {turn.question}"))
    answer = until(lambda: got(stage, queued["request_id"]), 60, "the answer")
    assert answer == "answer to for later"


def got(stage, request_id):
    return stage.asker.call("get_answer", request_id=request_id).get("answer")


def test_a_bot_that_starts_before_its_relay_joins_within_ten_seconds_of_it(stage):
    stage.start_relay()
    stage.relay.kill()
    bot = stage.bot("b", lambda turn: Say("here"), start=False).start(wait=False)
    until(lambda: bot.state().get("state") == "retrying", 60, "the gateway shows the truth")
    stage.relay.start()
    began = time.monotonic()
    until(bot.connected, 15, "it has joined")
    assert time.monotonic() - began < 10
    assert stage.asker.ask("b", "hi")["answer"] == "here"


def test_a_wrong_token_is_one_clear_fatal_line(stage):
    stage.start_relay()
    bot = stage.bot("b", token="wrong-token-0123456789", start=False).start(wait=False)
    until(lambda: bot.state().get("state") == "fatal", 60, "the gateway shows it")
    assert "token is not accepted" in bot.state()["error_message"]
    own = [line for line in bot.log().splitlines() if "hermes_plugins.hermes_bridge" in line and "ERROR" in line]
    assert len({line.split("ERROR", 1)[1] for line in own}) == 1
    assert "Traceback" not in bot.log()
    assert "wrong-token-0123456789" not in bot.log()


@pytest.mark.parametrize("tools", ["native", "mcp"])
def test_after_a_long_outage_of_the_relay_the_tools_work_within_ten_seconds_of_its_return(stage, tools):
    # Hermes gives a lost MCP server up after half a minute, and looks again after five.
    stage.start_relay()

    def script(turn):
        return Say(f"b says: {turn.relay_results[-1].get('answer')}") if turn.results else turn.call(
            "ask_agent", to="b", message="there?")

    a = stage.bot("a", script, tools=tools, start=False).start(wait=False)
    stage.bot("b", lambda turn: Say("yes"), start=False).start(wait=False)
    for bot in stage.bots.values():
        bot.wait_connected()
    assert stage.asker.ask("a", "ask b")["answer"] == "b says: yes"
    stage.relay.kill()
    if tools == "mcp":
        until(lambda: parked(a), 150, "Hermes has given the server up")
    else:
        until(lambda: a.state().get("state") == "retrying", 20, "the outage is seen")
    stage.relay.start()
    began = time.monotonic()
    until(lambda: all(bot.connected() for bot in stage.bots.values()), 10, "both are back")
    until(lambda: tools == "native" or revived(a), 10 - (time.monotonic() - began), "the server is revived")
    assert stage.asker.ask("a", "ask b again")["answer"] == "b says: yes"


def parked(bot):
    return any("'hermes-bridge'" in line and "park" in line.lower() for line in bot.log().splitlines())


def revived(bot):
    return any("MCP server hermes-bridge: reconnecting" in line or "MCP server hermes-bridge: discovered" in line
               for line in bot.log().splitlines())


def test_tool_calls_made_while_the_relay_is_away_are_answered_when_it_is_back(stage):
    stage.start_relay()
    away, back = Event(), Event()

    def a(turn):
        if turn.results:
            return Say(f"b says: {turn.relay_results[-1].get('answer')}")
        away.wait(30)
        return turn.call("ask_agent", to="b", message="are you there?")

    stage.bot("a", a, start=False).start(wait=False)
    stage.bot("b", lambda turn: Say("yes"), start=False).start(wait=False)
    for bot in stage.bots.values():
        bot.wait_connected()
    ask = stage.asker.begin_ask("a", "ask b")
    until(lambda: stage.bots["a"].model.turns, 60, "a works on it")
    stage.relay.kill()
    away.set()
    until(lambda: stage.bots["a"].state().get("state") == "retrying", 20, "the outage is seen")
    stage.relay.start()
    back.set()
    assert ask.result(60)["answer"] == "b says: yes"
