"""The stage of a scene: relay, bots and asker, and which Hermes they are made of.

Owns starting and ending them together. Scenes get a stage from the fixtures in ``conftest.py``.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Optional

from asker import Asker
from bot import PYTHON, Bot, until
from model import Say, Script
from relay import Relay


def hermes_version() -> str:
    found = subprocess.run([PYTHON, "-c", "import hermes_cli; print(hermes_cli.__version__)"],
                           capture_output=True, text=True)
    return found.stdout.strip()


#: The release under test, empty if there is none.
VERSION = hermes_version()


class Stage:
    """Relay, bots and asker of one or several scenes; everything ends with it. A bot starts beside the others:
    a scene makes all it needs, then calls :meth:`join`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bots: dict[str, Bot] = {}
        self.relay: Relay
        self._asker: Optional[Asker] = None

    def start_relay(self, agents: str = "a b c", **settings: Any) -> Relay:
        self.relay = Relay(self.directory / "relay", [*agents.split(), "tester"], **settings).start()
        return self.relay

    @property
    def asker(self) -> Asker:
        if self._asker is None:
            self._asker = Asker(self.relay.url, self.relay.token("tester"))
        return self._asker

    def bot(self, name: str, script: Optional[Script] = None, *, tools: str = "native", start: bool = True,
            token: Optional[str] = None, config: str = "", env: Optional[dict[str, str]] = None) -> Bot:
        if tools == "mcp":
            config += (f"mcp_servers:\n  hermes-bridge:\n    url: {self.relay.mcp_url}\n    headers:\n"
                       '      Authorization: "Bearer ${HERMES_BRIDGE_TOKEN}"\n    timeout: 300\n'
                       # Hermes looks after its servers every three minutes; the tests cannot wait so long.
                       "    keepalive_interval: 5\n")
        made = Bot(self.directory / name, token or self.relay.token(name), self.relay.url, script, config, env)
        self.bots[name] = made
        return made.start() if start else made

    def online(self, name: str) -> bool:
        """Whether the relay that runs now has a connection of this bot."""
        return any(agent["name"] == name and agent["online"] for agent in self.asker.call("list_agents"))

    def join(self, seconds: float = 90) -> None:
        """Waits until every bot is connected, by its own word and by the relay's."""
        for name, bot in self.bots.items():
            try:
                until(lambda: bot.says_connected() and self.online(name), seconds, f"{name} is connected")
            except AssertionError as error:
                raise AssertionError(f"{error}: {bot.state()}\n{bot.log()[-3000:]}") from None

    def warm_up(self) -> None:
        """One turn of every bot. The first one loads half of Hermes, which can keep its event loop, and
        so its heart, still for seconds: too long for the short quiet limits of the scenes."""
        for name, bot in self.bots.items():
            script, bot.model.script = bot.model.script, lambda turn: Say("warm")
            until(lambda: self.asker.ask(name, "warm up", seconds=120).get("ok"), 120, f"{name} answers")
            bot.model.script = script
            bot.model.turns.clear()

    def close(self) -> None:
        for bot in self.bots.values():
            bot.close()
        if self._asker is not None:
            self._asker.close()
        if hasattr(self, "relay"):
            self.relay.kill()

    def logs(self) -> str:
        texts = []
        for name, bot in self.bots.items():
            lines = [line for line in bot.log().splitlines() if "hermes-bridge" in line or "ERROR" in line]
            texts.append(f"----- {name}\n" + "\n".join(lines[-30:]))
            texts += [f"the script of {name} failed: {error!r}" for error in bot.model.errors]
        log = self.directory / "relay" / "relay.log"
        texts.append("----- relay\n" + (log.read_text()[-3000:] if log.exists() else ""))
        return "\n".join(texts)
