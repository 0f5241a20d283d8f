"""What every official SDK can do with the relay: the same scenes for each, the MCP client of Hermes first."""

import json
import re
import uuid

import pytest

from client import PYTHON_1, PYTHON_2, PYTHON_2_LEGACY, Client, Failure
from rig import until

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def question():
    """A text that no other test asks."""
    return f"question {uuid.uuid4()}"


def test_the_relay_introduces_itself_and_gives_out_no_session(alice, kind):
    assert alice.hello["protocol"] == kind.protocol
    assert alice.hello["server"] == "hermes-bridge"
    assert "ask_agent asks one and waits for the answer" in alice.hello["instructions"]
    assert alice.hello["session"] is None


def test_the_four_tools_are_listed_with_their_schemas_and_hints(alice):
    tools = {tool["name"]: tool for tool in alice.tools()}
    assert list(tools) == ["ask_agent", "get_answer", "list_agents", "reply"]
    arguments = {name: tuple(tool["inputSchema"]["properties"]) for name, tool in tools.items()}
    required = {name: tool["inputSchema"].get("required", []) for name, tool in tools.items()}
    assert set(arguments["ask_agent"]) == {"to", "message", "conversation_id", "when_offline", "request_key"}
    assert set(arguments["get_answer"]) == {"request_id", "wait_seconds"}
    assert arguments["list_agents"] == ()
    assert set(arguments["reply"]) == {"request_id", "answer"}
    assert required == {
        "ask_agent": ["to", "message"],
        "get_answer": ["request_id"],
        "list_agents": [],
        "reply": ["request_id", "answer"],
    }
    assert tools["ask_agent"]["inputSchema"]["properties"]["when_offline"]["enum"] == ["fail", "queue"]
    read_only = {name: tool["annotations"]["readOnlyHint"] for name, tool in tools.items()}
    assert read_only == {"ask_agent": False, "get_answer": True, "list_agents": True, "reply": False}
    assert all("outputSchema" not in tool for tool in tools.values())


def test_the_list_of_tools_is_small_and_free_of_words_that_hermes_flags(alice):
    listed = json.dumps(alice.tools())
    assert len(listed) < 4 * 1_500
    flagged = r"ignore previous instructions|you are now a|system:|do not (tell|inform|mention|reveal)|(curl|wget|fetch) http|exec\("
    assert not re.search(flagged, listed, re.IGNORECASE)


def test_a_ping_is_answered(alice, kind):
    if kind.protocol == "2026-07-28":
        pytest.skip("this version has no ping")
    assert alice.ping() == {}


def test_a_question_is_answered_and_the_conversation_goes_on(alice, bob, bobs_socket):
    first = question()
    call = alice.start("ask_agent", to="bob", message=first)
    wake = bobs_socket.wake()
    assert (wake["from"], wake["message"]) == ("alice", first)
    assert bob.call("reply", request_id=wake["request_id"], answer='grüße, "42"\n✓') == {"ok": True}
    outcome = call.outcome()
    assert outcome == {
        "ok": True,
        "conversation_id": wake["conversation_id"],
        "request_id": wake["request_id"],
        "answer": 'grüße, "42"\n✓',
    }
    assert UUID.fullmatch(outcome["request_id"]) and UUID.fullmatch(outcome["conversation_id"])

    call = alice.start("ask_agent", to="bob", message=question(), conversation_id=outcome["conversation_id"])
    again = bobs_socket.wake()
    assert again["conversation_id"] == outcome["conversation_id"]
    assert again["request_id"] != outcome["request_id"]
    bob.call("reply", request_id=again["request_id"], answer="second")
    assert call.outcome()["answer"] == "second"


def test_who_is_there_is_listed(alice, bobs_socket):
    def listed():
        return {agent["name"]: agent for agent in alice.call("list_agents")}

    agents = until(lambda: (now := listed())["bob"]["online"] and now)
    assert list(agents) == ["alice", "bob", "carol"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", agents["bob"]["last_seen"])
    assert agents["bob"] == {"name": "bob", "online": True, "last_seen": agents["bob"]["last_seen"], "waiting": 0}
    assert agents["carol"] == {"name": "carol", "online": False, "last_seen": None, "waiting": 0}


def test_an_answer_is_fetched_again_by_asker_and_target_and_by_nobody_else(alice, bob, bobs_socket, relay, kind):
    call = alice.start("ask_agent", to="bob", message=question())
    request_id = bobs_socket.wake()["request_id"]
    bob.call("reply", request_id=request_id, answer="kept")
    outcome = call.outcome()
    assert alice.call("get_answer", request_id=request_id) == outcome
    assert bob.call("get_answer", request_id=request_id, wait_seconds=1) == outcome
    carol = relay.client(kind, "carol")
    foreign = carol.call("get_answer", request_id=request_id)
    assert foreign["error"] == "unknown_request"
    assert foreign == carol.call("get_answer", request_id=str(uuid.uuid4()))
    assert foreign == carol.call("get_answer", request_id="no id at all")
    assert carol.call("reply", request_id=request_id, answer="mine") == bob.call("reply", request_id="x", answer="mine")


def test_get_answer_waits_for_the_answer(alice, bob, bobs_socket):
    asked = alice.start("ask_agent", to="bob", message=question())
    request_id = bobs_socket.wake()["request_id"]
    waiting = alice.start("get_answer", request_id=request_id, wait_seconds=20)
    bob.call("reply", request_id=request_id, answer="both hear it")
    assert waiting.outcome() == asked.outcome()
    assert waiting.outcome()["answer"] == "both hear it"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"to": "nobody"}, "unknown_agent"),
        ({"to": "carol"}, "agent_offline"),
        ({"to": "alice"}, "self_ask"),
        ({"to": "carol", "conversation_id": "0190a0b0-0000-7000-8000-000000000000"}, "unknown_conversation"),
        ({"to": "carol", "conversation_id": "never heard of"}, "unknown_conversation"),
        ({"to": "carol", "message": "x" * 1_001}, "too_large"),
        ({"to": "carol", "when_offline": "queue"}, "queued"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_refused_question_is_an_outcome_and_no_error(alice, arguments, error):
    outcome = alice.call("ask_agent", **{"message": question(), **arguments})
    assert outcome["ok"] is False
    assert outcome["error"] == error
    assert outcome["message"].endswith(".")
    assert UUID.fullmatch(outcome["request_id"])
    fetched = alice.call("get_answer", request_id=outcome["request_id"])
    assert (fetched["ok"], fetched["error"]) == (False, error)


def test_a_bot_that_stays_silent_is_a_timeout_and_its_late_answer_is_kept(alice, bob, bobs_socket):
    outcome = alice.call("ask_agent", to="bob", message=question())
    assert (outcome["ok"], outcome["error"]) == (False, "timeout")
    wake = bobs_socket.wake()
    assert outcome["request_id"] == wake["request_id"]
    assert bob.call("reply", request_id=wake["request_id"], answer="at last") == {"ok": True, "late": True}
    late = alice.call("get_answer", request_id=wake["request_id"])
    assert (late["ok"], late["answer"], late["late"], late["outcome"]) == (True, "at last", True, "timeout")


def test_a_second_and_a_blank_answer_are_refused_without_an_error(alice, bob, bobs_socket):
    call = alice.start("ask_agent", to="bob", message=question())
    request_id = bobs_socket.wake()["request_id"]
    assert bob.call("reply", request_id=request_id, answer=" \n")["error"] == "empty_answer"
    assert bob.call("reply", request_id=request_id, answer="x" * 1_001)["error"] == "too_large"
    assert bob.call("reply", request_id=request_id, answer="first") == {"ok": True}
    assert bob.call("reply", request_id=request_id, answer="second")["error"] == "already_answered"
    assert call.outcome()["answer"] == "first"


def test_the_same_question_asked_twice_wakes_once(alice, bob, bobs_socket):
    same = {"to": "bob", "message": question(), "request_key": question()}
    calls = [alice.start("ask_agent", **same), alice.start("ask_agent", **same)]
    request_id = bobs_socket.wake()["request_id"]
    conflict = alice.call("ask_agent", **{**same, "message": "another text"})
    assert (conflict["error"], conflict["first_request_id"]) == ("conflict", request_id)
    bob.call("reply", request_id=request_id, answer="once")
    assert [call.outcome()["request_id"] for call in calls] == [request_id, request_id]
    # Asked again after its end it is still the same question.
    assert alice.call("ask_agent", **same)["answer"] == "once"
    bobs_socket.hears_nothing_for(0.2)


def test_an_unknown_tool_is_a_protocol_error(alice):
    with pytest.raises(Failure) as failure:
        alice.start("dance").result()
    assert failure.value.code == -32602
    assert "dance" in failure.value.message


def test_wrong_arguments_are_an_error_that_names_them(alice):
    assert alice.misuse("ask_agent", to="bob") == "message: is missing"
    assert alice.misuse("ask_agent", to=5, message="m") == "to: a text is expected, not this number"
    assert alice.misuse("ask_agent", to="bob", message="m", cc="carol") == "cc: ask_agent has no such argument"
    assert "when_offline" in alice.misuse("ask_agent", to="bob", message="m", when_offline="later")
    assert "wait_seconds" in alice.misuse("get_answer", request_id="r", wait_seconds=-1)


def test_five_calls_of_one_client_run_side_by_side(alice, bob, bobs_socket):
    questions = [question() for _ in range(5)]
    calls = {text: alice.start("ask_agent", to="bob", message=text) for text in questions}
    wakes = [bobs_socket.wake() for _ in questions]
    assert {wake["message"] for wake in wakes} == set(questions)
    assert not any(call.done() for call in calls.values())
    for wake in reversed(wakes):
        bob.call("reply", request_id=wake["request_id"], answer=f"re: {wake['message']}")
    for text, call in calls.items():
        assert call.outcome()["answer"] == f"re: {text}"


@pytest.mark.parametrize("leave", ["stops waiting", "dies"])
def test_a_caller_that_leaves_finds_its_answer_later(alice, bob, bobs_socket, relay, kind, leave):
    leaver = relay.client(kind, "alice") if leave == "dies" else alice
    call = leaver.start("ask_agent", to="bob", message=question())
    wake = bobs_socket.wake()
    if leave == "dies":
        leaver.kill()
    else:
        call.abandon()
    working = alice.call("get_answer", request_id=wake["request_id"])
    assert (working["error"], working["request_id"]) == ("still_working", wake["request_id"])
    assert bob.call("reply", request_id=wake["request_id"], answer="for whoever asks") == {"ok": True}
    fetched = alice.call("get_answer", request_id=wake["request_id"])
    assert (fetched["ok"], fetched["answer"]) == (True, "for whoever asks")
    assert "late" not in fetched


def test_a_wrong_token_is_refused(relay, kind):
    with pytest.raises(Failure) as failure:
        assert Client(kind, relay.url, "not a token").hello
    # SDK 2.x keeps the status to itself; test_http.py looks at it.
    assert re.search(r"401|agent token is needed|error response", failure.value.message)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_older_protocol_versions_are_spoken(start, version):
    relay = start()
    alice = relay.client(PYTHON_1, "alice", protocol=version)
    assert alice.hello["protocol"] == version
    assert [agent["name"] for agent in alice.call("list_agents")] == ["alice", "bob", "carol"]


READ_TIMEOUT = 2.0


@pytest.mark.parametrize("sdk", [PYTHON_1, PYTHON_2, PYTHON_2_LEGACY], ids=str)
def test_an_ask_outlives_the_read_timeout_of_its_client(start, sdk):
    relay = start(keep_alive_ms=500, ask_max_wait_ms=6_000)
    bob = relay.client(sdk, "bob")
    bot = relay.bot("bob")
    alice = relay.client(sdk, "alice", read_timeout=READ_TIMEOUT).connected()
    bob.connected()
    answered = alice.start("ask_agent", to="bob", message="answered after a silence")
    wake = bot.wake()
    unanswered = alice.start("ask_agent", to="bob", message="not answered in time")
    other = bot.wake()
    bot.hears_nothing_for(2 * READ_TIMEOUT)
    bob.call("reply", request_id=wake["request_id"], answer="worth the wait")
    assert answered.outcome()["answer"] == "worth the wait"
    # The relay ends the wait before the client does, and the exchange goes on.
    outcome = unanswered.outcome()
    assert (outcome["error"], outcome["request_id"]) == ("still_working", other["request_id"])
    bob.call("reply", request_id=other["request_id"], answer="here it is")
    assert alice.call("get_answer", request_id=other["request_id"])["answer"] == "here it is"


def test_without_the_comments_that_client_would_have_given_up(start):
    """Shows that the test above has teeth."""
    relay = start(keep_alive_ms=60_000)
    bot = relay.bot("bob")
    alice = relay.client(PYTHON_2, "alice", read_timeout=READ_TIMEOUT)
    call = alice.start("ask_agent", to="bob", message="answered too late for this client")
    bot.wake()
    with pytest.raises(Failure):
        call.result()
