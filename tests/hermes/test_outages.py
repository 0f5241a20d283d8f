"""Relays and gateways that go away and come back: nothing is lost, nothing is done twice."""

from __future__ import annotations

import json
import socket
import time
from threading import Event

import pytest
from asker import PATIENCE
from bot import until
from model import Say, asks_b

both = pytest.mark.parametrize("tools", ["native", "mcp"])


def outbox(bot):
    try:
        return json.loads((bot.home / "hermes-bridge" / "outbox.json").read_text())
    except (OSError, ValueError):
        return {"answers": [], "turns": {}}


def answers_when(gate):
    """The script of a bot that answers once the gate is open."""

    def script(turn):
        gate.wait(120)
        return Say(f"answer to {turn.question}")

    return script


def shows(bot, state):
    return bot.state().get("state") == state


# The longest first: where several workers share the scenes, the last ones are short.


@both
def test_after_a_long_outage_of_the_relay_the_tools_work_within_ten_seconds_of_its_return(stage, tools):
    # Hermes gives a lost MCP server up after half a minute, and looks again after five.
    stage.start_relay()
    a = stage.bot("a", asks_b("there?"), tools=tools)
    stage.bot("b", lambda turn: Say("yes"))
    stage.join()
    assert stage.asker.ask("a", "ask b")["answer"] == "b says: yes"
    stage.relay.kill()
    if tools == "mcp":
        until(lambda: parked(a), 150, "Hermes has given the server up")
    until(lambda: shows(a, "retrying"), 20, "the outage is seen")
    before = revivals(a)
    stage.relay.start()
    began = time.monotonic()
    stage.join(10)
    until(lambda: tools == "native" or revivals(a) > before, 10 - (time.monotonic() - began), "the server is revived")
    assert stage.asker.ask("a", "ask b again")["answer"] == "b says: yes"


def parked(bot):
    return any("'hermes-bridge'" in line and "park" in line.lower() for line in bot.log().splitlines())


def revivals(bot):
    return sum("MCP server hermes-bridge: reconnecting" in line or "MCP server hermes-bridge: discovered" in line
               for line in bot.log().splitlines())


@both
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_gateway_that_ends_in_the_middle_of_a_turn_answers_after_its_restart(stage, how, tools):
    stage.start_relay(reconnect_grace_ms=120000)
    first, over = Event(), Event()

    def script(turn):
        if not first.is_set():
            first.set()
            over.wait(120)
        return Say("answered after the restart")

    bot = stage.bot("b", script, tools=tools)
    stage.join()
    ask = stage.asker.begin_ask("b", "take your time")
    assert first.wait(120)
    # Hermes notes a running session with its first step; only then can it continue it.
    until(lambda: outbox(bot)["turns"], 30, "the turn is noted")
    getattr(bot, how)()
    assert not ask.done(), ask.result()
    bot.start()
    result = ask.result(PATIENCE)
    over.set()
    assert result.get("answer") == "answered after the restart", result
    # The continuation of Hermes, or the question sent again, but not both after one another.
    until(lambda: outbox(bot) == {"answers": [], "turns": {}}, 30, "nothing is left open")


@both
def test_a_relay_that_is_killed_while_a_bot_waits_costs_no_answer_and_no_second_turn(stage, tools):
    stage.start_relay()
    gate = Event()

    stage.bot("a", asks_b("slowly please"), tools=tools)
    stage.bot("b", answers_when(gate))
    stage.join()
    ask = stage.asker.begin_ask("a", "ask b slowly")
    until(lambda: stage.bots["b"].model.turns, 120, "b works on it")
    stage.relay.restart()
    stage.join(30)
    gate.set()
    result = ask.result(PATIENCE)
    assert result.get("answer") == "b says: answer to slowly please", result
    assert len(stage.bots["b"].model.turns) == 1
    assert len([turn for turn in stage.bots["a"].model.turns if not turn.results]) == 1


@both
def test_answers_computed_while_the_relay_is_away_are_delivered_once_when_it_is_back(stage, tools):
    stage.start_relay()
    gate = Event()

    bot = stage.bot("b", answers_when(gate), tools=tools)
    stage.join()
    asks = [stage.asker.begin_ask("b", f"q{n}") for n in range(3)]
    until(lambda: len(bot.model.turns) == 3, 120, "all are worked on")
    stage.relay.kill()
    gate.set()
    until(lambda: len(outbox(bot)["answers"]) == 3, 30, "the answers are kept")
    stage.relay.start()
    assert sorted(ask.result(PATIENCE)["answer"] for ask in asks) == [f"answer to q{n}" for n in range(3)]
    until(lambda: outbox(bot) == {"answers": [], "turns": {}}, 30, "nothing is left")
    assert len(bot.model.turns) == 3


def test_answers_kept_while_the_relay_is_away_survive_the_gateway_too(stage):
    stage.start_relay(reconnect_grace_ms=120000)
    gate = Event()

    bot = stage.bot("b", answers_when(gate))
    stage.join()
    ask = stage.asker.begin_ask("b", "q")
    until(lambda: bot.model.turns, 120, "it is worked on")
    stage.relay.kill()
    gate.set()
    until(lambda: outbox(bot)["answers"], 30, "the answer is kept")
    bot.kill()
    stage.relay.start()
    bot.start()
    assert ask.result(PATIENCE)["answer"] == "answer to q"
    assert len(bot.model.turns) == 1


@both
def test_a_bot_that_starts_before_its_relay_joins_within_ten_seconds_of_it(stage, tools):
    stage.start_relay()
    stage.bot("b", lambda turn: Say("here"))
    stage.join()
    stage.relay.kill()
    a = stage.bot("a", asks_b("there?"), tools=tools)
    until(lambda: started(a) and shows(a, "retrying"), 90, "the gateway runs and shows the truth")
    stage.relay.start()
    began = time.monotonic()
    stage.join(10)
    until(lambda: tools == "native" or revivals(a), 10 - (time.monotonic() - began), "its tools are there")
    assert stage.asker.ask("a", "hi")["answer"] == "b says: here"


def started(bot):
    # Hermes says so whatever the state is, when the platform has made its first attempt.
    return "✓ hermes-bridge connected" in bot.log()


def test_a_relay_that_takes_connections_and_says_nothing_is_shown_as_away(stage):
    stage.start_relay()
    stage.relay.kill()
    with socket.create_server(("127.0.0.1", stage.relay.port), backlog=64):
        bot = stage.bot("b", lambda turn: Say("here"))
        until(lambda: started(bot), 90, "the gateway runs")
        until(lambda: shows(bot, "retrying"), 5, "the gateway shows the truth")
    stage.relay.start()
    stage.join(20)
    assert stage.asker.ask("b", "hi")["answer"] == "here"


@both
def test_tool_calls_made_while_the_relay_is_away_are_answered_when_it_is_back(stage, tools):
    stage.start_relay()
    away = Event()
    asks = asks_b("are you there?")

    def a(turn):
        if not turn.results:
            away.wait(120)
        return asks(turn)

    stage.bot("a", a, tools=tools)
    stage.bot("b", lambda turn: Say("yes"))
    stage.join()
    ask = stage.asker.begin_ask("a", "ask b")
    until(lambda: stage.bots["a"].model.turns, 120, "a works on it")
    stage.relay.kill()
    until(lambda: shows(stage.bots["a"], "retrying"), 20, "the outage is seen")
    away.set()
    stage.relay.start()
    assert ask.result(PATIENCE).get("answer") == "b says: yes", ask.result()


def test_a_question_left_for_a_bot_that_is_offline_is_answered_when_it_comes(stage):
    stage.start_relay()
    queued = stage.asker.ask("b", "for later", when_offline="queue")
    assert queued["error"] == "queued"
    stage.bot("b", lambda turn: Say(f"answer to {turn.question}"))
    got = lambda: stage.asker.call("get_answer", request_id=queued["request_id"]).get("answer")
    assert until(got, 90, "the answer") == "answer to for later"


@both
def test_a_wrong_token_is_one_clear_fatal_line(stage, tools):
    stage.start_relay()
    bot = stage.bot("b", token="wrong-token-0123456789", tools=tools)
    until(lambda: shows(bot, "fatal"), 90, "the gateway shows it")
    assert "token is not accepted" in bot.state()["error_message"]
    own = [line for line in bot.log().splitlines() if "hermes_plugins.hermes_bridge" in line and "ERROR" in line]
    assert len({line.split("ERROR", 1)[1] for line in own}) == 1
    assert tools == "mcp" or "Traceback" not in bot.log()
    assert "wrong-token-0123456789" not in bot.log()
