"""The lines in front of the sessions."""

from adapter import sessions
from adapter.frames import Wake
from adapter.sessions import SessionQueues, chat_id_of


def wake(request_id, conversation="c1"):
    return Wake(request_id, conversation, "anna", "hi")


def queued(*request_ids):
    """Queues with these questions, all of one conversation."""
    queues = SessionQueues()
    for request_id in request_ids:
        queues.add(wake(request_id))
    return queues


def startable(queues):
    return [wake.request_id for _, wake in queues.startable()]


def test_questions_of_one_session_run_one_at_a_time_and_in_order():
    queues = queued("r1", "r2", "r3")
    ran = []
    while queues.startable():
        chat_id, first = queues.startable()[0]
        assert queues.start(chat_id, first.request_id) is first
        assert queues.startable() == []
        ran.append(first.request_id)
        queues.close(first.request_id)
        queues.turn_over(chat_id)
    assert ran == ["r1", "r2", "r3"]


def test_sessions_do_not_wait_for_each_other():
    queues = SessionQueues()
    queues.add(wake("r1", "c1"))
    queues.add(wake("r2", "c2"))
    assert startable(queues) == ["r1", "r2"]


def test_an_answered_question_still_keeps_its_session_busy_until_the_turn_is_over():
    queues = queued("r1", "r2")
    queues.start("c1", "r1")
    queues.close("r1")
    assert queues.startable() == []
    assert [(w.request_id, on) for w, on in queues.open()] == [("r2", False)]
    queues.turn_over("c1")
    assert startable(queues) == ["r2"]


def test_a_closed_question_leaves_its_line():
    queues = queued("r1")
    queues.close("r1")
    assert queues.startable() == [] and queues.closed("r1") and not queues.knows("r1")


def test_a_question_that_was_put_back_is_first_again():
    queues = queued("r1", "r2")
    queues.start("c1", "r1")
    queues.put_back("c1")
    assert startable(queues) == ["r1"]


def test_full_lines_refuse_the_next_question(monkeypatch):
    monkeypatch.setattr(sessions, "MAX_WAITING", 2)
    queues = SessionQueues()
    assert [queues.add(wake(f"r{n}")) for n in range(3)] == [True, True, False]


def test_closed_questions_are_forgotten_oldest_first(monkeypatch):
    monkeypatch.setattr(sessions, "MAX_CLOSED", 2)
    queues = SessionQueues()
    for request_id in ("r1", "r2", "r3"):
        queues.close(request_id)
    assert [queues.closed(r) for r in ("r1", "r2", "r3")] == [False, True, True]


def test_a_chat_id_never_holds_a_colon_and_never_collides():
    assert chat_id_of("0190-ab.c_d") == "0190-ab.c_d"
    odd = [chat_id_of(c) for c in ("a:b", "a;b", "a b", "ä", "x" * 300, "x" * 301, "\ud800")]
    assert len(set(odd)) == len(odd)
    assert not any(set(":/ \\") & set(chat_id) for chat_id in odd)
