"""Joining with the installer, and answers that come after the asking turn is over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from threading import Event

import pytest
from asker import PATIENCE
from bot import PLUGIN, PYTHON, until
from model import Say


def install(home, *arguments):
    environment = {"PATH": os.environ["PATH"], "HERMES_HOME": str(home)}
    return subprocess.run([PYTHON, str(PLUGIN / "install.py"), *arguments], capture_output=True, text=True, env=environment)


def test_the_installer_joins_a_bare_home_and_its_doctor_finds_all_well(stage):
    stage.start_relay()
    bot = stage.bot("b", lambda turn: Say("joined"), start=False)
    shutil.rmtree(bot.home / "plugins")
    (bot.home / ".env").unlink()
    config = bot.home / "config.yaml"
    config.write_text(config.read_text().replace("plugins:\n  enabled: [hermes-bridge]\n", ""))
    done = install(bot.home, f"--token={stage.relay.token('b')}", f"--relay-url={stage.relay.url}")
    assert done.returncode == 0, done.stderr
    assert "verified by YAML 1.1" in done.stdout
    bot.start()
    stage.join()
    assert stage.asker.ask("b", "hi")["answer"] == "joined"
    check = install(bot.home, "--check")
    assert check.returncode == 0, check.stdout
    assert "token accepted, 4 agents known" in check.stdout
    assert stage.relay.token("b") not in done.stdout + check.stdout


def test_an_answer_that_comes_late_reaches_the_session_that_asked(stage):
    stage.start_relay(ask_timeout_ms=5000)
    gate = Event()

    def a(turn):
        if turn.question == "ask b":
            return Say(f"so far: {turn.relay_results[-1]['error']}") if turn.results else turn.call(
                "ask_agent", to="b", message="slowly")
        return Say("noted")

    def b(turn):
        gate.wait(120)
        return Say("the late answer")

    stage.bot("a", a)
    stage.bot("b", b)
    stage.join()
    stage.warm_up()
    ask = stage.asker.begin_ask("a", "ask b")
    until(lambda: stage.bots["b"].model.turns, 120, "b works on it")
    stage.bots["b"].pause()
    result = ask.result(PATIENCE)
    assert result.get("answer") == "so far: timeout", result
    stage.bots["b"].resume()
    gate.set()
    until(lambda: any("b answered your earlier question" in turn.user and "the late answer" in turn.user
                      for turn in stage.bots["a"].model.turns), 120, "the session of a reads it")


REAL_LIFE = """\
# Ours. Do not touch!   (really)
defaults: &defaults
  timeout: 0755        # octal by YAML 1.1
  verbose: no
  since: 2024-01-31
custom:
  one: {<<: *defaults, name: 'eins: zwei'}
  text: |
    plugins:
      enabled: [nonsense]
security:
  tirith_enabled: no   # not the word no
  allow_lazy_installs: off
"""

LOAD = "import json; from hermes_cli.config import load_config; print(json.dumps(load_config(), default=repr, sort_keys=True))"


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["unix", "windows"])
def test_hermes_reads_every_other_value_as_before_after_the_installer(tmp_path, ends):
    def read():
        done = subprocess.run([PYTHON, "-c", LOAD], capture_output=True, text=True, check=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HERMES_HOME": str(tmp_path)})
        return json.loads(done.stdout)

    config = tmp_path / "config.yaml"
    config.write_bytes(REAL_LIFE.replace("\n", ends).encode())
    before = read()
    assert before["security"]["tirith_enabled"] is False and before["custom"]["one"]["timeout"] == 0o755
    for tools in ("native", "mcp"):
        done = install(tmp_path, "--token=t0ken", "--relay-url=wss://relay.example", f"--tools={tools}")
        assert done.returncode == 0, done.stderr
    after = read()
    assert after["plugins"].pop("enabled") == ["hermes-bridge"]
    assert after.pop("mcp_servers")["hermes-bridge"]["url"] == "https://relay.example/mcp"
    before.get("plugins", {}).pop("enabled", None), before.pop("mcp_servers", None)
    assert {key: after[key] for key in before} == before
    assert all(line.encode() in config.read_bytes() for line in REAL_LIFE.splitlines())
