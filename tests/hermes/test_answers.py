"""Asking and answering, with native tools and over MCP: what a pair of bots can always do."""

from __future__ import annotations

import threading

from asker import PATIENCE
from bot import until
from model import Say, Use, asks_b


def answer_of(result):
    assert result.get("ok") is True, result
    return result["answer"]


def waiting(asker, name):
    return next(agent for agent in asker.call("list_agents") if agent["name"] == name)["waiting"]


def test_the_final_text_of_the_turn_is_the_answer(shared):
    shared.bots["b"].model.script = lambda turn: Say(f"four, you asked: {turn.question}")
    assert answer_of(shared.asker.ask("b", "what is 2+2?")) == "four, you asked: what is 2+2?"


def test_a_conversation_goes_on_with_the_bots_own_memory(shared):
    def script(turn):
        return Say("it was blue" if "my colour is blue" in turn.history and "which" in turn.question else "noted")

    shared.bots["b"].model.script = script
    first = shared.asker.ask("b", "my colour is blue")
    second = shared.asker.ask("b", "which colour?", conversation_id=first["conversation_id"])
    third = shared.asker.ask("b", "which colour, in a new conversation?")
    assert [answer_of(r) for r in (first, second, third)] == ["noted", "it was blue", "noted"]


def test_an_explicit_reply_wins_over_the_final_text(shared):
    def script(turn):
        return turn.call("reply", request_id=turn.request_id, answer="explicit") if not turn.results else Say("final")

    shared.bots["b"].model.script = script
    result = shared.asker.ask("b", "use the tool")
    assert answer_of(result) == "explicit"
    again = shared.asker.call("get_answer", request_id=result["request_id"])
    assert again["answer"] == "explicit" and "late" not in again


def test_a_bot_asks_another_and_uses_its_answer(shared):
    shared.bots["a"].model.script = asks_b("the capital of France?")
    shared.bots["b"].model.script = lambda turn: Say("Paris" if "France" in turn.question else "?")
    assert answer_of(shared.asker.ask("a", "ask b")) == "b says: Paris"


def test_a_asks_b_and_b_asks_a_back_before_it_answers(shared):
    def a(turn):
        if "how many" in turn.question:
            return Say("seven")
        return Say(f"done: {turn.relay_results[-1]['answer']}") if turn.results else turn.call(
            "ask_agent", to="b", message="order the cake")

    def b(turn):
        if not turn.results:
            return turn.call("ask_agent", to="a", message="how many guests?")
        return Say(f"a cake for {turn.relay_results[-1]['answer']}")

    shared.bots["a"].model.script, shared.bots["b"].model.script = a, b
    assert answer_of(shared.asker.ask("a", "get a cake from b")) == "done: a cake for seven"


def test_two_asks_in_one_message_both_get_their_own_answer(shared):
    def a(turn):
        if not turn.results:
            one = turn.call("ask_agent", to="b", message="say one").calls
            two = turn.call("ask_agent", to="b", message="say two").calls
            return Use([*one, *two])
        return Say(" and ".join(r["answer"] for r in turn.relay_results))

    shared.bots["a"].model.script = a
    shared.bots["b"].model.script = lambda turn: Say(turn.question.split()[-1])
    assert answer_of(shared.asker.ask("a", "ask b twice")) == "one and two"


def test_a_bot_that_waits_forty_seconds_for_a_tool_of_another_outlives_a_quiet_limit_of_five(shared):
    def b(turn):
        if not turn.results:
            return Use.tool("terminal", command="sleep 40; echo woke up", timeout=90)
        return Say("woke up" if "woke up" in turn.results[-1] else turn.results[-1])

    shared.bots["a"].model.script, shared.bots["b"].model.script = asks_b("sleep"), b
    assert answer_of(shared.asker.ask("a", "let b sleep")) == "b says: woke up"


def test_a_model_call_of_fifteen_seconds_outlives_a_quiet_limit_of_five(shared):
    def b(turn):
        threading.Event().wait(15)
        return Say("thought about it")

    shared.bots["a"].model.script, shared.bots["b"].model.script = asks_b("think"), b
    assert answer_of(shared.asker.ask("a", "let b think")) == "b says: thought about it"


def test_four_refusals_in_a_row_do_not_take_a_bots_tools_away(shared):
    # Hermes closes the tools of an MCP server for a minute after three errors of it.
    def a(turn):
        said = [result.get("error") or result.get("answer") for result in turn.relay_results]
        if len(said) == 5:
            return Say(" ".join(said))
        return turn.call("ask_agent", to="c" if len(said) < 4 else "b", message=f"anybody there? {len(said)}")

    shared.bots["a"].model.script, shared.bots["b"].model.script = a, lambda turn: Say("here")
    assert answer_of(shared.asker.ask("a", "find somebody")) == "agent_offline " * 4 + "here"


def test_five_questions_in_one_conversation_are_answered_in_order_one_turn_each(shared):
    b = shared.bots["b"].model
    b.script = lambda turn: Say(f"answer to {turn.question}")
    conversation = shared.asker.ask("b", "first")["conversation_id"]
    gate, before = threading.Event(), len(b.turns)

    def script(turn):
        gate.wait(120)
        return Say(f"answer to {turn.question}")

    b.script = script
    asks = []
    for n in range(5):
        asks.append(shared.asker.begin_ask("b", f"q{n}", conversation_id=conversation))
        until(lambda: waiting(shared.asker, "b") == n + 1, 30, "the relay has the question")
    gate.set()
    assert [answer_of(ask.result(PATIENCE)) for ask in asks] == [f"answer to q{n}" for n in range(5)]
    assert [turn.question for turn in b.turns[before:]] == [f"q{n}" for n in range(5)]


def test_five_questions_in_different_conversations_are_worked_on_at_once(shared):
    together = threading.Barrier(5, timeout=120)

    def script(turn):
        together.wait()
        return Say(f"answer to {turn.question}")

    shared.bots["b"].model.script = script
    asks = [shared.asker.begin_ask("b", f"w{n}") for n in range(5)]
    assert [answer_of(ask.result(PATIENCE)) for ask in asks] == [f"answer to w{n}" for n in range(5)]


def test_a_question_that_begins_like_a_command_is_only_a_question(shared):
    shared.bots["b"].model.script = lambda turn: Say(f"you wrote: {turn.question}")
    for message in ("/restart", "/stop", "restart gateway", "/new please", "yes"):
        assert answer_of(shared.asker.ask("b", message)) == f"you wrote: {message}"


def test_a_reference_to_a_file_is_not_expanded_into_the_prompt(shared):
    shared.bots["b"].model.script = lambda turn: Say("clean" if "OPENAI" not in turn.history and "TOKEN=" not in
                                                      turn.history else "leaked")
    path = shared.bots["b"].home / ".env"
    assert answer_of(shared.asker.ask("b", f"look: @file:{path} and @file:.env")) == "clean"


def test_an_answer_of_ninety_kilobytes_arrives_whole(shared):
    # No two lines alike: newer releases take a repetition for a model that has lost its way.
    text = "".join(f"line {n} of a long answer, {n * 7919} \n" for n in range(2600)).strip()
    assert len(text) > 90_000
    shared.bots["b"].model.script = lambda turn: Say(text)
    assert answer_of(shared.asker.ask("b", "a long one")) == text


def test_a_file_and_a_picture_in_an_answer_are_kept_as_text(shared):
    file = shared.bots["b"].home / "report.pdf"
    file.write_text("x")
    shared.bots["b"].model.script = lambda turn: Say(f"see ![plan](https://example.org/plan.png)\nMEDIA:{file}")
    answer = answer_of(shared.asker.ask("b", "send me the report"))
    assert "![plan](https://example.org/plan.png)" in answer and str(file) in answer
