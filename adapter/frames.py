"""The frames between this adapter and the relay: building and reading them.

Owns the JSON shapes and nothing else: no socket, no clock, no state. Whatever the relay sends that
is not understood here reads as ``None`` and is ignored, so an older adapter survives a newer relay.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Optional, Union

#: Frames that this adapter understands beyond wake and result; the relay sends them only then.
FEATURES = ("answer", "cancelled", "restarting")


@dataclass(frozen=True)
class Wake:
    """A question for this agent."""

    request_id: str
    conversation_id: str
    sender: str
    message: str
    attempt: int = 1
    hops: int = 0
    origin: str = ""
    #: The relay's quiet limit: it gives up when it hears nothing for so long. 0 if it did not say.
    quiet_ms: int = 0
    #: What the relay's owner says of the asker.
    note: str = ""


@dataclass(frozen=True)
class Result:
    """What the relay's tool said to one call."""

    call_id: str
    result: Any


@dataclass(frozen=True)
class LateAnswer:
    """An answer to an earlier question of this agent, after its call had already returned."""

    request_id: str
    conversation_id: str
    sender: str
    text: str
    ok: bool = True


@dataclass(frozen=True)
class Cancelled:
    """The asker no longer wants an answer to a question that this agent has."""

    request_id: str


@dataclass(frozen=True)
class Restarting:
    """The relay is about to close and will be back."""


Inbound = Union[Wake, Result, LateAnswer, Cancelled, Restarting]


@dataclass(frozen=True)
class Call:
    """One tool call of this agent, re-sent unchanged until its result arrives."""

    call_id: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    #: The request whose turn made this call, if any: a hint for the relay, never a claim.
    during: str = ""

    def encode(self) -> str:
        frame: dict[str, Any] = {
            "type": "call",
            "id": self.call_id,
            "tool": self.tool,
            "arguments": self.arguments,
        }
        if self.during:
            frame["during"] = self.during
        return _dump(frame)


def hello(version: str, instance: str, hermes_version: str = "") -> str:
    """The first frame of every connection; the same instance id as long as the process lives."""
    frame: dict[str, Any] = {
        "type": "hello",
        "adapter": version,
        "instance": instance,
        "features": list(FEATURES),
    }
    if hermes_version:
        frame["hermes"] = hermes_version
    return _dump(frame)


def received(request_id: str) -> str:
    """Says that this process has the question: the relay need not send it again to it."""
    return _dump({"type": "received", "request_id": request_id})


def heartbeat(request_id: str, session_id: str = "", phase: str = "") -> str:
    """Says that the question is still queued or being worked on."""
    frame = {"type": "heartbeat", "request_id": request_id}
    if session_id:
        frame["session_id"] = session_id
    if phase:
        frame["phase"] = phase
    return _dump(frame)


def decode(text: Union[str, bytes]) -> Optional[Inbound]:
    """Reads one frame of the relay; ``None`` for anything unknown or malformed."""
    try:
        frame = json.loads(text)
    except (ValueError, UnicodeDecodeError):
        return None
    if not isinstance(frame, dict):
        return None
    kind = frame.get("type", "wake")
    request_id = _text(frame.get("request_id"))
    if kind == "wake":
        return _wake(frame, request_id)
    if kind == "result":
        call_id = _text(frame.get("id"))
        return Result(call_id, frame.get("result")) if call_id else None
    if kind == "answer":
        return _late_answer(frame, request_id)
    if kind == "cancelled":
        return Cancelled(request_id) if request_id else None
    if kind == "restarting":
        return Restarting()
    return None


def _wake(frame: dict[str, Any], request_id: str) -> Optional[Wake]:
    conversation_id = _text(frame.get("conversation_id"))
    message = frame.get("message")
    if not request_id or not conversation_id or not isinstance(message, str):
        return None
    return Wake(
        request_id=request_id,
        conversation_id=conversation_id,
        sender=_text(frame.get("from")) or "unknown",
        message=message,
        attempt=_count(frame.get("attempt"), 1),
        hops=_count(frame.get("hops"), 0),
        origin=_text(frame.get("origin")),
        quiet_ms=_count(frame.get("deadline_ms"), 0),
        note=_text(frame.get("note")),
    )


def _late_answer(frame: dict[str, Any], request_id: str) -> Optional[LateAnswer]:
    # The outcome may stand beside the ids or inside `result`, as ask_agent words it.
    outcome = frame.get("result") if isinstance(frame.get("result"), dict) else frame
    answer = outcome.get("answer")
    ok = isinstance(answer, str)
    text = answer if ok else _text(outcome.get("message")) or _text(outcome.get("error"))
    if not request_id or not text:
        return None
    return LateAnswer(
        request_id=request_id,
        conversation_id=_text(frame.get("conversation_id")) or _text(outcome.get("conversation_id")),
        sender=_text(frame.get("from")) or _text(frame.get("to")),
        text=text,
        ok=ok,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _dump(frame: dict[str, Any]) -> str:
    # ASCII escapes keep lone surrogates, which a model can produce, inside valid UTF-8.
    return json.dumps(frame, separators=(",", ":"))
