"""The one connection to the relay: dialled out, kept up, and honest about its state.

Owns the WebSocket, the reconnecting and the calls that wait for a result. A call survives any number
of lost connections: it is sent again with the same id until its result arrives. Knows nothing of
Hermes and nothing of questions; never logs a token or a text.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any, Callable, Optional

from websockets.asyncio.client import connect as websocket_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from . import frames

logger = logging.getLogger(__name__)

#: The relay refuses a question that would not fit, so this bound is never met by an honest one.
MAX_FRAME_BYTES = 16 * 1024 * 1024
#: Frames waiting to be written. Full means: a heartbeat or an acknowledgement is dropped (the next
#: heartbeat and the relay's second delivery make up for it); calls are kept apart and never dropped.
MAX_OUTGOING = 2048

#: A relay that takes the connection and then says nothing is noticed within a minute, in each of its states: before the
#: upgrade, when a ping gets no pong, and when it reads no more, so that not even a ping can be written.
OPEN_WITHIN, PING_EVERY, PONG_WITHIN, STUCK_AFTER = 10.0, 20.0, 20.0, 40.0

CONNECTED, LOST, REFUSED = "connected", "lost", "refused"

_FIRST_DELAY, _LONGEST_DELAY, _REFUSED_DELAY = 0.5, 5.0, 60.0
_SERVICE_RESTART, _MESSAGE_TOO_BIG = 1012, 1009


class Connection:
    """Runs until :meth:`stop`. ``on_frame`` and ``on_state`` are called on its event loop."""

    def __init__(
        self,
        url: str,
        token: str,
        hello: Callable[[], str],
        on_frame: Callable[[frames.Inbound], None],
        on_state: Callable[[str, str], None],
        *,
        dial: Callable[..., Any] = websocket_connect,
        jitter: Callable[[float, float], float] = random.uniform,
        scale: float = 1.0,
        patience: float = 1.0,
    ) -> None:
        """``scale`` shortens the waits between attempts, ``patience`` those for a silent relay."""
        self._url = url
        self._token = token
        self._hello = hello
        self._on_frame = on_frame
        self._on_state = on_state
        self._dial = dial
        self._jitter = jitter
        self._scale = scale
        self._patience = patience
        self._calls: dict[str, tuple[frames.Call, "asyncio.Future[Any]"]] = {}
        self._outgoing: Optional["asyncio.Queue[str]"] = None
        self._task: Optional["asyncio.Task[None]"] = None
        self._first = asyncio.Event()
        self._reported: tuple[str, str] = ("", "")
        self._restart_announced = False
        self.state = LOST

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    async def first_state(self, timeout: float) -> str:
        """The state after the first attempt, or ``lost`` when that takes too long."""
        try:
            await asyncio.wait_for(self._first.wait(), timeout)
        except asyncio.TimeoutError:
            return LOST
        return self.state

    async def stop(self) -> None:
        """Closes the connection for good; calls that still wait are cancelled."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for _, future in self._calls.values():
            future.cancel()
        self._calls.clear()

    @property
    def connected(self) -> bool:
        return self.state == CONNECTED

    @property
    def reason(self) -> str:
        """Why the state is what it is; empty before the first attempt has ended."""
        return self._reported[1]

    def post(self, frame: str) -> bool:
        """Writes a frame that may be lost; ``False`` when it certainly is."""
        if self._outgoing is None:
            return False
        try:
            self._outgoing.put_nowait(frame)
        except asyncio.QueueFull:
            return False
        return True

    async def call(self, call: frames.Call) -> Any:
        """Calls a tool of the relay and waits, over lost connections too, for its result."""
        known = self._calls.get(call.call_id)
        if known is not None:
            return await asyncio.shield(known[1])
        future: "asyncio.Future[Any]" = asyncio.get_running_loop().create_future()
        self._calls[call.call_id] = (call, future)
        self.post(call.encode())
        try:
            return await future
        finally:
            self._calls.pop(call.call_id, None)

    async def _run(self) -> None:
        failures = 0
        while True:
            self._restart_announced = False
            try:
                failures, reason = await self._one_connection(failures)
            except InvalidStatus as error:
                status = error.response.status_code
                reason = f"the relay answered HTTP {status}"
                if status in (401, 403):
                    self._report(REFUSED, f"{reason}: the token is not accepted")
                    await asyncio.sleep(_REFUSED_DELAY * self._scale)
                    continue
                failures += 1
            except (OSError, asyncio.TimeoutError, EOFError) as error:
                reason = str(error) or type(error).__name__
                failures += 1
            except Exception as error:
                # A wrong address or a proxy that speaks no HTTP: as an outage, but with its name.
                reason = f"{type(error).__name__}: {error}"
                failures += 1
            self._report(LOST, reason)
            await asyncio.sleep(self._delay(failures))

    async def _one_connection(self, failures: int) -> tuple[int, str]:
        """One connection from upgrade to close; the failures to count on and why it closed."""
        headers = {"Authorization": f"Bearer {self._token}"}
        async with self._dial(
            self._url,
            additional_headers=headers,
            max_size=MAX_FRAME_BYTES,
            open_timeout=OPEN_WITHIN * self._patience,
            ping_interval=PING_EVERY * self._patience,
            ping_timeout=PONG_WITHIN * self._patience,
            close_timeout=2,
        ) as socket:
            await socket.send(self._hello())
            self._outgoing = asyncio.Queue(MAX_OUTGOING)
            for call, _ in list(self._calls.values()):
                self.post(call.encode())
            workers = [asyncio.ensure_future(work) for work in (self._write(socket, self._outgoing), self._watch(socket.transport))]
            self._report(CONNECTED, "")
            heard = False
            try:
                async for text in socket:
                    heard = True
                    self._receive(text)
            except ConnectionClosed:
                pass
            finally:
                self._outgoing = None
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
            code = socket.close_code
            if code == _MESSAGE_TOO_BIG:
                self._give_up_largest_call()
            if code == _SERVICE_RESTART or self._restart_announced:
                return 0, "the relay is restarting"
            # A relay that accepts and closes at once must not be dialled in a tight loop.
            return (0 if heard else failures + 1), f"the connection closed ({code})"

    @staticmethod
    async def _write(socket: Any, outgoing: "asyncio.Queue[str]") -> None:
        while True:
            await socket.send(await outgoing.get())

    async def _watch(self, transport: Any) -> None:
        """Ends a connection whose other end takes nothing: the pings of the library wait there for ever."""
        loop = asyncio.get_running_loop()
        left, since = 0, loop.time()
        while True:
            await asyncio.sleep(STUCK_AFTER * self._patience / 8)
            size = transport.get_write_buffer_size()
            if size == 0 or size < left:
                since = loop.time()
            elif loop.time() - since > STUCK_AFTER * self._patience:
                transport.abort()
                return
            left = size

    def _receive(self, text: Any) -> None:
        frame = frames.decode(text)
        if frame is None:
            return
        if isinstance(frame, frames.Result):
            call = self._calls.get(frame.call_id)
            if call is not None and not call[1].done():
                call[1].set_result(frame.result)
            return
        if isinstance(frame, frames.Restarting):
            self._restart_announced = True
        try:
            self._on_frame(frame)
        except Exception:
            # One bad frame must not take the connection, and every other question, with it.
            logger.exception("hermes-bridge: a %s frame failed", type(frame).__name__)

    def _give_up_largest_call(self) -> None:
        """The relay closed because a frame was too big: sending it again would never end."""
        waiting = [(len(call.encode()), future) for call, future in self._calls.values() if not future.done()]
        if waiting:
            size, future = max(waiting, key=lambda pair: pair[0])
            future.set_result({
                "ok": False,
                "error": "too_large",
                "message": f"This call of {size} bytes is larger than the relay takes. Send less text.",
            })

    def _report(self, state: str, reason: str) -> None:
        changed = (state, reason) != self._reported
        self.state, self._reported = state, (state, reason)
        self._first.set()
        if changed and state == CONNECTED:
            logger.info("hermes-bridge: connected to the relay")
        elif changed and state == LOST:
            logger.warning("hermes-bridge: no connection to the relay: %s; trying again", reason)
        # A loss is told at every attempt: Hermes itself writes "connected" once the start is over.
        if changed or state == LOST:
            self._on_state(state, reason)

    def _delay(self, failures: int) -> float:
        longest = min(_LONGEST_DELAY, _FIRST_DELAY * 2 ** min(failures, 10))
        return self._jitter(longest / 2, longest) * self._scale
