"""The doctor on the bot's side."""

import json

import pytest
from adapter import bot_check, config_check, install

URL = "wss://relay.example/bridge/connect"


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("HERMES_BRIDGE_TOKEN", "HERMES_BRIDGE_RELAY_URL"):
        monkeypatch.delenv(name, raising=False)
    install.main([f"--data-dir={tmp_path}", "--token=t", f"--relay-url={URL}"])
    (tmp_path / "gateway_state.json").write_text(json.dumps({"platforms": {"hermes-bridge": {"state": "connected"}}}))
    return tmp_path


def bad(findings):
    return [sentence for mark, sentence in findings if mark == "BAD"]


def look(home):
    env = install.read_env(home / ".env")
    return (bot_check.plugin(home, install.version()) + bot_check.configuration(home, config_check)
            + bot_check.environment(home, env.get("HERMES_BRIDGE_RELAY_URL", ""), env.get("HERMES_BRIDGE_TOKEN", ""))
            + bot_check.gateway(home))


def test_a_fresh_install_with_a_connected_gateway_is_well(home):
    assert bad(look(home)) == []


@pytest.mark.parametrize("spoil,said", [
    (lambda h: (h / "plugins/hermes-bridge/plugin.yaml").write_text("version: 0.1.4\n"), "the plugin is version 0.1.4"),
    (lambda h: (h / "plugins/hermes-bridge/__init__.py").unlink(), "the plugin is not installed"),
    (lambda h: (h / "config.yaml").write_text("plugins: {}\n"), "not in plugins.enabled"),
    (lambda h: (h / "config.yaml").write_text("plugins: {enabled: [hermes-bridge], disabled: [hermes-bridge]}\n"),
     "in plugins.disabled"),
    (lambda h: (h / "config.yaml").write_text(
        "plugins: {enabled: [hermes-bridge]}\nplatforms: {hermes-bridge: {enabled: no}}\n"), "switched off"),
    (lambda h: (h / "config.yaml").write_text(
        "plugins: {enabled: [hermes-bridge]}\nmcp_servers: {hermes-bridge: {url: x, timeout: 90}}\n"), "timeout is 90 s"),
    (lambda h: (h / "config.yaml").write_text("a: [\n"), "not valid YAML"),
    (lambda h: (h / "config.yaml").unlink(), "cannot be read"),
    (lambda h: (h / ".env").write_text("X=1\n"), "HERMES_BRIDGE_TOKEN is not in"),
    (lambda h: (h / ".env").chmod(0o644), "can be read by others"),
    (lambda h: (h / "gateway_state.json").write_text(json.dumps({"platforms": {"hermes-bridge": {
        "state": "fatal", "error_message": "HTTP 401"}}})), "fatal"),
])
def test_what_is_wrong_is_named(home, spoil, said):
    if not config_check.Reader().name:
        pytest.skip("no YAML parser here")
    spoil(home)
    assert any(said in sentence for sentence in bad(look(home))), look(home)


@pytest.mark.parametrize("health,tools,said", [
    ((200, "{}"), (200, '{"name":"a"},{"name":"b"}'), []),
    ((0, "Connection refused"), (0, ""), ["does not answer"]),
    ((200, "{}"), (401, ""), ["does not accept this token"]),
    ((200, "{}"), (500, "HTTP 500"), ["answer HTTP 500"]),
])
def test_the_relay_is_asked_over_http_only(health, tools, said):
    asked = []

    def fetch(url, body, token):
        asked.append(url)
        return tools if url.endswith("/mcp") else health

    found = bad(bot_check.relay(URL, "t", fetch))
    assert len(found) == len(said) and all(part in sentence for part, sentence in zip(said, found))
    assert asked[0] == "https://relay.example/health"


def test_a_gateway_that_never_started_is_only_a_note(tmp_path):
    assert bot_check.gateway(tmp_path)[0][0] == "note"
