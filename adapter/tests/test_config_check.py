"""The comparison that stands between an edit and the file."""

import sys

import pytest
from adapter import config_check
from adapter.config_check import Reader, Unreadable, complaint, outline_complaint

ADD = [["add", "plugins", "enabled", "x"]]


@pytest.fixture
def reader():
    found = Reader()
    if not found.name:
        pytest.skip("no YAML parser here")
    return found


def test_an_honest_edit_passes(reader):
    assert complaint(reader, "a: no\n", "a: no\nplugins: {enabled: [x]}\n", ADD) == ""


@pytest.mark.parametrize("after", [
    "a: 'no'\nplugins: {enabled: [x]}\n",
    "a: no\nplugins: {enabled: [y, x]}\n",
    "a: no\nb: 1\nplugins: {enabled: [x]}\n",
    "plugins: {enabled: [x]}\n",
    "a: no\n",
    "a: no\nplugins: {enabled: [x], more: 1}\n",
])
def test_anything_more_or_less_is_noticed(reader, after):
    assert "meaning of something else" in complaint(reader, "a: no\n", after, ADD)


@pytest.mark.parametrize("before,after", [
    ("m: 0755\n", "m: 755\n"), ("d: 2024-01-31\n", "d: '2024-01-31'\n"), ("t: 12:30\n", "t: '12:30'\n"),
    ("n: 1.0\n", "n: 1\n"), ("y: yes\n", "y: 'yes'\n"), ("z: ~\n", "z: ''\n"),
])
def test_a_value_that_changes_its_type_is_noticed(reader, before, after):
    added = "plugins: {enabled: [x]}\n"
    assert complaint(reader, before + added, after + added, ADD) != ""


def test_what_cannot_be_read_back_is_noticed(reader):
    assert "could not be read back" in complaint(reader, "a: 1\n", "a: [1\n", ADD)


def test_broken_yaml_is_named(reader):
    with pytest.raises(Unreadable):
        reader.read("a: [1\nb: {")


def test_a_parser_in_another_python_is_as_good(monkeypatch):
    here = Reader()
    if here.name != "this Python":
        pytest.skip("no YAML parser here")
    blind = Reader.__new__(Reader)
    blind._local, blind._python = None, sys.executable
    blind.name = blind._python
    text = "a: {b: [no, 0755, 2024-01-31, 'ü', ~]}\n"
    assert blind.read(text) == here.read(text)
    with pytest.raises(Unreadable):
        blind.read("a: [")


def test_without_any_parser_foreign_lines_must_not_change():
    before = "a: 1\nplugins:\n  enabled:\n    - b\n"
    assert outline_complaint(before, before + "    - x\n", ADD) == ""
    assert "none of this edit's" in outline_complaint(before, before.replace("a: 1", "a: 2"), ADD)
    assert "would be lost" in outline_complaint("plugins:\n  enabled: []\n", "", ADD)


def test_the_pythons_looked_at_exist():
    assert all(config_check.os.access(python, config_check.os.X_OK) for python in config_check.hermes_pythons())
