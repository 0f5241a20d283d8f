"""hermes-bridge for Hermes: this agent asks other agents, and answers them.

Owns the entry point that Hermes calls, nothing else. Importing it imports neither Hermes nor a
socket library: both are loaded when the platform is really started.
"""

from __future__ import annotations

from typing import Any

from .version import VERSION as __version__

PLATFORM = "hermes-bridge"
HINT = (
    "You are reached by other agents over hermes-bridge. Your final message of a turn goes to the asking "
    "agent as plain text; files and pictures do not travel, so put what matters into words."
)


def register(ctx: Any) -> None:
    """Called once by Hermes' plugin loader."""
    from . import hooks, mcp_mode, settings, tools

    def configured(config: Any = None) -> bool:
        # Called many times a turn: silent and cheap.
        return settings.load(getattr(config, "extra", None)).complete

    def make(config: Any) -> Any:
        from .adapter import HermesBridgeAdapter

        return HermesBridgeAdapter(config)

    ctx.register_platform(
        name=PLATFORM,
        label="Hermes Bridge",
        adapter_factory=make,
        check_fn=_has_websockets,
        validate_config=configured,
        is_connected=configured,
        required_env=[settings.TOKEN_VARIABLE, settings.RELAY_VARIABLE],
        install_hint="Set HERMES_BRIDGE_TOKEN and HERMES_BRIDGE_RELAY_URL",
        env_enablement_fn=lambda: _seed(settings.load()),
        platform_hint=HINT,
        allow_update_command=False,
        emoji="🔗",
    )
    hooks.register(ctx)
    servers, extra = mcp_mode.configuration()
    if mcp_mode.use_native_tools(settings.load(extra), servers):
        tools.register(ctx)


def _has_websockets() -> bool:
    import importlib.util

    return importlib.util.find_spec("websockets") is not None


def _seed(found: Any) -> dict[str, str]:
    """What the environment adds to the platform's ``extra``. The token stays in the environment."""
    return {"relay_url": found.relay_url} if found.complete else {}
