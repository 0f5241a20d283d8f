"""The tools as the model sees them."""

import json

import pytest
from adapter import tools


class Bridge:
    def __init__(self, profile=""):
        self.profile, self.calls, self.result = profile, [], {"ok": True}

    def call_tool(self, tool, arguments, during, interrupted):
        self.calls.append((tool, arguments, during))
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.fixture
def bridge():
    made = Bridge()
    tools.announce(made)
    yield made
    tools.withdraw(made)


def session(monkeypatch, **values):
    monkeypatch.setattr(tools, "session_value", lambda name: values.get(name, ""))


def test_without_a_bridge_the_tools_are_absent_and_say_why_when_called():
    assert not tools.available()
    assert json.loads(tools.run_tool("list_agents", {}))["error"] == "relay_unreachable"


def test_the_result_is_the_relays_object_as_text(bridge):
    bridge.result = {"ok": True, "answer": "grüße"}
    assert tools.run_tool("ask_agent", {"to": "b", "message": "x"}) == '{"ok": true, "answer": "grüße"}'


def test_arguments_that_a_model_left_empty_do_not_travel(bridge):
    tools.run_tool("ask_agent", {"to": "b", "message": "x", "conversation_id": "", "when_offline": None})
    assert bridge.calls == [("ask_agent", {"to": "b", "message": "x"}, "")]


def test_a_reply_without_an_id_means_the_question_of_this_turn(bridge, monkeypatch):
    session(monkeypatch, PLATFORM="hermes-bridge", MESSAGE_ID="r7")
    tools.run_tool("reply", {"answer": "42"})
    assert bridge.calls == [("reply", {"answer": "42", "request_id": "r7"}, "r7")]


def test_the_message_id_of_another_platform_is_no_request(bridge, monkeypatch):
    session(monkeypatch, PLATFORM="telegram", MESSAGE_ID="77")
    tools.run_tool("list_agents", None)
    assert bridge.calls == [("list_agents", {}, "")]


def test_the_bridge_of_the_sessions_profile_is_used(bridge, monkeypatch):
    other = Bridge("work")
    tools.announce(other)
    session(monkeypatch, PROFILE="work")
    tools.run_tool("list_agents", {})
    tools.withdraw(other)
    assert (len(other.calls), len(bridge.calls)) == (1, 0)


def test_a_failure_inside_is_told_to_the_model_without_a_traceback(bridge):
    bridge.result = RuntimeError("secret detail")
    said = tools.run_tool("list_agents", {})
    assert json.loads(said)["error"] == "failed" and "secret detail" not in said


def test_the_schemas_hold_nothing_that_hermes_scanner_flags():
    text = json.dumps(tools.SCHEMAS).lower()
    for word in ("ignore previous", "you are now", "system:", "do not tell", "do not reveal", "curl", "wget", "exec("):
        assert word not in text


def test_all_schemas_together_stay_small():
    assert len(json.dumps(tools.SCHEMAS)) < 3200


def test_every_tool_is_registered_with_a_handler_that_reaches_the_bridge(bridge):
    class Context:
        made = {}

        def register_tool(self, name, toolset, schema, handler, check_fn, description, emoji):
            assert schema["name"] == name and toolset == "hermes-bridge" and check_fn()
            self.made[name] = handler

    tools.register(Context())
    assert sorted(Context.made) == ["ask_agent", "get_answer", "list_agents", "reply"]
    Context.made["get_answer"]({"request_id": "r1"}, task_id="t")
    assert bridge.calls == [("get_answer", {"request_id": "r1"}, "")]
