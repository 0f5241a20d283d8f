"""Answers that the relay has not confirmed yet, and turns that were begun: kept in one small file.

Owns that file. Written before an answer is sent and after it is confirmed, so an answer computed
while the relay is away, or just before this process dies, is still delivered; the relay takes one
answer per question, so it is delivered once. Never holds a token.
"""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional
from uuid import uuid4

logger = logging.getLogger(__name__)

#: Full means: the oldest answer is given up, with an error in the log that names its question.
MAX_ANSWERS = 500
#: As long as the relay keeps a question that was asked.
MAX_AGE_SECONDS = 7 * 24 * 3600


@dataclass
class Answer:
    """What will be said to one question. The call id never changes: sending twice says it once."""

    request_id: str
    arguments: dict[str, Any]
    call_id: str = field(default_factory=lambda: f"answer-{uuid4().hex}")
    made_at: float = 0.0
    #: Given by the model with a tool, in the middle of its turn: it hears of a refusal itself.
    explicit: bool = False


class Outbox:
    """Undelivered answers by request id, and the question each session was working on."""

    def __init__(self, path: Optional[Path], clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._answers: dict[str, Answer] = {}
        self._turns: dict[str, str] = {}
        self._complained = False
        self._load()

    def put(self, request_id: str, arguments: dict[str, Any], chat_id: str = "", explicit: bool = False) -> Answer:
        """Keeps an answer until it is confirmed; the session's begun turn is over with it."""
        answer = Answer(request_id, {"request_id": request_id, **arguments}, made_at=self._clock(), explicit=explicit)
        self._answers.pop(request_id, None)
        self._answers[request_id] = answer
        if self._turns.get(chat_id) == request_id:
            del self._turns[chat_id]
        while len(self._answers) > MAX_ANSWERS:
            lost = next(iter(self._answers))
            del self._answers[lost]
            logger.error("hermes-bridge: outbox is full, the answer to request %s is given up", lost)
        self._save()
        return answer

    def confirm(self, answer: Answer) -> None:
        """The relay has this very answer (or refuses it for good)."""
        if self._answers.get(answer.request_id) is answer:
            del self._answers[answer.request_id]
            self._save()

    def holds(self, request_id: str) -> bool:
        return request_id in self._answers

    def undelivered(self) -> list[Answer]:
        return list(self._answers.values())

    def turn_began(self, chat_id: str, request_id: str) -> None:
        self._turns[chat_id] = request_id
        self._save()

    def turn_ended(self, chat_id: str) -> None:
        if self._turns.pop(chat_id, None) is not None:
            self._save()

    def begun(self) -> dict[str, str]:
        """Chat id to request id of the turns that were running when the file was last written."""
        return dict(self._turns)

    def _load(self) -> None:
        if self._path is None:
            return
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            oldest = self._clock() - MAX_AGE_SECONDS
            for item in kept["answers"]:
                if item["made_at"] >= oldest:
                    self._answers[item["request_id"]] = Answer(**item)
            self._turns = {str(chat): str(request) for chat, request in kept["turns"].items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            logger.error("hermes-bridge: cannot read %s (%s); it is set aside", self._path, error)
            try:
                self._path.replace(self._path.with_suffix(".broken"))
            except OSError:
                pass

    def _save(self) -> None:
        if self._path is None:
            return
        body = json.dumps(
            {"answers": [vars(answer) for answer in self._answers.values()], "turns": self._turns}
        )
        fresh = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
            self._complained = False
        except OSError as error:
            # Answers still go out from memory; only a crash in this state could lose one.
            if not self._complained:
                logger.error("hermes-bridge: cannot write %s: %s", self._path, error)
                self._complained = True
