"""Turns that do not end with an answer, and prompts that nobody can answer: said at once, and clearly."""

from __future__ import annotations

import pytest
from model import Fail, Say, Use
from stage import VERSION


def clarify(turn):
    """A call of the tool as this release declares it."""
    tool = next(t["function"] for t in turn.body["tools"] if t["function"]["name"] == "clarify")
    one = {"question": "red or blue?", "choices": ["red", "blue"]}
    return Use.tool("clarify", **({"questions": [one]} if "questions" in tool["parameters"]["properties"] else one))


def dangerous(turn):
    return Use.tool("terminal", command="rm -rf ./hermes-bridge-tests-nothing-here")


def test_a_model_that_fails_is_a_failure_with_its_reason(shared):
    shared.bots["a"].model.script = lambda turn: Fail(400)
    result = shared.asker.ask("a", "hi")
    assert (result["ok"], result["error"]) == (False, "failed")
    assert "ended with an error" in result["message"]


def test_a_turn_in_which_the_model_chooses_silence_ends_at_once(shared):
    shared.bots["a"].model.script = lambda turn: Say("NO_REPLY")
    result = shared.asker.ask("a", "hi", seconds=20)
    assert (result["ok"], result["error"]) == (False, "failed") and "without writing an answer" in result["message"]


@pytest.mark.skipif(not VERSION.startswith("0.19"), reason="newer releases retry an empty answer for a minute")
def test_a_model_that_says_nothing_ends_the_question(shared):
    shared.bots["a"].model.script = lambda turn: Say("")
    result = shared.asker.ask("a", "hi")
    assert (result["ok"], result["error"]) == (False, "failed") and "no text" in result["message"]


def test_the_session_is_free_after_a_failure(shared):
    shared.bots["a"].model.script = lambda turn: Fail(400) if turn.question == "fail" else Say("well again")
    first = shared.asker.ask("a", "fail")
    second = shared.asker.ask("a", "now?", conversation_id=first["conversation_id"])
    assert second["answer"] == "well again"


def test_a_clarify_prompt_is_answered_at_once_with_decide_yourself(shared):
    shared.bots["a"].model.script = lambda turn: Say(f"told: {turn.results[-1]}") if turn.results else clarify(turn)
    assert "No human is present in this conversation" in shared.asker.ask("a", "choose")["answer"]


def test_a_command_that_needs_approval_is_denied_at_once_with_a_reason(shared):
    shared.bots["a"].model.script = lambda turn: Say(f"told: {turn.results[-1]}") if turn.results else dangerous(turn)
    answer = shared.asker.ask("a", "delete it")["answer"]
    assert "denied" in answer and "No human is present in this conversation" in answer


def test_a_clarify_prompt_goes_back_to_the_asker_if_the_operator_wants_that(shared):
    def script(turn):
        if "blue" in turn.question:
            return Say("painted it blue")
        return Say("(waiting)") if turn.results else clarify(turn)

    shared.bots["b"].model.script = script
    asked = shared.asker.ask("b", "paint it")
    assert asked["answer"].startswith("[INPUT_REQUIRED] red or blue?\n")
    assert "\n1. red" in asked["answer"] and "\n2. blue" in asked["answer"]
    done = shared.asker.ask("b", "blue", conversation_id=asked["conversation_id"])
    assert done["answer"] == "painted it blue"


def test_an_asker_allows_one_command_once_if_the_operator_wants_that(shared):
    def script(turn):
        return Say(f"told: {turn.results[-1]}") if turn.results else dangerous(turn)

    shared.bots["b"].model.script = script
    asked = shared.asker.ask("b", "delete it")
    assert asked["answer"].startswith("[INPUT_REQUIRED]") and "rm -rf ./hermes-bridge" in asked["answer"]
    done = shared.asker.ask("b", "approve", conversation_id=asked["conversation_id"])
    assert '"exit_code": 0' in done["answer"], done
    again = shared.asker.ask("b", "once more", conversation_id=asked["conversation_id"])
    assert again["answer"].startswith("[INPUT_REQUIRED]")


def test_the_bots_token_is_not_in_its_shell_as_far_as_hermes_allows(shared):
    def script(turn):
        return Say(turn.results[-1]) if turn.results else Use.tool(
            "terminal", command="echo seen=$(env | grep -c HERMES_BRIDGE_TOKEN)")

    shared.bots["a"].model.script = script
    answer = shared.asker.ask("a", "look")["answer"]
    # 0.19 gives a plugin's variables to the terminal; newer releases keep them away.
    assert ("seen=1" if VERSION.startswith("0.19") else "seen=0") in answer


def test_no_log_of_a_bot_holds_its_token_or_the_texts(shared):
    shared.bots["a"].model.script = lambda turn: Say("an-answer-that-is-secret")
    shared.asker.ask("a", "a-question-that-is-secret")
    ours = [line for line in shared.bots["a"].log().splitlines() if "hermes_plugins.hermes_bridge" in line]
    assert ours
    for secret in ("an-answer-that-is-secret", "a-question-that-is-secret", shared.relay.token("a")):
        assert not any(secret in line for line in ours)
