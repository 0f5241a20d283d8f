"""What the hooks tell about a turn."""

from adapter import hooks
from adapter.turns import EMPTY, Turn


class Context:
    def __init__(self):
        self.hooks = {}

    def register_hook(self, name, callback):
        self.hooks[name] = callback


def registered(turn):
    context = Context()
    hooks.register(context, lambda: turn)
    return context.hooks


def test_a_normal_turn_begins_and_ends_with_the_models_text():
    turn = Turn("r1", "c1")
    said = registered(turn)
    said["pre_llm_call"](session_id="s1", telemetry_schema_version=1)
    said["post_llm_call"](session_id="s1", assistant_response="42", conversation_history=[
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": "42"}])
    said["on_session_end"](session_id="s1", completed=True, interrupted=False)
    assert (turn.session_id, turn.model_began, turn.model_ended, turn.model_text) == ("s1", True, True, "42")
    assert not turn.interrupted and not turn.failed


def test_hermes_words_about_a_silent_model_are_not_the_models():
    for content in ("", "  ", None, EMPTY):
        turn = Turn("r1", "c1")
        registered(turn)["post_llm_call"](assistant_response="No reply: empty", conversation_history=[
            {"role": "user", "content": "hi"}, {"role": "assistant", "content": content}])
        assert turn.model_text == EMPTY


def test_the_reason_of_newer_releases_tells_it_too():
    turn = Turn("r1", "c1")
    registered(turn)["on_session_end"](session_id="s1", turn_exit_reason="empty_response_exhausted")
    assert turn.model_text == EMPTY


def test_a_subagent_that_was_stopped_does_not_stop_the_turn():
    turn = Turn("r1", "c1")
    said = registered(turn)
    said["pre_llm_call"](session_id="s1")
    said["pre_llm_call"](session_id="child")
    said["on_session_end"](session_id="child", interrupted=True, failed=True)
    assert (turn.session_id, turn.interrupted, turn.failed) == ("s1", False, False)
    said["on_session_end"](session_id="s1", interrupted=True, failed=True)
    assert turn.interrupted and turn.failed


def test_turns_of_other_platforms_are_none_of_ours():
    said = registered(None)
    for name in said:
        said[name](session_id="s1", assistant_response="x")


def test_outside_a_gateway_there_is_no_turn():
    assert hooks.current_turn() is None
