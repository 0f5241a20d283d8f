"""What Hermes' hooks tell about a turn: did the model speak, was it stopped, which session is it.

Owns the translation of hook arguments into a turn's flags. Hooks run on other threads than the
adapter and must be quick: only flags are set, nothing is sent. All names exist in every supported
release; a release that calls one less only makes the judgement of a turn coarser.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from . import tools
from .turns import EMPTY, Turn

PLATFORM = "hermes-bridge"


def current_turn() -> Optional[Turn]:
    """The turn of ours that runs in this thread, if any."""
    if tools.session_value("PLATFORM") != PLATFORM:
        return None
    bridge = tools.current()
    desk = getattr(bridge, "desk", None)
    return desk.turn(tools.session_value("CHAT_ID")) if desk is not None else None


def model_began(turn: Turn, session_id: str) -> None:
    """A subagent's turn runs inside ours, with an id of its own: the first id is the turn's."""
    turn.model_began = True
    if not turn.session_id:
        turn.session_id = session_id


def model_ended(turn: Turn, text: str, history: Any = None) -> None:
    """``text`` may be Hermes' explanation of why the model said nothing: the history tells."""
    turn.model_ended = True
    turn.model_text = EMPTY if _said_nothing(history) else text


def turn_ended(turn: Turn, session_id: str, interrupted: bool, failed: bool, reason: str = "") -> None:
    if turn.session_id and session_id != turn.session_id:
        return
    turn.interrupted = turn.interrupted or interrupted
    turn.failed = turn.failed or failed
    if reason.startswith("empty"):
        turn.model_text = EMPTY


def _said_nothing(history: Any) -> bool:
    """Whether the last thing in the conversation is the model saying nothing."""
    last = history[-1] if isinstance(history, list) and history else None
    if not isinstance(last, dict) or last.get("role") != "assistant" or last.get("tool_calls"):
        return False
    content = last.get("content")
    return content is None or (isinstance(content, str) and content.strip() in ("", EMPTY))


def register(ctx: Any, find: Callable[[], Optional[Turn]] = current_turn) -> None:
    """Gives the hooks to Hermes."""

    def on_pre_llm_call(**said: Any) -> None:
        turn = find()
        if turn is not None:
            model_began(turn, str(said.get("session_id") or ""))
            tell = getattr(tools.current(), "session_known", None)
            if tell is not None:
                tell(turn)

    def on_post_llm_call(**said: Any) -> None:
        turn = find()
        text = said.get("assistant_response")
        if turn is not None and text:
            model_ended(turn, str(text), said.get("conversation_history"))

    def on_session_end(**said: Any) -> None:
        turn = find()
        if turn is not None:
            turn_ended(turn, str(said.get("session_id") or ""), bool(said.get("interrupted")),
                       bool(said.get("failed")), str(said.get("turn_exit_reason") or ""))

    ctx.register_hook("pre_llm_call", on_pre_llm_call)
    ctx.register_hook("post_llm_call", on_post_llm_call)
    ctx.register_hook("on_session_end", on_session_end)
