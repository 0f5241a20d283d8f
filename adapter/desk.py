"""The desk: every question this bot has, from its arrival to its only outcome.

Owns the rules that tie the lines (sessions), the captured texts (turns) and the outbox together.
Hermes appears only as :class:`Host`, the relay only as the frames that are posted and the courier,
so all of it is tested without either. Runs on one event loop; only the hooks' flags come from
other threads.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Callable, Optional, Protocol

from . import frames, turns
from .frames import Wake
from .outbox import Answer, Outbox
from .sessions import SessionQueues, chat_id_of
from .turns import Turn

logger = logging.getLogger(__name__)

#: The longest pause between heartbeats; a relay with a short quiet limit hears three in it.
HEARTBEAT_SECONDS = 5.0
_SHORTEST_BEAT_SECONDS = 0.2
#: How often a session that something else keeps busy is looked at again.
LOOK_AGAIN_SECONDS = 0.1


class Host(Protocol):
    """What the desk needs of Hermes."""

    def ready(self) -> bool:
        """Turns may be started: Hermes is up, not restoring sessions, not going down."""

    def draining(self) -> bool:
        """Hermes is going down: what it cuts short now is not an outcome."""

    def session_busy(self, chat_id: str) -> bool:
        """Something other than our questions runs in this session."""

    def parked(self, request_id: str) -> bool:
        """Hermes took the question but keeps it for later; it will come round again."""

    async def start_turn(self, wake: Wake, chat_id: str) -> None:
        """Hands the question to Hermes as one message."""

    def interrupt(self, chat_id: str) -> None:
        """Asks Hermes to stop the session's turn: nobody waits for it any more."""


class Desk:
    def __init__(self, host: Host, outbox: Outbox, post: Callable[[str], object],
                 deliver: Callable[[Answer], object]) -> None:
        self._host = host
        self._outbox = outbox
        self._post = post
        self._deliver = deliver
        self._queues = SessionQueues()
        self._turns: dict[str, Turn] = {}
        # Turns that an earlier process of this gateway began and did not finish.
        self._begun_before = outbox.begun()
        self._stirred = asyncio.Event()

    # -- from the relay -----------------------------------------------------------------------

    def question(self, wake: Wake) -> None:
        """A question arrived, for the first time or again."""
        request_id = wake.request_id
        if self._queues.closed(request_id) or self._outbox.holds(request_id):
            self._post(frames.received(request_id))
            return
        if not self._queues.knows(request_id):
            if not self._queues.add(wake):
                self._finish(request_id, {"error": "failed", "detail": "The agent has too many questions waiting."})
                return
            logger.info("hermes-bridge: request %s from %s is in line", request_id, wake.sender)
        self._post(frames.received(request_id))
        self._stirred.set()

    def cancelled(self, request_id: str) -> None:
        """Nobody waits for this answer any more."""
        if self._queues.closed(request_id):
            return
        running = next((w for w, on in self._queues.open() if on and w.request_id == request_id), None)
        self._queues.close(request_id)
        logger.info("hermes-bridge: request %s was cancelled by its asker", request_id)
        if running is not None:
            turn = self._turns.get(chat_id_of(running.conversation_id))
            if turn is not None and turn.request_id == request_id:
                turn.replied = True
            self._host.interrupt(chat_id_of(running.conversation_id))

    # -- from Hermes --------------------------------------------------------------------------

    def turn_began(self, chat_id: str, request_id: Optional[str]) -> None:
        """A turn of one of our sessions begins; without a request id it is one that Hermes started
        by itself, for us only if it continues what an earlier process began."""
        if request_id is None:
            before = self._begun_before.pop(chat_id, None)
            if before is not None:
                logger.info("hermes-bridge: request %s is taken up again after a restart", before)
                self._turns[chat_id] = Turn(before, chat_id, resumed=True)
            return
        running = self._queues.running(chat_id)
        if running is None or running.request_id != request_id:
            return
        if chat_id not in self._turns:
            self._turns[chat_id] = Turn(request_id, chat_id)
        self._begun_before.pop(chat_id, None)
        self._outbox.turn_began(chat_id, request_id)
        self._beat(running, True)

    def turn(self, chat_id: str) -> Optional[Turn]:
        """The turn that runs in this session, if it is ours."""
        return self._turns.get(chat_id)

    def final_text(self, chat_id: str, request_id: Optional[str], text: str) -> None:
        """Hermes delivers the final text of a turn."""
        turn = self._turns.get(chat_id)
        if turn is not None and (turn.request_id == request_id or turn.resumed):
            turn.texts.append(text)
        else:
            logger.info("hermes-bridge: a message of session %s that answers no question is dropped", chat_id)

    def attachment(self, chat_id: str, text: str) -> None:
        """Hermes delivers a file or picture of a turn; the answer says so in words."""
        turn = self._turns.get(chat_id)
        if turn is not None:
            turn.attachments.append(text)

    def turn_over(self, chat_id: str, request_id: Optional[str], outcome: str) -> None:
        """Hermes is done with a turn of one of our sessions."""
        turn = self._turns.get(chat_id)
        if turn is None or not (turn.request_id == request_id or (turn.resumed and request_id is None)):
            self._stirred.set()
            return
        if request_id is not None and not turn.texts and self._host.parked(request_id):
            # Not a turn at all: Hermes keeps the message until its own restoring is done.
            return
        del self._turns[chat_id]
        if turn.resumed and not turn.texts and not turn.model_began:
            # Hermes passes its own continuation round once before it runs it.
            self._begun_before[chat_id] = turn.request_id
            return
        draining = self._host.draining()
        self._conclude(turn, turns.judge(turn, outcome, draining=draining), draining)
        if not turn.resumed:
            self._queues.turn_over(chat_id)
        self._stirred.set()

    def reply(self, request_id: str, arguments: dict[str, str]) -> Answer:
        """An explicit answer, or a question back to the asker, before the turn is over."""
        for turn in self._turns.values():
            if turn.request_id == request_id:
                turn.replied = True
        return self._finish(request_id, arguments, explicit=True)

    def reply_refused(self, request_id: str) -> None:
        """The explicit answer did not count: the question is open again, for another or the final text."""
        self._queues.reopen(request_id)
        for turn in self._turns.values():
            if turn.request_id == request_id:
                turn.replied = False

    def beat_for(self, turn: Turn) -> None:
        """Something worth a heartbeat of its own is known about this turn."""
        running = self._queues.running(turn.chat_id)
        if running is not None and running.request_id == turn.request_id:
            self._beat(running, True)

    def open_requests(self) -> list[str]:
        return [wake.request_id for wake, _ in self._queues.open()]

    # -- the ticker ---------------------------------------------------------------------------

    async def run(self, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        """Starts turns as sessions become free, and says every few seconds what is still open."""
        loop = asyncio.get_running_loop()
        next_beat = loop.time() + heartbeat_seconds
        while True:
            held_up = await self.start_what_can()
            now = loop.time()
            pause = self._beat_pause(heartbeat_seconds)
            next_beat = min(next_beat, now + pause)
            if now >= next_beat:
                next_beat = now + pause
                for wake, running in self._queues.open():
                    self._beat(wake, running)
            pause = next_beat - now
            if held_up:
                pause = min(pause, LOOK_AGAIN_SECONDS)
            try:
                await asyncio.wait_for(self._stirred.wait(), max(pause, 0.01))
            except asyncio.TimeoutError:
                pass
            self._stirred.clear()

    async def start_what_can(self) -> bool:
        """Starts the first question of every free session; whether one has to wait for Hermes."""
        held_up = False
        for chat_id, wake in self._queues.startable():
            if not self._host.ready() or self._host.session_busy(chat_id):
                held_up = True
                continue
            if self._queues.start(chat_id, wake.request_id) is None:
                continue
            self._turns[chat_id] = Turn(wake.request_id, chat_id)
            try:
                await self._host.start_turn(wake, chat_id)
            except Exception:
                logger.exception("hermes-bridge: request %s could not be started", wake.request_id)
                self._turns.pop(chat_id, None)
                self._finish(wake.request_id, {"error": "failed", "detail": "The agent could not start a turn."})
                self._queues.turn_over(chat_id)
        return held_up

    # -- inside -------------------------------------------------------------------------------

    def _conclude(self, turn: Turn, verdict: turns.Verdict, draining: bool) -> None:
        request_id = turn.request_id
        if verdict.answer is not None:
            logger.info("hermes-bridge: request %s: the turn's final text is the answer", request_id)
            self._finish(request_id, {"answer": verdict.answer}, turn.chat_id)
        elif verdict.error and not turn.resumed:
            logger.warning("hermes-bridge: request %s: the turn ended: %s", request_id, verdict.error)
            self._finish(request_id, {"error": verdict.error, "detail": verdict.detail}, turn.chat_id)
        elif turn.replied or not draining:
            self._outbox.turn_ended(turn.chat_id)
        # Else the turn was cut short by a restart: it stays noted, and the relay asks again.

    def _finish(self, request_id: str, arguments: dict[str, str], chat_id: str = "", explicit: bool = False) -> Answer:
        self._queues.close(request_id)
        answer = self._outbox.put(request_id, arguments, chat_id, explicit)
        self._deliver(answer)
        return answer

    def _beat_pause(self, longest: float) -> float:
        """The pause that the strictest open question allows."""
        limits = [wake.quiet_ms / 3000 for wake, _ in self._queues.open() if wake.quiet_ms > 0]
        return min(longest, max(_SHORTEST_BEAT_SECONDS, min(limits, default=longest)))

    def _beat(self, wake: Wake, running: bool) -> None:
        turn = self._turns.get(chat_id_of(wake.conversation_id)) if running else None
        session_id = turn.session_id if turn is not None else ""
        self._post(frames.heartbeat(wake.request_id, session_id, "running" if running else "queued"))
