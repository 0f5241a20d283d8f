"""A scripted model: an OpenAI-compatible server whose answers are Python functions of a test.

Owns the HTTP and the streaming; a test owns the script. Standard library only. A script gets a
:class:`Turn` for every request of a gateway and returns :class:`Say`, :class:`Use` or :class:`Fail`.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Optional, Union
from uuid import uuid4


#: In every bot's SOUL.md, so that its own turns are told from Hermes' background requests.
SOUL = "You are a bot of the tests."


@dataclass(frozen=True)
class Say:
    """The model answers with this text."""

    text: str


@dataclass(frozen=True)
class Use:
    """The model calls tools."""

    calls: list[tuple[str, dict[str, Any]]]

    @staticmethod
    def tool(name: str, **arguments: Any) -> "Use":
        return Use([(name, arguments)])


@dataclass(frozen=True)
class Fail:
    """The model server fails."""

    status: int = 500
    message: str = "the stub was told to fail"


@dataclass
class Turn:
    """One request of a gateway to its model."""

    messages: list[dict[str, Any]]
    tools: list[str]
    body: dict[str, Any] = field(repr=False, default_factory=dict)

    @property
    def user(self) -> str:
        """The text of the last message of the user."""
        return next((_text(m) for m in reversed(self.messages) if m["role"] == "user"), "")

    @property
    def question(self) -> str:
        """What the asking agent wrote, without the words around it."""
        # Hermes joins a message to the one before it when that one was never answered.
        found = re.findall(r"----- begin (\w+) -----\n(.*?)\n----- end \1 -----", self.user, re.S)
        return found[-1][1] if found else self.user

    @property
    def request_id(self) -> str:
        found = re.findall(r"request_id=([^,\s)]+)", self.user)
        return found[-1] if found else ""

    @property
    def results(self) -> list[str]:
        """The tool results since the last message of the user."""
        found: list[str] = []
        for message in reversed(self.messages):
            if message["role"] == "user":
                break
            if message["role"] == "tool":
                found.insert(0, _text(message))
        return found

    @property
    def relay_results(self) -> list[dict[str, Any]]:
        """The relay's own objects in the tool results, whatever Hermes put around them."""
        return [found for text in self.results for found in _relay_objects(text)]

    @property
    def history(self) -> str:
        """Everything that the model was shown, as one text."""
        return "\n".join(_text(m) for m in self.messages)

    def call(self, tool: str, **arguments: Any) -> Use:
        """A call of the tool under whatever name this gateway shows it."""
        for name in self.tools:
            if name == tool or name.endswith("__" + tool):
                return Use([(name, arguments)])
        # Newer releases show such tools only in the description of others, and call them through one.
        listed = re.search(rf"\w+__{tool}\b", json.dumps(self.body.get("tools")))
        name = listed.group(0) if listed else tool
        through = next((t["function"] for t in self.body.get("tools") or [] if t["function"]["name"] == "tool_call"), {})
        one = {"name": name, "arguments": arguments}
        several = "calls" in through.get("parameters", {}).get("properties", {})
        return Use([("tool_call", {"calls": [one]} if several else one)])


Script = Callable[[Turn], Union[Say, Use, Fail]]


def asks_b(message: str) -> Script:
    """The script of a bot that asks b with every question and says what b says."""
    def script(turn: Turn) -> Union[Say, Use, Fail]:
        if not turn.results:
            return turn.call("ask_agent", to="b", message=message)
        return Say(f"b says: {turn.relay_results[-1].get('answer')}" if turn.relay_results else turn.results[-1])

    return script


class Model:
    """One model server; every bot of a test has its own."""

    def __init__(self, script: Optional[Script] = None) -> None:
        self.script: Script = script or (lambda turn: Say(f"answer to: {turn.question}"))
        self.turns: list[Turn] = []
        self.errors: list[Exception] = []
        self._lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                _send_json(self, 200, {"object": "list", "data": [
                    {"id": "stub", "object": "model", "context_length": 200000, "max_model_len": 200000}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
                model._answer(self, body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, http: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        names = [t["function"]["name"] for t in body.get("tools") or [] if "function" in t]
        turn = Turn(body.get("messages") or [], names, body)
        # Titles and the like are asked for in the background, without the bot's own words; no part of a scene.
        if not names and SOUL not in _text(turn.messages[0]):
            said: Union[Say, Use, Fail] = Say("a title")
        else:
            with self._lock:
                self.turns.append(turn)
            try:
                said = self.script(turn)
            except Exception as error:
                self.errors.append(error)
                said = Fail(400, f"the script failed: {error!r}")
        try:
            if isinstance(said, Fail):
                _send_json(http, said.status, {"error": {"message": said.message, "type": "stub"}})
            elif body.get("stream"):
                _send_stream(http, said)
            else:
                _send_json(http, 200, _whole(said))
        except (BrokenPipeError, ConnectionResetError):
            pass


def _message(said: Union[Say, Use]) -> dict[str, Any]:
    if isinstance(said, Say):
        return {"role": "assistant", "content": said.text}
    # Every call has an id of its own: Hermes takes a second result for one id as a repetition.
    return {"role": "assistant", "content": None, "tool_calls": [
        {"index": number, "id": f"call_{uuid4().hex[:12]}", "type": "function",
         "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate(said.calls)]}


def _finish(said: Union[Say, Use]) -> str:
    return "stop" if isinstance(said, Say) else "tool_calls"


_USAGE = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}


def _whole(said: Union[Say, Use]) -> dict[str, Any]:
    return {"id": "stub", "object": "chat.completion", "created": 1, "model": "stub", "usage": _USAGE,
            "choices": [{"index": 0, "message": _message(said), "finish_reason": _finish(said)}]}


def _send_stream(http: BaseHTTPRequestHandler, said: Union[Say, Use]) -> None:
    http.send_response(200)
    http.send_header("content-type", "text/event-stream")
    http.send_header("connection", "close")
    http.end_headers()
    http.close_connection = True

    def event(delta: dict[str, Any], finish: Optional[str] = None, **more: Any) -> None:
        chunk = {"id": "stub", "object": "chat.completion.chunk", "created": 1, "model": "stub",
                 "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
        http.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    event(_message(said))
    event({}, _finish(said), usage=_USAGE)
    http.wfile.write(b"data: [DONE]\n\n")


def _send_json(http: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    http.send_response(status)
    http.send_header("content-type", "application/json")
    http.send_header("content-length", str(len(data)))
    http.end_headers()
    http.wfile.write(data)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""


def _relay_objects(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    position = text.find("{")
    while position >= 0:
        try:
            value, end = json.JSONDecoder().raw_decode(text, position)
        except ValueError:
            position = text.find("{", position + 1)
            continue
        found += _relay_values(value)
        position = text.find("{", end)
    return found


def _relay_values(value: Any) -> list[dict[str, Any]]:
    """The relay's objects in a result, also where a result holds several or a text of JSON."""
    if isinstance(value, str):
        return _relay_objects(value)
    if isinstance(value, list):
        return [found for item in value for found in _relay_values(item)]
    if not isinstance(value, dict):
        return []
    if "ok" in value and ("answer" in value or "error" in value):
        return [value]
    return [found for item in value.values() for found in _relay_values(item)]
