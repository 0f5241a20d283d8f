"""The tools that the bot's model sees: asking, answering, looking around.

Owns their schemas and the way from Hermes' worker thread to the bridge and back. Results are the
relay's own JSON objects; the words for "no relay" are the only ones made here. Registered by
``register``; they are absent where no bridge runs, for example in ``hermes chat``.
"""

from __future__ import annotations

import json
import logging
import threading
import weakref
from typing import Any, Callable, Optional, Protocol

logger = logging.getLogger(__name__)

TOOLSET = "hermes-bridge"


class Bridge(Protocol):
    """The running adapter, as the tools use it. ``call_tool`` blocks the calling thread."""

    profile: str

    def call_tool(self, tool: str, arguments: dict[str, Any], during: str,
                  interrupted: Callable[[], bool]) -> Any: ...


def _schema(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "parameters": {"type": "object", "properties": properties, "required": required},
    }


def _string(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


SCHEMAS = [
    _schema(
        "ask_agent",
        "Ask another agent a question and wait for its answer. Answers with JSON: ok and answer, or an "
        "error with a message that says what to do next. What comes back was written by another agent.",
        {
            "to": _string("Name of the agent, as list_agents gives it"),
            "message": _string("The question, complete in itself: the other agent sees nothing else"),
            "conversation_id": _string("Continue this conversation instead of beginning a new one"),
            "when_offline": _string("What to do when it is not connected (default fail)", enum=["fail", "queue"]),
            "request_key": _string("The same key joins the first question instead of asking twice"),
        },
        ["to", "message"],
    ),
    _schema(
        "reply",
        "Answer a question of another agent before your turn is over. Not needed otherwise: your final "
        "message is the answer.",
        {
            "request_id": _string("The request_id that came with the question"),
            "answer": _string("The complete answer"),
        },
        ["request_id", "answer"],
    ),
    _schema("list_agents", "List the agents that can be asked, and which are online.", {}, []),
    _schema(
        "get_answer",
        "Get the answer to an earlier question that was still being worked on.",
        {
            "request_id": _string("The request_id that ask_agent gave"),
            "wait_seconds": {"type": "integer", "description": "Wait this long for it (default 0)"},
        },
        ["request_id"],
    ),
]

_bridges: "weakref.WeakSet[Any]" = weakref.WeakSet()
_bridges_lock = threading.Lock()


def announce(bridge: Bridge) -> None:
    """A bridge runs in this process: its tools are there from now on."""
    with _bridges_lock:
        _bridges.add(bridge)
    try:
        # Hermes remembers for half a minute that a tool was absent.
        from tools.registry import invalidate_check_fn_cache

        invalidate_check_fn_cache()
    except Exception:
        pass


def withdraw(bridge: Bridge) -> None:
    with _bridges_lock:
        _bridges.discard(bridge)


def available() -> bool:
    return bool(_bridges)


def current() -> Optional[Bridge]:
    """The bridge of the calling session: that of its profile, else the only one."""
    with _bridges_lock:
        bridges = list(_bridges)
    profile = session_value("PROFILE")
    for bridge in bridges:
        if profile and bridge.profile == profile:
            return bridge
    return bridges[0] if bridges else None


def session_value(name: str) -> str:
    """A value of the session that runs in this thread, as Hermes knows it."""
    try:
        from gateway.session_context import get_session_env

        return str(get_session_env(f"HERMES_SESSION_{name}", "") or "")
    except Exception:
        return ""


def request_in_progress() -> str:
    """The request that the calling turn answers, or an empty string."""
    return session_value("MESSAGE_ID") if session_value("PLATFORM") == "hermes-bridge" else ""


def unreachable(message: str) -> dict[str, Any]:
    return {"ok": False, "error": "relay_unreachable", "message": message}


def run_tool(tool: str, arguments: Any) -> str:
    """One tool call of the model, from beginning to end; the result as text."""
    bridge = current()
    if bridge is None:
        return json.dumps(unreachable("No connection to the relay runs in this process. Tools of the "
                                      "bridge work in sessions of the gateway only."))
    given = arguments if isinstance(arguments, dict) else {}
    wanted = {key: value for key, value in given.items() if value is not None and value != ""}
    during = request_in_progress()
    if tool == "reply":
        wanted.setdefault("request_id", during)
        wanted.setdefault("answer", "")
    try:
        result = bridge.call_tool(tool, wanted, during, _interrupted)
    except Exception as error:
        logger.exception("hermes-bridge: tool %s failed", tool)
        result = {"ok": False, "error": "failed", "message": f"The tool failed: {type(error).__name__}."}
    return json.dumps(result, ensure_ascii=False)


def _interrupted() -> bool:
    try:
        from tools.interrupt import is_interrupted

        return bool(is_interrupted())
    except Exception:
        return False


def register(ctx: Any) -> None:
    """Gives the tools to Hermes."""
    for schema in SCHEMAS:
        ctx.register_tool(
            name=schema["name"],
            toolset=TOOLSET,
            schema=schema,
            handler=_handler(schema["name"]),
            check_fn=available,
            description=schema["description"],
            emoji="🔗",
        )


def _handler(tool: str) -> Callable[..., str]:
    def handle(arguments: Any = None, **_: Any) -> str:
        return run_tool(tool, arguments)

    return handle
