"""The relay's binary as a process, with a directory of its own.

Owns its configuration and the process. The binary is the one in HERMES_BRIDGE_BIN, else the newest
that cargo built here.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Optional

ROOT = Path(__file__).resolve().parents[2]


def binary() -> Optional[Path]:
    """The relay to test, if there is one."""
    named = os.environ.get("HERMES_BRIDGE_BIN")
    if named:
        return Path(named)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    built = [path for kind in ("debug", "release") if (path := target / kind / "hermes-bridge").exists()]
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


def free_port() -> int:
    """A port below those that the kernel gives to anybody: it has to be free again after an outage of minutes."""
    while True:
        port = random.SystemRandom().randrange(10000, 30000)
        with socket.socket() as held:
            try:
                held.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Relay:
    """One relay; the same port and the same data through every restart."""

    def __init__(self, directory: Path, agents: list[str], **settings: Any) -> None:
        self.directory = directory
        self.port = free_port()
        self._process: Optional[subprocess.Popen[str]] = None
        lines = [f"{key} = {value}" for key, value in settings.items()]
        for name in agents:
            lines += ["[[agents]]", f'name = "{name}"', f'token = "{self.token(name)}"']
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "bridge.toml").write_text("\n".join(lines) + "\n")

    @staticmethod
    def token(name: str) -> str:
        return f"tests-token-of-{name}-0123456789abcdef"

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/bridge/connect"

    @property
    def mcp_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> "Relay":
        end = time.monotonic() + 15
        while True:
            # The port of the relay before may be held for a moment.
            with open(self.directory / "relay.log", "ab") as log:
                self._process = subprocess.Popen(
                    [str(binary()), "serve", "--config", "bridge.toml", "--listen", f"127.0.0.1:{self.port}",
                     "--data-dir", "data"], cwd=self.directory, stdout=subprocess.PIPE, stderr=log, text=True,
                    start_new_session=True, env={**os.environ, "NO_COLOR": "1", "RUST_LOG": os.environ.get("RUST_LOG", "info")})
            for line in self._process.stdout or ():
                if re.match(r"listening on http://", line):
                    return self
            assert time.monotonic() < end, (self.directory / "relay.log").read_text()[-2000:]

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        self.kill()
        self.start()

    def _end(self, how: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        if process.stdout:
            process.stdout.close()
