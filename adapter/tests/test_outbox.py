"""The file of undelivered answers."""

import json
import os
import stat

from adapter import outbox
from adapter.outbox import Outbox


def test_an_answer_survives_the_process(tmp_path):
    path = tmp_path / "bridge" / "outbox.json"
    kept = Outbox(path).put("r1", {"answer": "42"})
    again = Outbox(path).undelivered()
    assert [vars(a) for a in again] == [vars(kept)]
    assert again[0].arguments == {"request_id": "r1", "answer": "42"}


def test_a_confirmed_answer_is_gone_from_the_file(tmp_path):
    path = tmp_path / "outbox.json"
    box = Outbox(path)
    box.confirm(box.put("r1", {"answer": "42"}))
    assert Outbox(path).undelivered() == [] and not box.holds("r1")


def test_a_late_confirmation_does_not_take_the_answer_that_replaced_it(tmp_path):
    box = Outbox(tmp_path / "outbox.json")
    first = box.put("r1", {"answer": "big"})
    second = box.put("r1", {"error": "failed"})
    box.confirm(first)
    assert box.undelivered() == [second]


def test_the_file_is_for_its_owner_only(tmp_path):
    path = tmp_path / "bridge" / "outbox.json"
    Outbox(path).put("r1", {"answer": "x"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_begun_turn_is_remembered_until_it_is_answered(tmp_path):
    path = tmp_path / "outbox.json"
    box = Outbox(path)
    box.turn_began("c1", "r1")
    box.turn_began("c2", "r2")
    assert Outbox(path).begun() == {"c1": "r1", "c2": "r2"}
    box.put("r1", {"answer": "x"}, "c1")
    box.turn_ended("c2")
    assert Outbox(path).begun() == {}


def test_a_broken_file_is_set_aside_and_does_not_stop_the_bot(tmp_path):
    path = tmp_path / "outbox.json"
    for broken in ("", "{", "[]", '{"answers":[{"x":1}],"turns":{}}', "\x00"):
        path.write_text(broken)
        box = Outbox(path)
        assert box.undelivered() == []
        box.put("r1", {"answer": "x"})
        assert len(Outbox(path).undelivered()) == 1
    assert (tmp_path / "outbox.broken").exists()


def test_answers_older_than_the_relay_keeps_questions_are_dropped(tmp_path):
    path = tmp_path / "outbox.json"
    Outbox(path, clock=lambda: 1000.0).put("r1", {"answer": "x"})
    assert Outbox(path, clock=lambda: 1000.0 + outbox.MAX_AGE_SECONDS + 1).undelivered() == []


def test_a_full_outbox_gives_up_the_oldest_and_says_which(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(outbox, "MAX_ANSWERS", 2)
    box = Outbox(tmp_path / "outbox.json")
    for request_id in ("r1", "r2", "r3"):
        box.put(request_id, {"answer": "secret text"})
    assert [a.request_id for a in box.undelivered()] == ["r2", "r3"]
    assert "r1" in caplog.text and "secret text" not in caplog.text


def test_a_disk_that_cannot_be_written_is_said_once_and_answers_still_go_out(tmp_path, caplog):
    (tmp_path / "file").write_text("not a directory")
    box = Outbox(tmp_path / "file" / "outbox.json")
    box.put("r1", {"answer": "x"})
    box.put("r2", {"answer": "y"})
    assert len(box.undelivered()) == 2
    assert caplog.text.count("cannot write") == 1


def test_a_crash_while_writing_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "outbox.json"
    Outbox(path).put("r1", {"answer": "x"})
    before = path.read_text()

    def crash(*_):
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", crash)
    Outbox(path).put("r2", {"answer": "y"})
    assert path.read_text() == before and json.loads(before)["answers"][0]["request_id"] == "r1"
