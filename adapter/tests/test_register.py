"""What the plugin gives to Hermes, and the rules of the house."""

import ast
import re
import sys
from pathlib import Path

import adapter
import pytest

PLUGIN = Path(adapter.__file__).parent
MODULES = sorted(PLUGIN.glob("*.py"))


class Context:
    def __init__(self):
        self.platform, self.tools, self.hooks = None, [], []

    def register_platform(self, name, label, adapter_factory, check_fn, validate_config=None, required_env=None,
                          install_hint="", **more):
        # What 0.19 knows beyond the named ones; anything else would be a TypeError there.
        assert set(more) <= {"is_connected", "env_enablement_fn", "platform_hint", "allow_update_command", "emoji"}
        self.platform = {"name": name, "check_fn": check_fn, "required_env": required_env, **more}

    def register_tool(self, **tool):
        self.tools.append(tool["name"])

    def register_hook(self, name, callback):
        self.hooks.append(name)


@pytest.fixture
def context(monkeypatch):
    for name in ("HERMES_BRIDGE_TOKEN", "HERMES_BRIDGE_RELAY_URL", "HERMES_BRIDGE_TOOLS"):
        monkeypatch.delenv(name, raising=False)
    return Context()


def test_the_platform_keeps_the_names_of_the_original(context):
    adapter.register(context)
    assert context.platform["name"] == "hermes-bridge"
    assert context.platform["required_env"] == ["HERMES_BRIDGE_TOKEN", "HERMES_BRIDGE_RELAY_URL"]
    assert sorted(context.hooks) == ["on_session_end", "post_llm_call", "pre_llm_call"]


def test_the_platform_is_on_only_with_a_token_and_a_relay(context, monkeypatch):
    adapter.register(context)
    connected, seed = context.platform["is_connected"], context.platform["env_enablement_fn"]
    assert not connected(None) and seed() == {}
    monkeypatch.setenv("HERMES_BRIDGE_TOKEN", "t")
    monkeypatch.setenv("HERMES_BRIDGE_RELAY_URL", "wss://h/bridge/connect")
    assert connected(None) and seed() == {"relay_url": "wss://h/bridge/connect"}


def test_the_configurations_extra_turns_it_on_too(context):
    adapter.register(context)
    config = type("Config", (), {"extra": {"token": "t", "relay_url": "wss://h/x"}})
    assert context.platform["is_connected"](config)


def test_the_tools_are_offered_unless_the_operator_wants_mcp(context, monkeypatch):
    adapter.register(context)
    assert sorted(context.tools) == ["ask_agent", "get_answer", "list_agents", "reply"]
    monkeypatch.setenv("HERMES_BRIDGE_TOOLS", "mcp")
    other = Context()
    adapter.register(other)
    assert other.tools == [] and other.platform is not None


def test_the_version_is_the_same_everywhere():
    assert f"version: {adapter.__version__}\n" in (PLUGIN / "plugin.yaml").read_text()
    cargo = PLUGIN.parent / "Cargo.toml"
    if cargo.exists():
        assert f'version = "{adapter.__version__}"' in cargo.read_text()


def test_the_manifest_names_exactly_the_tools_there_are():
    listed = (PLUGIN / "plugin.yaml").read_text().split("provides_tools:\n")[1].split()
    assert [word for word in listed if word != "-"] == [s["name"] for s in sys.modules["adapter.tools"].SCHEMAS]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.name)
def test_every_module_says_what_it_owns_and_stays_short(path):
    text = path.read_text()
    tree = ast.parse(text)
    head = ast.get_docstring(tree) or ""
    assert re.search(r"\bOwns\b|\bowns\b", head), "the head says what the module owns"
    assert len(text.splitlines()) <= 500
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno - node.lineno < 60, node.name


@pytest.mark.parametrize("name", ["frames", "sessions", "turns", "outbox", "courier", "desk", "wake_text", "prompts"])
def test_the_rules_know_neither_hermes_nor_a_socket(name):
    for node in ast.walk(ast.parse((PLUGIN / f"{name}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module.split(".")[0] not in ("gateway", "hermes_cli", "tools", "websockets"), node.module
        if isinstance(node, ast.Import):
            assert all(a.name.split(".")[0] in sys.stdlib_module_names for a in node.names)
