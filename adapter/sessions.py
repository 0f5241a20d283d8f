"""Questions waiting their turn: one line per session, one question a turn.

Owns the order. Pure: starts nothing and knows no Hermes. Hermes keeps a single slot for a message
that arrives during a turn and merges or replaces what is in it; nothing of ours ever gets there.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict, deque
from typing import Deque, Iterator, Optional

from .frames import Wake

#: More than the relay ever has open for one bot. Full means: the new question is refused at once
#: with a failure that says so, and the ones in line keep their places.
MAX_WAITING = 512
#: Finished questions remembered, so that one which is sent again is not worked on again.
MAX_CLOSED = 1024

_SAFE = re.compile(r"[A-Za-z0-9._-]{1,120}")


def chat_id_of(conversation_id: str) -> str:
    """The conversation as a Hermes chat id. Hermes splits session keys at colons, so none may be
    left; two conversations never share an id, as that would share the bot's memory of them."""
    if _SAFE.fullmatch(conversation_id):
        return conversation_id
    digest = hashlib.sha256(conversation_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return re.sub(r"[^A-Za-z0-9._-]", "_", conversation_id)[:80] + "-" + digest


class SessionQueues:
    """The lines. A session has at most one running question; the others wait in order."""

    def __init__(self) -> None:
        self._waiting: "OrderedDict[str, Deque[Wake]]" = OrderedDict()
        self._running: dict[str, Wake] = {}
        self._closed: "OrderedDict[str, None]" = OrderedDict()

    def add(self, wake: Wake) -> bool:
        """Puts a new question at the end of its session's line; ``False`` if all lines are full."""
        if self.waiting_count() >= MAX_WAITING:
            return False
        self._waiting.setdefault(chat_id_of(wake.conversation_id), deque()).append(wake)
        return True

    def knows(self, request_id: str) -> bool:
        """Whether this question is in a line or being worked on."""
        return any(wake.request_id == request_id for wake, _ in self.open())

    def closed(self, request_id: str) -> bool:
        """Whether this question was finished here."""
        return request_id in self._closed

    def startable(self) -> list[tuple[str, Wake]]:
        """The first question of every session that has none running."""
        return [
            (chat_id, line[0])
            for chat_id, line in self._waiting.items()
            if line and chat_id not in self._running
        ]

    def start(self, chat_id: str, request_id: str) -> Optional[Wake]:
        """Takes the session's first question out of the line and makes it the running one."""
        line = self._waiting.get(chat_id)
        if chat_id in self._running or not line or line[0].request_id != request_id:
            return None
        wake = line.popleft()
        if not line:
            del self._waiting[chat_id]
        self._running[chat_id] = wake
        return wake

    def running(self, chat_id: str) -> Optional[Wake]:
        return self._running.get(chat_id)

    def turn_over(self, chat_id: str) -> None:
        """The session is free for its next question."""
        self._running.pop(chat_id, None)

    def put_back(self, chat_id: str) -> None:
        """The running question could not be started: it is the first of its line again."""
        wake = self._running.pop(chat_id, None)
        if wake is not None:
            self._waiting.setdefault(chat_id, deque()).appendleft(wake)

    def close(self, request_id: str) -> None:
        """The question has its outcome: it leaves its line, and is remembered for a while."""
        for chat_id, line in list(self._waiting.items()):
            left = deque(wake for wake in line if wake.request_id != request_id)
            if left:
                self._waiting[chat_id] = left
            else:
                del self._waiting[chat_id]
        self._closed[request_id] = None
        self._closed.move_to_end(request_id)
        while len(self._closed) > MAX_CLOSED:
            self._closed.popitem(last=False)

    def reopen(self, request_id: str) -> None:
        """The question has no outcome after all; if its turn runs, it is open again."""
        self._closed.pop(request_id, None)

    def open(self) -> Iterator[tuple[Wake, bool]]:
        """Every question that still needs an outcome, and whether it is running."""
        for wake in list(self._running.values()):
            if wake.request_id not in self._closed:
                yield wake, True
        for line in list(self._waiting.values()):
            for wake in list(line):
                yield wake, False

    def waiting_count(self) -> int:
        return sum(len(line) for line in self._waiting.values())
