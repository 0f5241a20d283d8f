"""A relay as small as it gets: a real WebSocket server that speaks the bridge's frames.

For tests of the connection and of the plugin inside a gateway. It keeps every frame it hears, sends
what a test tells it to, and answers calls with what ``on_call`` returns (nothing, if ``None``).
"""

from __future__ import annotations

import asyncio
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
