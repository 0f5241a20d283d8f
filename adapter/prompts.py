"""Prompts that Hermes means for a human, in a place where there is none.

Owns the decision and the wording. Pure. Nothing here may make a turn wait: every prompt is decided
at once. ``deny``: no, with a text that lets the model go on without. ``ask``: the prompt becomes
this turn's answer, and the asker's next message in the same conversation decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence

#: How an answer begins that is a question back; the same words as in the A2A bridge of Hermes.
NEEDS_INPUT = "[INPUT_REQUIRED]"
#: The one word by which an asker allows one command once.
APPROVE = "approve"


@dataclass(frozen=True)
class Decision:
    """What Hermes is told now, and what the asker is asked, if anything."""

    for_model: str
    for_asker: Optional[str] = None
    allow: bool = False


class Prompts:
    """Decides prompts; remembers per session which command the asker was asked about."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._asked: dict[str, str] = {}
        self._allowed: dict[str, str] = {}

    def clarify(self, question: str, choices: Optional[Sequence[str]], *, answerable: bool) -> Decision:
        """``answerable``: an asker waits for this turn, so a question back can reach it."""
        if self._policy != "ask" or not answerable:
            return Decision(
                "No human is present in this conversation, so nobody can choose. Decide yourself with "
                "what you know, or say in your final message what you would need to know."
            )
        lines = [f"{NEEDS_INPUT} {question.strip()}"]
        lines += [f"{number}. {choice}" for number, choice in enumerate(choices or (), start=1)]
        lines.append("Answer by sending your next message in this same conversation.")
        return Decision(
            "Your question was sent to the asking agent as the answer of this turn. End your turn now, "
            "without further work: its reply comes as the next message of this conversation.",
            "\n".join(lines),
        )

    def approval(self, chat_id: str, command: str, reason: str, *, answerable: bool) -> Decision:
        """A command that Hermes will not run without a human's consent."""
        if self._allowed.get(chat_id) == command:
            del self._allowed[chat_id]
            return Decision("The asking agent approved this command once.", allow=True)
        if self._policy != "ask" or not answerable:
            return Decision(
                "No human is present in this conversation to approve commands, so it is denied. Use "
                "another way that needs no approval, or say in your final message what you could not do."
            )
        self._asked[chat_id] = command
        why = f" ({reason.strip()})" if reason and reason.strip() else ""
        return Decision(
            "The asking agent was asked whether to allow this command. End your turn now, without "
            "another attempt: if it approves, run exactly the same command in the next turn.",
            f"{NEEDS_INPUT} To go on, the agent wants to run a command that needs approval{why}:\n"
            f"{command}\n"
            f'Send the single word "{APPROVE}" in this same conversation to allow it once; any other '
            "message refuses it.",
        )

    def next_message(self, chat_id: str, message: str) -> None:
        """The asker's next message: it decides about the command that was asked about, if any."""
        self._allowed.pop(chat_id, None)
        command = self._asked.pop(chat_id, None)
        if command is not None and message.strip().strip('"`.!').lower() == APPROVE:
            self._allowed[chat_id] = command
