"""The official clients, each a process that is told what to do over JSON lines. Owns the processes; knows no test."""

import json
import os
import subprocess
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("HERMES_BRIDGE_TEST_CACHE", HERE.parents[1] / "target" / "test-cache"))
# No answer that a test waits for takes longer, on a machine with other work too.
PATIENCE = 30

MODULES = CACHE / "npm"


@dataclass(frozen=True)
class Kind:
    """An SDK, and the way it is to open the conversation."""

    name: str
    program: tuple
    needs: Path
    protocol: str
    options: dict = field(default_factory=dict, hash=False)

    def __str__(self):
        return self.name


def python(venv):
    return CACHE / venv / "bin" / "python"


def python_kind(name, venv, protocol, **options):
    return Kind(name, (str(python(venv)), str(HERE / "client_python.py")), python(venv), protocol, options)


PYTHON_1 = python_kind("python-1.26", "mcp1", "2025-11-25")
PYTHON_2 = python_kind("python-2", "mcp2", "2026-07-28", mode="auto")
PYTHON_2_LEGACY = python_kind("python-2-legacy", "mcp2", "2025-11-25", mode="legacy")
TYPESCRIPT = Kind(
    "typescript",
    (os.environ.get("HERMES_BRIDGE_TEST_NODE", "node"), str(HERE / "client_typescript.mjs")),
    MODULES / "node_modules" / "@modelcontextprotocol" / "sdk",
    "2025-11-25",
)
KINDS = (PYTHON_1, PYTHON_2, PYTHON_2_LEGACY, TYPESCRIPT)


class Failure(Exception):
    """A JSON-RPC error, or what ended the client when `code` is None."""

    def __init__(self, failure):
        super().__init__(f"{failure['code']}: {failure['message']}")
        self.code = failure["code"]
        self.message = failure["message"]


class Call:
    """A call under way."""

    def __init__(self, client, number, future):
        self.client, self.number, self.future = client, number, future

    def result(self, within=PATIENCE):
        return self.future.result(within)

    def outcome(self, within=PATIENCE):
        """What the tool said, once it is sure that it is what every business outcome is: one text of compact JSON."""
        result = self.result(within)
        assert result["isError"] is False, result
        assert result["structured"] is None, result
        [text] = result["texts"]
        value = json.loads(text)
        assert text == json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return value

    def done(self):
        return self.future.done()

    def abandon(self):
        """The caller stops waiting, as its SDK does that."""
        self.client.tell(op="abandon", call=self.number)


class Client:
    """One process of one SDK, connected to one relay as one agent."""

    def __init__(self, kind, url, token, read_timeout=300.0, protocol=None):
        if not kind.needs.exists():
            raise AssertionError(f"{kind} is not installed: tests/clients/run says why ({kind.needs} is missing)")
        options = {"url": url, "token": token, "read_timeout": read_timeout, "protocol": protocol, **kind.options}
        self._hello = Future()
        self.waiting, self.numbers, self.lock = {0: self._hello}, 0, threading.Lock()
        self.process = subprocess.Popen(
            [*kind.program, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "CLIENT_MODULES": str(MODULES)},
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        last = {"code": None, "message": "the client ended"}
        for line in self.process.stdout:
            said = json.loads(line)
            if said["id"] is None:
                last = said["failure"]
                continue
            with self.lock:
                future = self.waiting.pop(said["id"])
            if "result" in said:
                future.set_result(said["result"])
            else:
                future.set_exception(Failure(said["failure"]))
        with self.lock:
            left, self.waiting = self.waiting, None
        for future in left.values():
            future.set_exception(Failure(last))

    @property
    def hello(self):
        """What the relay said of itself. Clients start side by side: only who needs this waits for it."""
        return self._hello.result(PATIENCE)

    def connected(self):
        """This client, once it is: before a scene in which time counts."""
        assert self.hello
        return self

    def tell(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def _begin(self, **command):
        with self.lock:
            assert self.waiting is not None, f"the client has ended: {self._hello}"
            self.numbers += 1
            number, future = self.numbers, Future()
            self.waiting[number] = future
        self.tell(id=number, **command)
        return Call(self, number, future)

    def start(self, tool, **arguments):
        return self._begin(op="call", tool=tool, arguments=arguments)

    def call(self, tool, **arguments):
        return self.start(tool, **arguments).outcome()

    def misuse(self, tool, **arguments):
        """The text of a call that is none."""
        result = self.start(tool, **arguments).result()
        assert result["isError"] is True, result
        [text] = result["texts"]
        return text

    def tools(self):
        return self._begin(op="tools").result()

    def ping(self):
        return self._begin(op="ping").result()

    def kill(self):
        """The caller is gone, as when its machine loses power."""
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                self.kill()
