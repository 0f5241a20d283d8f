"""A real Hermes gateway as a process of its own, with a home of its own.

Owns the home's files and the process. The Hermes that runs is the one of the Python in HERMES_PYTHON,
else of the Python that runs the tests. Waits by looking at what the gateway writes, never by sleeping
a fixed time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Optional

from model import SOUL, Model, Script

PLUGIN = Path(__file__).resolve().parents[2] / "adapter"
PYTHON = os.environ.get("HERMES_PYTHON") or sys.executable

CONFIG = """\
# A bot of the tests: hermetic, quick, and nothing that asks the network.
model:
  default: stub
  provider: custom:stub
  base_url: {base_url}
  context_length: 200000
custom_providers:
  - name: stub
    base_url: {base_url}
    api_key: none
    model: stub
plugins:
  enabled: [hermes-bridge]
security:
  allow_lazy_installs: false
  tirith_enabled: false
onboarding:
  profile_build: "off"
agent:
  max_turns: 20
  restart_drain_timeout: 3
  environment_probe: false
memory:
  memory_enabled: false
  user_profile_enabled: false
{more}"""


def until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Waits until the condition holds and returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


class Bot:
    """One bot; started with :meth:`start`, seen through its files."""

    def __init__(self, home: Path, token: str, relay_url: str, script: Optional[Script] = None,
                 config: str = "", env: Optional[dict[str, str]] = None) -> None:
        self.home = home
        self.model = Model(script)
        self.relay_url = relay_url
        self._env = env or {}
        self._started = ""
        self._process: Optional[subprocess.Popen[bytes]] = None
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.yaml").write_text(CONFIG.format(base_url=self.model.base_url, more=config))
        (home / ".env").write_text(f"HERMES_BRIDGE_TOKEN={token}\nHERMES_BRIDGE_RELAY_URL={relay_url}\n")
        (home / "SOUL.md").write_text(SOUL + "\n")
        shutil.copytree(PLUGIN, home / "plugins" / "hermes-bridge",
                        ignore=shutil.ignore_patterns("tests", "__pycache__", "README.md"))

    def start(self) -> "Bot":
        self._started = datetime.now(timezone.utc).isoformat()
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        env = {**keep, "HOME": str(self.home), "HERMES_HOME": str(self.home), "PYTHONUNBUFFERED": "1",
               "HERMES_DISABLE_LAZY_INSTALLS": "1", "NO_COLOR": "1", **self._env}
        with open(self.home / "console.log", "ab") as console:
            self._process = subprocess.Popen(
                [PYTHON, "-m", "hermes_cli.main", "gateway", "run"], cwd=self.home, env=env,
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True)
        return self

    def kill(self) -> None:
        """As if the machine had lost its power."""
        self._end(signal.SIGKILL)

    def stop(self, seconds: float = 30) -> None:
        """As an operator would."""
        self._end(signal.SIGTERM, seconds)

    def pause(self) -> None:
        """The process stands still: it says nothing, and its connection stays open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        self.model.stop()

    def _end(self, how: int, seconds: float = 30) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)

    def exited(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def state(self) -> dict[str, Any]:
        """What Hermes shows about the platform."""
        try:
            written = json.loads((self.home / "gateway_state.json").read_text())
            return dict((written.get("platforms") or {}).get("hermes-bridge") or {})
        except (OSError, ValueError):
            return {}

    def says_connected(self) -> bool:
        """What Hermes shows, which may be of a moment ago; what is so is seen at the relay (``Stage.join``)."""
        if self.exited():
            raise AssertionError(f"the gateway ended:\n{self.log()[-3000:]}")
        return self.state().get("state") == "connected" and self.state().get("updated_at", "") > self._started

    def log(self) -> str:
        texts = []
        for name in ("console.log", "logs/gateway.log", "logs/agent.log"):
            try:
                texts.append((self.home / name).read_text(errors="replace"))
            except OSError:
                pass
        return "\n".join(texts)
