"""The frames, read and written."""

import json

import pytest
from adapter import frames


def test_a_wake_of_the_original_relay_without_a_type_is_read():
    wake = frames.decode('{"request_id":"r1","conversation_id":"c1","from":"anna","message":"hi"}')
    assert wake == frames.Wake("r1", "c1", "anna", "hi")


def test_a_wake_keeps_attempt_hops_and_origin():
    wake = frames.decode(json.dumps({
        "type": "wake", "request_id": "r1", "conversation_id": "c1", "from": "anna", "message": "hi",
        "deadline_ms": 5, "attempt": 2, "hops": 3, "origin": "zoe", "something_new": {"a": 1}}))
    assert (wake.attempt, wake.hops, wake.origin, wake.quiet_ms) == (2, 3, "zoe", 5)


@pytest.mark.parametrize("text", [
    "", "null", "[]", "7", "{", '{"type":"unheard_of","request_id":"r"}', '{"type":"wake"}',
    '{"type":"wake","request_id":"r","conversation_id":"c"}',
    '{"type":"wake","request_id":5,"conversation_id":"c","message":"x"}',
    '{"type":"wake","request_id":"r","conversation_id":"c","message":["x"]}',
    '{"type":"result","result":{"ok":true}}', '{"type":"answer","request_id":"r"}',
    '{"type":"cancelled"}', b"\xff\xfe",
])
def test_what_is_not_understood_is_ignored(text):
    assert frames.decode(text) is None


def test_every_truncation_of_a_wake_is_ignored():
    whole = '{"type":"wake","request_id":"r1","conversation_id":"c1","from":"a","message":"m"}'
    assert [frames.decode(whole[:end]) for end in range(len(whole))] == [None] * len(whole)


def test_a_result_carries_the_tools_own_object():
    assert frames.decode('{"type":"result","id":"7","result":{"ok":false}}') == frames.Result("7", {"ok": False})


def test_a_late_answer_is_read_flat_and_nested():
    flat = frames.decode('{"type":"answer","request_id":"r","conversation_id":"c","from":"b","answer":"42"}')
    nested = frames.decode('{"type":"answer","request_id":"r","from":"b","result":{"ok":true,"answer":"42",'
                           '"conversation_id":"c"}}')
    assert flat == nested == frames.LateAnswer("r", "c", "b", "42")


def test_a_late_failure_says_so():
    late = frames.decode('{"type":"answer","request_id":"r","ok":false,"error":"timeout","message":"Silence."}')
    assert (late.ok, late.text) == (False, "Silence.")


def test_cancelled_and_restarting_are_read():
    assert frames.decode('{"type":"cancelled","request_id":"r"}') == frames.Cancelled("r")
    assert frames.decode('{"type":"restarting"}') == frames.Restarting()


def test_hello_names_instance_and_features():
    assert json.loads(frames.hello("0.2.0", "abc")) == {
        "type": "hello", "adapter": "0.2.0", "instance": "abc",
        "features": ["answer", "cancelled", "restarting"]}


def test_a_heartbeat_has_the_session_only_when_it_is_known():
    assert json.loads(frames.heartbeat("r")) == {"type": "heartbeat", "request_id": "r"}
    assert json.loads(frames.heartbeat("r", "s", "running")) == {
        "type": "heartbeat", "request_id": "r", "session_id": "s", "phase": "running"}


def test_a_call_is_encoded_the_same_way_every_time():
    call = frames.Call("id1", "reply", {"request_id": "r", "answer": "ä"})
    assert call.encode() == call.encode()
    assert json.loads(call.encode()) == {
        "type": "call", "id": "id1", "tool": "reply", "arguments": {"request_id": "r", "answer": "ä"}}


def test_a_lone_surrogate_of_a_model_stays_inside_valid_utf8():
    assert frames.Call("i", "reply", {"answer": "\ud800"}).encode().encode("utf-8").decode("ascii")


def test_a_wake_keeps_the_owners_note_and_has_none_by_default():
    wake = {"request_id": "r", "conversation_id": "c", "from": "a", "message": "m", "type": "wake"}
    assert frames.decode(json.dumps(wake)).note == ""
    assert frames.decode(json.dumps({**wake, "note": "careful"})).note == "careful"
    assert frames.decode(json.dumps({**wake, "note": 7})).note == ""
