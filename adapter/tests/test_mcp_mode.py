"""The relay among the bot's MCP servers."""

import sys
import types

import pytest
from adapter import mcp_mode, settings

HERE = settings.load({"token": "t", "relay_url": "wss://relay.example:8443/bridge/connect"}, {})


@pytest.mark.parametrize("servers,name", [
    (None, ""), ([], ""), ({}, ""), ({"x": None}, ""),
    ({"docs": {"url": "https://other.example/mcp"}}, ""),
    ({"bridge": {"url": "https://RELAY.example:8443/mcp"}}, "bridge"),
    ({"bridge": {"url": "https://relay.example:8443/mcp", "enabled": False}}, ""),
    ({"bridge": {"url": "https://relay.example:8443/mcp", "enabled": "no"}}, ""),
    ({"hermes-bridge": {"url": "http://relay-inside:8787/mcp"}}, "hermes-bridge"),
    ({"hermes-bridge": {"command": "something"}}, ""),
])
def test_the_relay_is_recognised_by_its_host_or_its_name(servers, name):
    assert mcp_mode.relay_server(servers, HERE) == name


def test_native_tools_step_aside_for_the_relay_in_mcp_servers():
    servers = {"hermes-bridge": {"url": "https://relay.example:8443/mcp"}}
    assert not mcp_mode.use_native_tools(HERE, servers, installed=True)
    assert mcp_mode.use_native_tools(HERE, {}, installed=True)


def test_native_tools_stay_where_hermes_has_no_mcp_at_all():
    assert mcp_mode.use_native_tools(HERE, {"hermes-bridge": {"url": "https://relay.example:8443/mcp"}},
                                     installed=False)


def test_the_operators_word_wins():
    servers = {"hermes-bridge": {"url": "https://relay.example:8443/mcp"}}
    assert mcp_mode.use_native_tools(settings.load({"tools": "native"}, {}), servers, installed=True)
    assert not mcp_mode.use_native_tools(settings.load({"tools": "mcp"}, {}), {}, installed=True)


def test_the_tool_has_the_name_the_model_sees_also_without_hermes(monkeypatch):
    monkeypatch.setitem(sys.modules, "tools", None)
    assert mcp_mode.tool_name("hermes-bridge", "reply") == "mcp__hermes_bridge__reply"


def fake_client(monkeypatch, servers):
    done = []
    client = types.ModuleType("tools.mcp_tool")
    client._servers = servers
    client.discover_mcp_tools = lambda: done.append("discover")
    client.reconnect_mcp_server = lambda name: done.append(f"reconnect {name}")
    package = types.ModuleType("tools")
    package.mcp_tool = client
    monkeypatch.setitem(sys.modules, "tools", package)
    monkeypatch.setitem(sys.modules, "tools.mcp_tool", client)
    return done


def test_a_parked_server_is_reconnected_and_an_unknown_one_discovered(monkeypatch):
    parked, alive = types.SimpleNamespace(session=None), types.SimpleNamespace(session=object())
    for servers, expected, word in [
        ({}, ["discover"], "discovered"),
        ({"b": parked}, ["reconnect b"], "reconnecting"),
        ({("profile", "b"): parked}, ["reconnect b"], "reconnecting"),
        ({"b": alive}, [], "alive"),
    ]:
        done = fake_client(monkeypatch, servers)
        assert mcp_mode.revive("b") == word and done == expected


def test_without_an_mcp_client_nothing_is_revived(monkeypatch):
    monkeypatch.setitem(sys.modules, "tools", None)
    assert mcp_mode.revive("b") == "no MCP client"
