"""A tester at the relay: an agent without a model, that asks and waits.

Owns one WebSocket of its own, kept up by the plugin's connection, on a loop in a thread. So an ask of
a test survives a restart of the relay exactly as an ask of a bot does.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from adapter import frames  # noqa: E402
from adapter.connection import Connection  # noqa: E402

#: The first turn of a gateway loads half of Hermes: half a minute where others keep the machine busy.
PATIENCE = 150.0


class Asker:
    def __init__(self, url: str, token: str) -> None:
        self.heard: list[Any] = []
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        instance = uuid4().hex
        self._connection: Connection = self._run(self._dial(url, token, instance)).result(10)

    async def _dial(self, url: str, token: str, instance: str) -> Connection:
        connection = Connection(url, token, lambda: frames.hello("tests", instance), self.heard.append,
                                lambda state, reason: None, scale=0.2)
        connection.start()
        assert await connection.first_state(10) == "connected"
        return connection

    def close(self) -> None:
        self._run(self._connection.stop()).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)

    def call(self, tool: str, seconds: float = PATIENCE, **arguments: Any) -> Any:
        """Calls a tool and waits for its result."""
        return self.begin(tool, **arguments).result(seconds)

    def begin(self, tool: str, **arguments: Any) -> "Future[Any]":
        """Calls a tool; the result comes with the future."""
        return self._run(self._connection.call(frames.Call(uuid4().hex, tool, arguments)))

    def ask(self, to: str, message: str, seconds: float = PATIENCE, **more: Any) -> Any:
        return self.call("ask_agent", seconds, to=to, message=message, **more)

    def begin_ask(self, to: str, message: str, **more: Any) -> "Future[Any]":
        return self.begin("ask_agent", to=to, message=message, **more)

    def post(self, frame: str) -> None:
        self._loop.call_soon_threadsafe(self._connection.post, frame)

    def _run(self, work: Any) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)
