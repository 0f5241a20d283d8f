"""Tool calls from Hermes' worker threads to the relay, with an end to their patience.

Owns how long a call waits: for its result as long as the relay works on it, for a relay that is away
only so long. An answer given with ``reply`` takes the way of every answer, through the outbox, so it
is kept when the relay is away.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any, Callable, Optional
from uuid import uuid4

from .connection import Connection
from .courier import Courier
from .desk import Desk
from .frames import Call
from .tools import unreachable

#: Seconds without a relay after which a call gives up.
PATIENCE = {"ask_agent": 180.0, "get_answer": 60.0, "list_agents": 20.0, "reply": 20.0}
_LOOK_EVERY = 0.25

_GIVEN_UP = {
    "ask_agent": "The relay has been away too long. The question may have reached it: asking again with "
    "the same words joins it, so nothing is asked twice. Or go on without the answer.",
    "reply": "The relay is away.",
}


class ToolCalls:
    def __init__(self, connection: Connection, desk: Desk, courier: Courier,
                 patience: Optional[dict[str, float]] = None) -> None:
        self._connection = connection
        self._desk = desk
        self._courier = courier
        self._patience = patience or PATIENCE

    def from_thread(self, loop: asyncio.AbstractEventLoop, tool: str, arguments: dict[str, Any],
                    during: str, interrupted: Callable[[], bool]) -> Any:
        """Runs the call on the loop and blocks this thread until its end."""
        future = asyncio.run_coroutine_threadsafe(self.run(tool, arguments, during), loop)
        while True:
            try:
                return future.result(timeout=_LOOK_EVERY)
            except (concurrent.futures.TimeoutError, asyncio.TimeoutError):
                if future.done():
                    return unreachable("The call timed out.")
                if interrupted():
                    future.cancel()
                    return unreachable("This turn was interrupted while it waited for the relay. A question "
                                       "that was asked stays asked.")
            except (concurrent.futures.CancelledError, asyncio.CancelledError):
                return unreachable("The bridge was shut down during the call.")

    async def run(self, tool: str, arguments: dict[str, Any], during: str = "") -> Any:
        if tool == "reply" and str(arguments.get("answer", "")).strip() and arguments.get("request_id"):
            return await self._reply(str(arguments["request_id"]), str(arguments["answer"]))
        call = Call(f"call-{uuid4().hex}", tool, arguments, during)
        result = await self._with_patience(tool, asyncio.ensure_future(self._connection.call(call)))
        return result if result is not None else unreachable(
            _GIVEN_UP.get(tool, "The relay is away. Try again later, or go on without it.")
        )

    async def _reply(self, request_id: str, answer: str) -> Any:
        kept = self._desk.reply(request_id, {"answer": answer})
        delivery = asyncio.ensure_future(asyncio.shield(self._courier.deliver(kept)))
        result = await self._with_patience("reply", delivery, lambda: self._courier.held_up(kept))
        if result is None:
            return {
                "ok": True,
                "queued": True,
                "message": "The relay cannot take it now. The answer is kept and delivered when it can; do not send it again.",
            }
        if isinstance(result, dict) and result.get("ok") is False and result.get("error") != "already_answered":
            self._desk.reply_refused(request_id)
        return result

    async def _with_patience(self, tool: str, task: "asyncio.Future[Any]",
                             held_up: Callable[[], bool] = lambda: False) -> Any:
        """The task's result, or ``None`` once the relay has been away, or unable to take it, for too long."""
        loop = asyncio.get_running_loop()
        away_since: Optional[float] = None
        try:
            while True:
                done, _ = await asyncio.wait([task], timeout=_LOOK_EVERY)
                if done:
                    return task.result()
                if self._connection.connected and not held_up():
                    away_since = None
                    continue
                away_since = away_since if away_since is not None else loop.time()
                if loop.time() - away_since >= self._patience.get(tool, 20.0):
                    return None
        finally:
            if not task.done():
                task.cancel()
