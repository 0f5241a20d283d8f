"""What came out of one turn: the answer, or a clear reason why there is none.

Owns the capture of the turn's texts and the judgement at its end. Pure. The final text of the turn
is the answer; a turn that Hermes ended for its own reasons must never read as an answer, and a turn
that a restart will take up again must not read as an end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

SUCCESS, FAILURE, CANCELLED = "success", "failure", "cancelled"

#: Hermes' own word for a model that returned no text.
EMPTY = "(empty)"
#: By these a model says that it wants to say nothing; newer releases replace them by a notice.
_SILENT = ("NO_REPLY", "NO REPLY", "[SILENT]", "SILENT")

_DETAIL_LIMIT = 400


@dataclass
class Turn:
    """One turn of one session, while it runs. Hooks on other threads set the flags."""

    request_id: str
    chat_id: str
    session_id: str = ""
    texts: list[str] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)
    #: An explicit reply or a question back went out, or the asker cancelled: nothing more is sent.
    replied: bool = False
    #: Hermes began and ended talking to the model. Begun but not ended: the text is Hermes' own.
    model_began: bool = False
    model_ended: bool = False
    model_text: str = ""
    interrupted: bool = False
    failed: bool = False
    #: The turn is a continuation that Hermes started after a restart, not one of ours.
    resumed: bool = False

    def text(self) -> str:
        return "\n\n".join(part for part in (*self.texts, *self.attachments) if part.strip())


@dataclass(frozen=True)
class Verdict:
    """An answer, an error with a detail, or neither: the question stays open."""

    answer: Optional[str] = None
    error: str = ""
    detail: str = ""

    @property
    def open(self) -> bool:
        return self.answer is None and not self.error


STAYS_OPEN = Verdict()


def judge(turn: Turn, outcome: str, *, draining: bool = False) -> Verdict:
    """The verdict on a turn that is over. ``draining``: the gateway is going down, so what it cut
    short will be asked again of the process that comes after it."""
    text = turn.text()
    from_model = turn.model_ended or not turn.model_began
    if turn.replied:
        return STAYS_OPEN
    if draining and not (text and turn.model_ended):
        return STAYS_OPEN
    if outcome == CANCELLED:
        return Verdict(error="cancelled", detail="The agent's turn was cancelled before it answered.")
    if turn.interrupted and not (text and turn.model_ended):
        return Verdict(error="interrupted", detail="The agent's turn was interrupted before it answered.")
    if turn.model_text.strip() == EMPTY:
        return Verdict(error="empty", detail="The agent's model returned no text, also after retries.")
    if turn.failed or not from_model or outcome == FAILURE:
        return Verdict(error="failed", detail=_detail(text))
    if not text or turn.model_text.strip() in _SILENT:
        return Verdict(error="empty", detail="The agent ended its turn without writing an answer.")
    return Verdict(answer=text)


def _detail(text: str) -> str:
    """One sentence: what Hermes said about the failure, if it said something."""
    said = " ".join(text.split())
    if not said:
        return "The agent's turn ended with an error."
    if len(said) > _DETAIL_LIMIT:
        said = said[: _DETAIL_LIMIT - 1] + "…"
    return f"The agent's turn ended with an error: {said}"
