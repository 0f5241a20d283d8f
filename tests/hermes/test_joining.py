"""Joining with the installer, and answers that come after the asking turn is over."""

from __future__ import annotations

import os
import shutil
import subprocess
from threading import Event

from bot import PLUGIN, PYTHON, until
from model import Say


def install(bot, *arguments):
    environment = {"PATH": os.environ["PATH"], "HERMES_HOME": str(bot.home)}
    return subprocess.run([PYTHON, str(PLUGIN / "install.py"), *arguments], capture_output=True, text=True, env=environment)


def test_the_installer_joins_a_bare_home_and_its_doctor_finds_all_well(stage):
    stage.start_relay()
    bot = stage.bot("b", lambda turn: Say("joined"), start=False)
    shutil.rmtree(bot.home / "plugins")
    (bot.home / ".env").unlink()
    config = bot.home / "config.yaml"
    config.write_text(config.read_text().replace("plugins:\n  enabled: [hermes-bridge]\n", ""))
    done = install(bot, f"--token={stage.relay.token('b')}", f"--relay-url={stage.relay.url}")
    assert done.returncode == 0, done.stderr
    assert "verified by YAML 1.1" in done.stdout
    bot.start()
    assert stage.asker.ask("b", "hi")["answer"] == "joined"
    check = install(bot, "--check")
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
        gate.wait(60)
        return Say("the late answer")

    stage.bot("a", a, start=False).start(wait=False)
    stage.bot("b", b, start=False).start(wait=False)
    for bot in stage.bots.values():
        bot.wait_connected()
    stage.warm_up()
    ask = stage.asker.begin_ask("a", "ask b")
    until(lambda: stage.bots["b"].model.turns, 60, "b works on it")
    stage.bots["b"].pause()
    result = ask.result(30)
    assert result.get("answer") == "so far: timeout", result
    stage.bots["b"].resume()
    gate.set()
    until(lambda: any("b answered your earlier question" in turn.user and "the late answer" in turn.user
                      for turn in stage.bots["a"].model.turns), 30, "the session of a reads it")
