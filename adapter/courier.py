"""Carries the answers of the outbox to the relay.

Owns the way of one answer: sent as a ``call`` of ``reply`` with a call id that never changes, until
the relay has it on disk or has refused it for good. Decides nothing about what the answer is.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Awaitable, Callable, Optional

from .frames import Call
from .outbox import Answer, Outbox

logger = logging.getLogger(__name__)

#: Refusals that may pass: the answer stays in the outbox and is tried again after the pause.
PASSING = ("store_unavailable", "rate_limited", "relay_unreachable")
RETRY_SECONDS = 10.0


class Courier:
    """Delivers what is in the outbox, each answer in a task of its own."""

    def __init__(self, outbox: Outbox, call: Callable[[Call], Awaitable[Any]],
                 retry_seconds: float = RETRY_SECONDS) -> None:
        self._outbox = outbox
        self._call = call
        self._retry_seconds = retry_seconds
        self._tasks: dict[str, "asyncio.Task[Any]"] = {}
        self._held_up: set[str] = set()

    def deliver_all(self) -> None:
        """Starts a delivery for every answer that has none under way."""
        for answer in self._outbox.undelivered():
            self.deliver(answer)

    def deliver(self, answer: Answer) -> "asyncio.Task[Any]":
        """The delivery of this answer; its result is what the relay said last."""
        task = self._tasks.get(answer.call_id)
        if task is None:
            task = asyncio.ensure_future(self._carry(answer))
            self._tasks[answer.call_id] = task
            task.add_done_callback(lambda _: self._tasks.pop(answer.call_id, None))
        return task

    def held_up(self, answer: Answer) -> bool:
        """The relay is there and cannot take this answer, or not onto its disk, for the time being."""
        return answer.call_id in self._held_up

    async def stop(self) -> None:
        """Ends the deliveries; what they carried stays in the outbox."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, answer: Answer) -> Any:
        try:
            while True:
                result = await self._call(Call(answer.call_id, "reply", answer.arguments))
                error = _error_of(result)
                if error not in PASSING and not _in_memory(result):
                    self._settle(answer, error)
                    return result
                logger.warning("hermes-bridge: request %s: the relay cannot take the answer onto its disk now (%s)",
                               answer.request_id, error or "it waits in its memory")
                self._held_up.add(answer.call_id)
                await asyncio.sleep(self._retry_seconds)
        finally:
            self._held_up.discard(answer.call_id)

    def _settle(self, answer: Answer, error: Optional[str]) -> None:
        self._outbox.confirm(answer)
        if error is None or error == "already_answered":
            logger.info("hermes-bridge: request %s: answer delivered", answer.request_id)
            return
        logger.warning("hermes-bridge: request %s: the relay refused the answer: %s",
                       answer.request_id, error)
        if error in ("too_large", "empty_answer") and "error" not in answer.arguments and not answer.explicit:
            said = "is too large for the relay" if error == "too_large" else "is blank"
            instead = self._outbox.put(
                answer.request_id, {"error": "failed", "detail": f"The agent's answer {said}."}
            )
            self.deliver(instead)


def _error_of(result: Any) -> Optional[str]:
    if isinstance(result, dict) and result.get("ok") is False:
        return str(result.get("error") or "unknown")
    return None


def _in_memory(result: Any) -> bool:
    """Taken, but a crash of the relay would lose it: said again, it is the same answer."""
    return isinstance(result, dict) and result.get("ok") is True and result.get("recorded") is False
