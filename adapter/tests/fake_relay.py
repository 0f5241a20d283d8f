"""A relay as small as it gets: a real WebSocket server that speaks the bridge's frames.

For tests of the connection and of the plugin inside a gateway. It keeps every frame it hears, sends
what a test tells it to, and answers calls with what ``on_call`` returns (nothing, if ``None``).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import http
import json
from typing import Any, Callable, Optional

from websockets.asyncio.server import ServerConnection, serve


class FakeRelay:
    def __init__(self, token: str = "secret", on_call: Optional[Callable[[dict], Any]] = None) -> None:
        self.token = token
        self.on_call = on_call or (lambda frame: {"ok": True})
        self.heard: list[dict[str, Any]] = []
        self.sockets: list[ServerConnection] = []
        self.upgrades = 0
        self.refuse: Optional[int] = None
        self._server: Any = None
        self._changed = asyncio.Condition()
        self.port = 0

    async def start(self, port: int = 0) -> "FakeRelay":
        self._server = await serve(self._serve, "127.0.0.1", port or self.port,
                                   process_request=self._check, max_size=None)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self, code: int = 1012) -> None:
        for socket in list(self.sockets):
            await socket.close(code)
        self._server.close()
        await self._server.wait_closed()

    async def __aenter__(self) -> "FakeRelay":
        return await self.start()

    async def __aexit__(self, *_: Any) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/bridge/connect"

    def _check(self, connection: ServerConnection, request: Any) -> Any:
        if self.refuse is not None:
            return connection.respond(http.HTTPStatus(self.refuse), "refused\n")
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "unknown token\n")
        return None

    async def _serve(self, socket: ServerConnection) -> None:
        self.upgrades += 1
        self.sockets.append(socket)
        try:
            async for text in socket:
                frame = json.loads(text)
                async with self._changed:
                    self.heard.append(frame)
                    self._changed.notify_all()
                if frame.get("type") == "call":
                    result = self.on_call(frame)
                    if asyncio.iscoroutine(result):
                        result = await result
                    if result is not None:
                        await self.send({"type": "result", "id": frame["id"], "result": result})
        finally:
            self.sockets.remove(socket)

    async def send(self, frame: dict[str, Any]) -> None:
        for socket in list(self.sockets):
            await socket.send(json.dumps(frame))

    async def wake(self, request_id: str, message: str, conversation_id: str = "c1", sender: str = "asker",
                   **more: Any) -> None:
        await self.send({"type": "wake", "request_id": request_id, "conversation_id": conversation_id,
                         "from": sender, "message": message, **more})

    def frames(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        return [f for f in self.heard
                if f.get("type") == kind and all(f.get(key) == value for key, value in fields.items())]

    def answers(self) -> dict[str, dict[str, Any]]:
        return {f["arguments"]["request_id"]: f["arguments"] for f in self.frames("call", tool="reply")}

    async def until(self, condition: Callable[[], Any], seconds: float = 5.0) -> Any:
        """Waits until the condition holds; it is looked at after every frame."""
        async def wait() -> Any:
            async with self._changed:
                while not (value := condition()):
                    try:
                        await asyncio.wait_for(self._changed.wait(), 0.05)
                    except asyncio.TimeoutError:
                        pass
                return value

        return await asyncio.wait_for(wait(), seconds)


class DeafRelay:
    """Takes every connection and says nothing: no upgrade, or one and not a word after it. ``reads_every``: it
    reads a piece each so many seconds; without it, never."""

    def __init__(self, upgrades: bool, reads_every: Optional[float] = None) -> None:
        self._upgrades, self._pause = upgrades, reads_every
        self._writers: list[asyncio.StreamWriter] = []
        self.connections, self.read, self.took = 0, 0, 0.0

    async def __aenter__(self) -> "DeafRelay":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**16)
        self.url = f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/bridge/connect"
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        if not self._upgrades:
            return
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = next(line.split(": ")[1] for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key"))
        mark = base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()
        writer.write(f"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {mark}\r\n\r\n".encode())
        began = asyncio.get_running_loop().time()
        while self._pause is not None and (piece := await reader.read(2**16)):
            self.read += len(piece)
            self.took = asyncio.get_running_loop().time() - began
            await asyncio.sleep(self._pause)
