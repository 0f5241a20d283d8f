"""The installer on real directories."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from adapter import install

PLUGIN = Path(install.__file__).parent
URL = "wss://relay.example/bridge/connect"
CONFIG = "# mine\nmodel:\n  default: x   # why\nsecurity:\n  tirith_enabled: no\nplugins:\n  enabled:\n    - other\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("HERMES_HOME", "HERMES_BRIDGE_TOKEN", "HERMES_BRIDGE_RELAY_URL"):
        monkeypatch.delenv(name, raising=False)
    made = tmp_path / "home"
    made.mkdir()
    (made / "config.yaml").write_text(CONFIG)
    (made / ".env").write_text("# keys\n\nOPENAI_API_KEY=abc\n\n")
    return made


def run(home, *more, token="t0ken", url=URL):
    arguments = [f"--data-dir={home}", *more]
    if not {"--uninstall", "--check"} & set(more):
        arguments += [f"--token={token}", f"--relay-url={url}"]
    return install.main(arguments)


def tree(home):
    return {str(p.relative_to(home)): (p.read_bytes(), stat.S_IMODE(p.stat().st_mode))
            for p in sorted(home.rglob("*")) if p.is_file() and "__pycache__" not in p.parts}


def test_one_run_joins_the_bot(home):
    assert run(home) == 0
    assert (home / "config.yaml").read_text() == CONFIG + "    - hermes-bridge\n"
    assert (home / ".env").read_text() == ("# keys\n\nOPENAI_API_KEY=abc\n\nHERMES_BRIDGE_TOKEN=t0ken\n"
                                           f"HERMES_BRIDGE_RELAY_URL={URL}\n")
    there = sorted(p.name for p in (home / "plugins" / "hermes-bridge").iterdir())
    assert {"plugin.yaml", "__init__.py", "adapter.py", "install.py"} <= set(there)
    assert "README.md" not in there and "tests" not in there


def test_a_second_run_changes_nothing_and_says_so(home, capsys):
    run(home)
    before = tree(home)
    capsys.readouterr()
    assert run(home) == 0
    assert tree(home) == before
    assert "Nothing had to be done." in capsys.readouterr().out


def test_a_dry_run_shows_the_difference_and_writes_nothing(home, capsys):
    before = tree(home)
    assert run(home, "--dry-run") == 0
    said = capsys.readouterr().out
    assert tree(home) == before
    assert "+    - hermes-bridge" in said and "Dry run" in said


def test_neither_the_token_nor_other_keys_are_ever_shown(home, capsys):
    (home / ".env").write_text("OPENAI_API_KEY=abcdef\nHERMES_BRIDGE_TOKEN=old-token\nMORE=secret2\n")
    run(home, token="new-token")
    run(home, "--uninstall")
    run(home, "--check")
    said = "".join(capsys.readouterr())
    assert not any(secret in said for secret in ("new-token", "old-token", "abcdef", "secret2"))


def test_env_is_for_its_owner_only_and_config_keeps_its_mode(home):
    (home / ".env").chmod(0o644)
    (home / "config.yaml").chmod(0o640)
    run(home)
    assert stat.S_IMODE((home / ".env").stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "config.yaml").stat().st_mode) == 0o640


def test_env_loses_its_open_permissions_also_when_nothing_else_changes(home):
    run(home)
    (home / ".env").chmod(0o644)
    run(home)
    assert stat.S_IMODE((home / ".env").stat().st_mode) == 0o600


def test_an_upgrade_of_the_original_leaves_no_stale_file(home, capsys):
    old = home / "plugins" / "hermes-bridge"
    (old / "sub").mkdir(parents=True)
    for name in ("wake.py", "adapter.py", "sub/more.py"):
        (old / name).write_text("old = True\n")
    run(home)
    assert not (old / "wake.py").exists() and not (old / "sub").exists()
    assert "old = True" not in (old / "adapter.py").read_text()
    assert "no longer there: sub/more.py, wake.py" in capsys.readouterr().out
    assert [p.name for p in (home / "plugins").iterdir()] == ["hermes-bridge"]


def test_a_plugin_directory_that_is_a_link_is_left_alone(home, tmp_path, capsys):
    (home / "plugins").mkdir()
    (home / "plugins" / "hermes-bridge").symlink_to(tmp_path)
    assert run(home) == 1
    assert "is a link" in capsys.readouterr().err
    assert (home / "config.yaml").read_text() == CONFIG


def test_old_values_in_env_are_replaced_where_they_stand(home):
    (home / ".env").write_text(f"A=1\nexport HERMES_BRIDGE_TOKEN='old'\nB=2\r\nHERMES_BRIDGE_RELAY_URL=ws://x/y\nC=3")
    run(home)
    assert (home / ".env").read_bytes().decode() == (
        f"A=1\nexport HERMES_BRIDGE_TOKEN=t0ken\nB=2\r\nHERMES_BRIDGE_RELAY_URL={URL}\nC=3")


def test_a_variable_that_stood_twice_stands_once_afterwards(home):
    (home / ".env").write_text("HERMES_BRIDGE_TOKEN=a\nX=1\nHERMES_BRIDGE_TOKEN=b\n")
    run(home)
    assert (home / ".env").read_text().startswith("X=1\nHERMES_BRIDGE_TOKEN=t0ken\n")


def test_missing_files_are_made(tmp_path, home):
    (home / "config.yaml").unlink()
    (home / ".env").unlink()
    assert run(home) == 0
    assert (home / "config.yaml").read_text() == "plugins:\n  enabled:\n    - hermes-bridge\n"
    assert stat.S_IMODE((home / ".env").stat().st_mode) == 0o600


def test_a_read_only_configuration_stops_everything_and_says_what_to_write(home, capsys):
    (home / "config.yaml").chmod(0o444)
    before = tree(home)
    assert run(home) == 1
    said = capsys.readouterr().err
    assert "read-only" in said and "+    - hermes-bridge" in said
    assert tree(home) == before


def test_windows_line_ends_survive(home):
    (home / "config.yaml").write_bytes(CONFIG.replace("\n", "\r\n").encode())
    run(home)
    assert (home / "config.yaml").read_bytes().decode() == (CONFIG + "    - hermes-bridge\n").replace("\n", "\r\n")


@pytest.mark.parametrize("broken", ["a: [1\n", "plugins: {enabled: [a]}\n", "a: 1\n---\nb: 2\n", "\tplugins: 1\n"])
def test_a_configuration_that_is_not_understood_stops_everything(home, broken, capsys):
    (home / "config.yaml").write_text(broken)
    before = tree(home)
    assert run(home) == 1
    assert "nothing was changed" in capsys.readouterr().err and tree(home) == before


def test_a_configuration_that_is_no_text_stops_everything(home, capsys):
    (home / "config.yaml").write_bytes(b"\xff\xfe\x00")
    assert run(home) == 1 and "not UTF-8" in capsys.readouterr().err


def test_a_linked_configuration_stays_a_link(home, tmp_path):
    real = tmp_path / "real.yaml"
    (home / "config.yaml").rename(real)
    (home / "config.yaml").symlink_to(real)
    run(home)
    assert (home / "config.yaml").is_symlink() and "hermes-bridge" in real.read_text()


def test_a_file_that_cannot_be_replaced_is_written_in_place(home, monkeypatch):
    def busy(*_):
        raise OSError(16, "Device or resource busy")

    inode = (home / "config.yaml").stat().st_ino
    monkeypatch.setattr(install.os, "replace", busy)
    assert run(home) == 0
    assert (home / "config.yaml").stat().st_ino == inode
    assert "hermes-bridge" in (home / "config.yaml").read_text()
    assert [p.name for p in home.iterdir() if p.name.startswith(".config")] == []


def test_mcp_mode_writes_the_server_and_native_takes_it_away_again(home):
    run(home, "--tools=mcp")
    assert (home / "config.yaml").read_text() == CONFIG + (
        "    - hermes-bridge\n\nmcp_servers:\n  hermes-bridge:\n    url: https://relay.example/mcp\n    headers:\n"
        '      Authorization: "Bearer ${HERMES_BRIDGE_TOKEN}"\n    timeout: 300\n')
    run(home)
    assert "mcp_servers:\n  hermes-bridge:" in (home / "config.yaml").read_text(), "without --tools it stays"
    run(home, "--tools=native")
    assert "mcp_servers: {}" in (home / "config.yaml").read_text()


def test_a_disabled_plugin_is_enabled(home):
    (home / "config.yaml").write_text("plugins:\n  enabled: []\n  disabled: [hermes-bridge]\n")
    run(home)
    assert (home / "config.yaml").read_text() == "plugins:\n  enabled: [hermes-bridge]\n  disabled: []\n"


def test_an_uninstall_takes_away_exactly_what_was_installed(home):
    before = tree(home)
    run(home, "--tools=mcp")
    assert run(home, "--uninstall") == 0
    after = tree(home)
    after["config.yaml"] = (after["config.yaml"][0].replace(b"\nmcp_servers: {}\n", b""), after["config.yaml"][1])
    before[".env"] = (before[".env"][0], 0o600)
    assert after == before


def test_an_uninstall_where_nothing_is_installed_does_nothing(home, capsys):
    before = tree(home)
    (home / ".env").chmod(0o600)
    assert run(home, "--uninstall") == 0
    assert "Nothing had to be done." in capsys.readouterr().out
    assert {name: body for name, (body, _) in tree(home).items()} == {name: body for name, (body, _) in before.items()}


@pytest.mark.parametrize("given,meant", [
    (URL, URL), ("https://relay.example", URL), ("https://relay.example/", URL), ("https://relay.example/mcp", URL),
    ("http://127.0.0.1:8787", "ws://127.0.0.1:8787/bridge/connect"),
    ("wss://h/sub/bridge/connect", "wss://h/sub/bridge/connect"),
])
def test_the_relays_address_may_be_written_as_people_write_it(given, meant):
    assert install.relay_address(given) == meant


@pytest.mark.parametrize("given", ["", "relay.example", "ftp://h/x", "wss://", "wss://user:pw@h/x", "wss://h/x?token=1"])
def test_an_address_that_cannot_be_one_is_refused(given):
    with pytest.raises(ValueError):
        install.relay_address(given)


@pytest.mark.parametrize("arguments", [[], ["--token=a"], ["--token=a b", f"--relay-url={URL}"],
                                       ["--token=a", "--relay-url=x"], ["--tools=magic"], ["--token-file=/nowhere"]])
def test_wrong_usage_ends_with_2(arguments, home):
    with pytest.raises(SystemExit) as end:
        install.main([f"--data-dir={home}", *arguments])
    assert end.value.code == 2


def test_the_token_can_come_from_a_file(home, tmp_path):
    (tmp_path / "token").write_text("from-file\n")
    install.main([f"--data-dir={home}", f"--token-file={tmp_path / 'token'}", f"--relay-url={URL}"])
    assert "HERMES_BRIDGE_TOKEN=from-file\n" in (home / ".env").read_text()


def test_the_home_is_found_in_hermes_own_order(home, tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(home))
    assert install.find_home(None) == home
    monkeypatch.delenv("HERMES_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".hermes").mkdir()
    if not Path("/opt/data").is_dir():
        assert install.find_home(None) == tmp_path / ".hermes"
    with pytest.raises(install.Problem):
        install.find_home(str(tmp_path / "nowhere"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_files_made_by_root_belong_to_the_homes_owner(home):
    os.chown(home, 1234, 1234)
    (home / ".env").unlink()
    os.chown(home / "config.yaml", 1234, 4321)
    run(home)
    owner = lambda path: (path.stat().st_uid, path.stat().st_gid)
    assert owner(home / ".env") == (1234, 1234)
    assert owner(home / "config.yaml") == (1234, 4321)
    assert owner(home / "plugins" / "hermes-bridge" / "adapter.py") == (1234, 1234)


def served(files, relay_url=""):
    """The script as a relay serves it."""
    text = (PLUGIN / "install.py").read_text()
    made, files_put = re.subn(r"(?m)^FILES: Dict\[str, str\] = \{\}$",
                              lambda _: "FILES: Dict[str, str] = " + json.dumps(files, ensure_ascii=False), text, count=1)
    made, url_put = re.subn(r'(?m)^RELAY_URL = ""$', lambda _: f"RELAY_URL = {json.dumps(relay_url)}", made, count=1)
    assert (files_put, url_put) == (1, 1)
    return made


def pipe(script, home, *arguments):
    return subprocess.run([sys.executable, "-", f"--data-dir={home}", *arguments], input=script.encode(),
                          capture_output=True, cwd="/", env={"PATH": "/usr/bin:/bin", "LANG": "C"})


def test_the_served_script_installs_from_standard_input_with_only_a_token(home):
    files = {p.name: p.read_text() for p in PLUGIN.iterdir() if p.suffix in (".py", ".yaml", ".md")}
    done = pipe(served(files, URL), home, "--token=t0ken")
    assert done.returncode == 0, done.stderr.decode()
    assert (home / "config.yaml").read_text() == CONFIG + "    - hermes-bridge\n"
    assert f"HERMES_BRIDGE_RELAY_URL={URL}\n" in (home / ".env").read_text()
    before = tree(home)
    run(home)
    assert tree(home) == before, "the same files as from the directory"


def test_the_script_alone_says_what_it_lacks(home):
    done = pipe((PLUGIN / "install.py").read_text(), home, "--token=t", f"--relay-url={URL}")
    assert done.returncode == 1 and b"not served by a relay" in done.stderr


def test_the_installed_copy_can_check_and_uninstall(home):
    run(home)
    script = home / "plugins" / "hermes-bridge" / "install.py"
    check = subprocess.run([sys.executable, script, "--check", f"--data-dir={home}"], capture_output=True, text=True)
    assert "enabled in config.yaml" in check.stdout and check.returncode == 1, "no relay answers there"
    gone = subprocess.run([sys.executable, script, "--uninstall", f"--data-dir={home}"], capture_output=True, text=True)
    assert gone.returncode == 0 and not script.exists()
