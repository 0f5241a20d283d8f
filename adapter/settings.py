"""What the operator decided: token, relay, tool mode, what to do with prompts for a human.

Owns reading the environment and the platform's ``extra`` block, which wins over nothing: the
environment comes first, as everywhere in Hermes. Never logs the token and never prints it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Optional
from urllib.parse import urlsplit

TOKEN_VARIABLE = "HERMES_BRIDGE_TOKEN"
RELAY_VARIABLE = "HERMES_BRIDGE_RELAY_URL"
TOOLS_VARIABLE = "HERMES_BRIDGE_TOOLS"
PROMPTS_VARIABLE = "HERMES_BRIDGE_PROMPTS"

TOOL_MODES = ("auto", "native", "mcp")
PROMPT_POLICIES = ("deny", "ask")


@dataclass(frozen=True)
class Settings:
    """One bot's settings, checked."""

    token: str = field(repr=False)
    relay_url: str
    tools: str = "auto"
    prompts: str = "deny"

    @property
    def complete(self) -> bool:
        return bool(self.token and self.relay_url)

    @property
    def host(self) -> str:
        """Host and port of the relay, to recognise it among the bot's MCP servers."""
        return urlsplit(self.relay_url).netloc.lower()


def load(extra: Optional[Mapping[str, Any]] = None, env: Optional[Mapping[str, str]] = None) -> Settings:
    """Settings from the environment, then from ``platforms.hermes-bridge.extra``."""
    extra = extra or {}
    env = os.environ if env is None else env

    def pick(variable: str, key: str) -> str:
        return str(env.get(variable) or extra.get(key) or "").strip()

    return Settings(
        token=pick(TOKEN_VARIABLE, "token"),
        relay_url=pick(RELAY_VARIABLE, "relay_url"),
        tools=_one_of(pick(TOOLS_VARIABLE, "tools"), TOOL_MODES),
        prompts=_one_of(pick(PROMPTS_VARIABLE, "prompts"), PROMPT_POLICIES),
    )


def problem(settings: Settings) -> str:
    """One sentence about what is missing or wrong, or an empty string."""
    if not settings.token:
        return f"{TOKEN_VARIABLE} is not set"
    if not settings.relay_url:
        return f"{RELAY_VARIABLE} is not set"
    parts = urlsplit(settings.relay_url)
    if parts.scheme not in ("ws", "wss") or not parts.netloc:
        return f"{RELAY_VARIABLE} must look like wss://HOST/bridge/connect, not {settings.relay_url!r}"
    return ""


def hermes_home(env: Optional[Mapping[str, str]] = None) -> Path:
    """The bot's home: where Hermes says it is, else HERMES_HOME, else ~/.hermes."""
    try:
        from hermes_constants import get_hermes_home

        return Path(get_hermes_home())
    except Exception:
        env = os.environ if env is None else env
        return Path(env.get("HERMES_HOME") or Path.home() / ".hermes")


def _one_of(value: str, allowed: tuple[str, ...]) -> str:
    value = value.lower()
    return value if value in allowed else allowed[0]
