"""The relay as one of the bot's MCP servers: recognising it, naming its tools, waking it up.

Owns what depends on Hermes' own MCP client. When the relay stands in ``mcp_servers``, the native
tools step aside; Hermes parks a server it could not reach for half a minute and looks again only
every five minutes, so the adapter, which knows when the relay is back, revives it.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from typing import Any, Mapping, Optional
from urllib.parse import urlsplit

from .settings import Settings

logger = logging.getLogger(__name__)

SERVER_NAMES = ("hermes-bridge", "hermes_bridge")


def relay_server(mcp_servers: Any, settings: Settings) -> str:
    """The name of the enabled MCP server that is this relay, or an empty string."""
    if not isinstance(mcp_servers, Mapping):
        return ""
    for name, server in mcp_servers.items():
        if not isinstance(server, Mapping) or _off(server.get("enabled", True)):
            continue
        url = server.get("url")
        same_host = isinstance(url, str) and urlsplit(url).netloc.lower() == settings.host != ""
        if same_host or (str(name) in SERVER_NAMES and isinstance(url, str)):
            return str(name)
    return ""


def mcp_installed() -> bool:
    """Without the ``mcp`` package Hermes silently has no MCP servers at all."""
    try:
        return importlib.util.find_spec("mcp") is not None
    except (ImportError, ValueError):
        return False


def use_native_tools(settings: Settings, mcp_servers: Any, installed: Optional[bool] = None) -> bool:
    """Whether this plugin offers the relay's tools itself."""
    if settings.tools == "native":
        return True
    if settings.tools == "mcp":
        return False
    installed = mcp_installed() if installed is None else installed
    return not (installed and relay_server(mcp_servers, settings))


def tool_name(server: str, tool: str) -> str:
    """The name under which the model sees the tool of an MCP server."""
    for module in ("tools.mcp_tool", "tools.mcp_tool_schema"):
        try:
            return str(getattr(__import__(module, fromlist=["x"]), "mcp_prefixed_tool_name")(server, tool))
        except Exception:
            continue
    return "mcp__{}__{}".format(*(re.sub(r"[^A-Za-z0-9_]", "_", part) for part in (server, tool)))


def configuration() -> tuple[Any, dict[str, Any]]:
    """``mcp_servers`` and this platform's ``extra`` of the bot's configuration, as Hermes reads it."""
    try:
        from hermes_cli.config import load_config

        config = load_config() or {}
        platform = (config.get("platforms") or {}).get("hermes-bridge") or {}
        return config.get("mcp_servers"), dict(platform.get("extra") or {})
    except Exception:
        logger.debug("hermes-bridge: the configuration could not be read", exc_info=True)
        return None, {}


def revive(server: str) -> str:
    """Makes Hermes connect to the MCP server now; says what was done. Blocks: never on a loop."""
    try:
        from tools import mcp_tool
    except Exception:
        return "no MCP client"
    known = _known_server(mcp_tool, server)
    if known is None:
        discover = _find("discover_mcp_tools", "tools.mcp_tool", "tools.mcp_tool_discovery")
        if discover is None:
            return "no discovery"
        discover()
        return "discovered"
    if getattr(known, "session", None) is not None:
        return "alive"
    reconnect = _find("reconnect_mcp_server", "tools.mcp_tool", "tools.mcp_tool_loop")
    if reconnect is None:
        return "no reconnect"
    reconnect(server)
    return "reconnecting"


def _known_server(mcp_tool: Any, server: str) -> Any:
    for key, known in dict(getattr(mcp_tool, "_servers", {})).items():
        # Newer releases key by (profile, name) when one gateway serves several profiles.
        if key == server or (isinstance(key, tuple) and key and key[-1] == server):
            return known
    return None


def _find(function: str, *modules: str) -> Any:
    for module in modules:
        try:
            return getattr(__import__(module, fromlist=["x"]), function)
        except Exception:
            continue
    return None


def _off(value: Any) -> bool:
    return value is False or str(value).strip().lower() in ("false", "no", "off", "0")
