"""Settings from the environment and the configuration."""

from pathlib import Path

import pytest
from adapter import settings


def test_the_environment_comes_before_the_configuration():
    found = settings.load({"token": "b", "relay_url": "ws://b/x"}, {"HERMES_BRIDGE_TOKEN": "a"})
    assert (found.token, found.relay_url) == ("a", "ws://b/x")


def test_a_token_is_never_printed():
    assert "hush" not in repr(settings.load({"token": "hush"}, {}))


def test_unknown_words_fall_back_to_the_safe_ones():
    found = settings.load({"tools": "magic", "prompts": "yolo"}, {})
    assert (found.tools, found.prompts) == ("auto", "deny")


@pytest.mark.parametrize("token,url,wrong", [
    ("", "wss://h/bridge/connect", "HERMES_BRIDGE_TOKEN is not set"),
    ("t", "", "HERMES_BRIDGE_RELAY_URL is not set"),
    ("t", "https://h/mcp", "must look like wss://HOST/bridge/connect"),
    ("t", "wss://", "must look like"),
])
def test_what_is_missing_is_said_in_one_sentence(token, url, wrong):
    assert wrong in settings.problem(settings.load({"token": token, "relay_url": url}, {}))


def test_a_complete_pair_has_no_problem():
    assert settings.problem(settings.load({"token": "t", "relay_url": "ws://h:1/bridge/connect"}, {})) == ""


def test_the_home_is_the_one_of_the_environment_without_hermes(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "hermes_constants", None)
    assert settings.hermes_home({"HERMES_HOME": "/data/x"}) == Path("/data/x")
    assert settings.hermes_home({}) == Path.home() / ".hermes"
