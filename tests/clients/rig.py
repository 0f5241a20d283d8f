"""A relay of its own for a test, and bots on its WebSocket. Owns the relay's process and its directory."""

import json
import os
import re
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from websockets.sync.client import connect

from client import PATIENCE, Client

BINARY = Path(os.environ.get("HERMES_BRIDGE_BIN", Path(__file__).parents[2] / "target" / "debug" / "hermes-bridge"))
OWNER = "owner-token-of-the-tests"
TOKENS = {"alice": "alice-3f1c", "bob": "bob-9d2e", "carol": "carol-77ab"}


class Relay:
    """Started by the constructor, ready when that returns."""

    def __init__(self, directory, limits=None, sections="", env=None, **settings):
        lines = ['listen = "127.0.0.1:0"', *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
        lines += ["[limits]", *(f"{key} = {json.dumps(value)}" for key, value in (limits or {}).items())]
        lines.append(sections)
        for name, token in TOKENS.items():
            lines += ["[[agents]]", f'name = "{name}"', f'token = "{token}"']
        self.config = config = Path(directory) / "bridge.toml"
        config.write_text("\n".join(lines) + "\n")
        self.may_complain = False
        self.log = Path(directory) / "log"
        self.clients, self.bots = [], []
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "--config", config],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "HERMES_BRIDGE_UI_TOKEN": OWNER, **(env or {})},
            )
        self.port = None
        for line in self.process.stdout:
            if found := re.match(r"listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        assert self.port, f"the relay did not start: {self.log.read_text()}"
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def client(self, kind, agent, **options):
        client = Client(kind, self.url, TOKENS[agent], **options)
        self.clients.append(client)
        return client

    def bot(self, agent, hello=True):
        bot = Bot(self, agent, hello)
        self.bots.append(bot)
        return bot

    def stop(self):
        for client in self.clients:
            client.close()
        for bot in self.bots:
            bot.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"the relay did not stop: {self.log.read_text()}") from None
        log = self.log.read_text()
        assert code == 0, log
        assert (self.may_complain or "ERROR" not in log) and "panicked" not in log, log


class Bot:
    """A bot's socket. Without `hello` it is one that knows only what the original relay spoke."""

    def __init__(self, relay, agent, hello=True):
        self.leaving = ExitStack()
        connecting = connect(
            f"ws://127.0.0.1:{relay.port}/bridge/connect",
            additional_headers={"Authorization": f"Bearer {TOKENS[agent]}"},
            proxy=None,
            open_timeout=PATIENCE,
        )
        self.socket = self.leaving.enter_context(connecting)
        if hello:
            self.send(type="hello", adapter="tests", instance=str(id(self)), features=[])

    def send(self, **frame):
        self.socket.send(json.dumps(frame))

    def wake(self, within=PATIENCE):
        frame = json.loads(self.socket.recv(within))
        assert frame["type"] == "wake", frame
        return frame

    def heartbeat(self, wake):
        self.send(type="heartbeat", request_id=wake["request_id"])

    def hears_nothing_for(self, seconds):
        """A silence is the condition here: any frame within it is a failure."""
        try:
            frame = self.socket.recv(seconds)
        except TimeoutError:
            return
        raise AssertionError(f"expected silence, heard {frame}")

    def close(self):
        self.leaving.close()

    def vanish(self):
        """The network goes, with no close frame."""
        self.socket.socket.close()


def until(condition, within=PATIENCE):
    """What `condition` returns once it is true."""
    deadline = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < deadline, "this did not come true in time"
        time.sleep(0.02)
    return value
