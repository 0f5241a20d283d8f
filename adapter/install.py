"""Joins a Hermes bot to a relay, takes it out again, or looks whether all is well.

Owns the steps and the files: the plugin's directory, the bot's ``.env`` and ``config.yaml``. Standard
library only. Runs from the plugin's directory, or, as a relay serves it, from standard input::

    curl -fsS https://RELAY/install.py | python3 - --token=TOKEN

Then the marked lines below carry what is not in a directory. Everything is worked out and
verified before the first byte is written; a second run changes nothing.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import stat
import sys
import tempfile
import types
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

# A relay replaces the right-hand sides of these two lines, and nothing else, when it serves this
# script: the plugin's files as one JSON object {"name": "text"}, and its own address as a JSON string.
FILES: Dict[str, str] = {}
RELAY_URL = ""

NAME = "hermes-bridge"
TOKEN, RELAY = "HERMES_BRIDGE_TOKEN", "HERMES_BRIDGE_RELAY_URL"
#: In this directory, but no part of what runs inside Hermes.
NOT_INSTALLED = ("README.md",)
#: Longer than a relay lets a question wait, so that its own word comes first.
MCP_TIMEOUT = 300


class Problem(Exception):
    """Said to the person at the terminal; nothing was changed."""


class Plan(NamedTuple):
    """What one file is and what it will be; ``None`` where it is not there."""

    path: Path
    before: Optional[str]
    after: Optional[str]
    mode: int


def main(arguments: Optional[List[str]] = None) -> int:
    options = parse(arguments)
    try:
        home = find_home(options.data_dir)
        if options.check:
            return module("bot_check").report(home, read_env(home / ".env"), version(), module("config_check"))
        say(f"Hermes home: {home}")
        plans = work_out(options, home)
        show(plans, options.token)
        plugin = home / "plugins" / NAME
        stale = plugin_changes(plugin, {} if options.uninstall else plugin_files())
        if options.dry_run:
            say("Dry run: nothing was written.")
            return 0
        carry_out(home, plugin, plans, stale, options.uninstall)
    except Problem as problem:
        print(f"hermes-bridge: {problem}", file=sys.stderr)
        return 1
    return 0


def parse(arguments: Optional[List[str]]) -> argparse.Namespace:
    reader = argparse.ArgumentParser(prog="install.py", description="Join this Hermes bot to a hermes-bridge relay.")
    reader.add_argument("--token", default=os.environ.get(TOKEN, ""), help="this bot's token at the relay")
    reader.add_argument("--token-file", help="a file that holds the token, to keep it out of the process list")
    reader.add_argument("--relay-url", default=RELAY_URL or os.environ.get(RELAY, ""), help="wss://HOST/bridge/connect")
    reader.add_argument("--data-dir", help="the bot's home, if it is not found by itself")
    reader.add_argument("--tools", choices=("native", "mcp"),
                        help="native: the plugin's own tools; mcp: through mcp_servers; default: as it is")
    reader.add_argument("--dry-run", action="store_true", help="show what would change")
    reader.add_argument("--uninstall", action="store_true", help="take the bot out of the relay again")
    reader.add_argument("--check", action="store_true", help="look whether this bot is joined and well")
    options = reader.parse_args(arguments)
    if options.token_file:
        try:
            options.token = Path(options.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            reader.error(f"--token-file: {error}")
    if not options.uninstall and not options.check:
        if not options.token:
            reader.error("--token is missing (the relay's `agent add` prints it)")
        if not re.fullmatch(r"[\x21-\x7e]+", options.token):
            reader.error("--token holds a blank or an unusual character; was it cut or wrapped?")
        try:
            options.relay_url = relay_address(options.relay_url)
        except ValueError as error:
            reader.error(f"--relay-url: {error}")
    return options


def relay_address(given: str) -> str:
    """The WebSocket address, also from the relay's https address."""
    parts = urlsplit(given.strip())
    scheme = {"https": "wss", "http": "ws", "wss": "wss", "ws": "ws"}.get(parts.scheme)
    if not scheme or not parts.netloc or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"it must look like wss://HOST/bridge/connect, not {given!r}")
    path = parts.path.rstrip("/")
    if not path.endswith("/bridge/connect"):
        path = path[: -len("/mcp")] if path.endswith("/mcp") else path
        path += "/bridge/connect"
    return f"{scheme}://{parts.netloc}{path}"


def mcp_address(relay_url: str) -> str:
    parts = urlsplit(relay_url)
    scheme = "https" if parts.scheme == "wss" else "http"
    return f"{scheme}://{parts.netloc}{parts.path[: -len('/bridge/connect')]}/mcp"


# -- finding --------------------------------------------------------------------------------------


def find_home(given: Optional[str]) -> Path:
    """The bot's home: what was said, HERMES_HOME, a container's volume, the user's own."""
    if given:
        home = Path(given).expanduser()
        if not home.is_dir():
            raise Problem(f"--data-dir: there is no directory {home}")
        return home.resolve()
    candidates = [os.environ.get("HERMES_HOME", ""), "/opt/data", str(Path.home() / ".hermes")]
    for candidate in candidates:
        if candidate and Path(candidate).is_dir():
            return Path(candidate).resolve()
    raise Problem("no Hermes home found (HERMES_HOME, /opt/data, ~/.hermes); name it with --data-dir=DIR")


def module(name: str) -> Any:
    """A module of this installer: of the served script, or from beside this file."""
    made = types.ModuleType(f"hermes_bridge_{name}")
    file = f"{name}.py"
    text = FILES.get(file) if FILES else (own_directory() / file).read_text(encoding="utf-8")
    if text is None:
        raise Problem(f"this script was served without {file}")
    sys.modules[made.__name__] = made
    exec(compile(text, file, "exec"), made.__dict__)
    return made


def own_directory() -> Path:
    file = globals().get("__file__")
    if not file or not Path(file).is_file():
        raise Problem("this script was not served by a relay and is not in the plugin's directory")
    return Path(file).resolve().parent


def plugin_files() -> Dict[str, str]:
    """Name to text of every file of the plugin."""
    if FILES:
        return {name: text for name, text in FILES.items() if name not in NOT_INSTALLED}
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(own_directory().iterdir())
        if path.suffix in (".py", ".yaml") and path.name not in NOT_INSTALLED
    }


def version() -> str:
    found = re.search(r'VERSION = "([^"]+)"', plugin_files().get("version.py", ""))
    return found.group(1) if found else "unknown"


# -- working out ------------------------------------------------------------------------------------


def work_out(options: argparse.Namespace, home: Path) -> List[Plan]:
    env = plan_of(home / ".env", 0o600)
    wanted = {TOKEN: None, RELAY: None} if options.uninstall else {TOKEN: options.token, RELAY: options.relay_url}
    env = env._replace(after=edit_env(env.before, wanted), mode=0o600)
    config = plan_of(home / "config.yaml", 0o600)
    after = edit_config(config.before or "", options)
    config = config._replace(after=None if config.before is None and not after else after)
    for plan in (env, config):
        if plan.before is not None and plan.before != plan.after and not stat.S_IMODE(plan.path.stat().st_mode) & 0o222:
            print(diff_of(plan, options.token), file=sys.stderr)
            raise Problem(f"{plan.path} is read-only; make it writable, or write the lines above yourself")
    return [env, config]


def plan_of(path: Path, mode: int) -> Plan:
    try:
        raw = path.read_bytes()
        return Plan(path, raw.decode("utf-8"), None, stat.S_IMODE(path.stat().st_mode))
    except FileNotFoundError:
        return Plan(path, None, None, mode)
    except UnicodeDecodeError:
        raise Problem(f"{path} is not UTF-8 text; nothing was changed") from None
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from None


def edit_config(text: str, options: argparse.Namespace) -> str:
    """The configuration with this bot joined or taken out, verified."""
    editor, checker = module("config_text"), module("config_check")
    edits: List[List[str]] = []
    if options.uninstall:
        edits += [["remove", "plugins", "enabled", NAME], ["drop", "mcp_servers", NAME]]
    else:
        edits += [["add", "plugins", "enabled", NAME], ["remove", "plugins", "disabled", NAME]]
        if options.tools == "mcp":
            edits.append(["put", "mcp_servers", NAME])
        elif options.tools == "native":
            edits.append(["drop", "mcp_servers", NAME])
    reader = checker.Reader()
    try:
        if reader.name:
            reader.read(text)
        after = text
        for edit in edits:
            after = apply(editor, after, edit, options)
        wrong = checker.complaint(reader, text, after, edits) if after != text else ""
    except checker.Unreadable as error:
        raise Problem(f"config.yaml is not valid YAML: {error}; nothing was changed") from None
    except editor.Unsure as unsure:
        raise Problem(f"config.yaml: {unsure}; nothing was changed") from None
    if wrong:
        raise Problem(f"config.yaml: {wrong}; nothing was changed. Edit it by hand: {by_hand(edits)}")
    if after != text:
        say("config.yaml: verified " + (f"by YAML 1.1 ({reader.name})" if reader.name else "by its outline (no YAML parser here)"))
    return after


def apply(editor: Any, text: str, edit: List[str], options: argparse.Namespace) -> str:
    kind, outer, inner = edit[:3]
    if kind == "add":
        return editor.add_to_list(text, (outer, inner), edit[3])
    if kind == "remove":
        return editor.remove_from_list(text, (outer, inner), edit[3])
    if kind == "drop":
        return editor.remove_block(text, (outer, inner))
    return editor.put_block(text, (outer, inner), [
        f"url: {mcp_address(options.relay_url)}",
        "headers:",
        f'  Authorization: "Bearer ${{{TOKEN}}}"',
        f"timeout: {MCP_TIMEOUT}",
    ])


def by_hand(edits: List[List[str]]) -> str:
    return "; ".join(f"{edit[0]} {edit[3] if len(edit) > 3 else edit[2]} at {edit[1]}.{edit[2]}" for edit in edits)


def read_env(path: Path) -> Dict[str, str]:
    """The variables of a ``.env`` file, as far as this installer is concerned."""
    plan = plan_of(path, 0o600)
    found = {}
    for line in (plan.before or "").splitlines():
        match = re.match(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$", line)
        if match:
            found[match.group(1)] = match.group(2).strip("'\"")
    return found


def edit_env(text: Optional[str], wanted: Dict[str, Optional[str]]) -> Optional[str]:
    """The variables set, or removed where the value is ``None``; every other line as it was."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text or "")
    eol = "\r\n" if text and text.count("\r\n") * 2 > text.count("\n") else "\n"
    for name, value in wanted.items():
        ours = [n for n, line in enumerate(lines) if re.match(rf"\s*(?:export\s+)?{name}\s*=", line)]
        keep = ours[-1] if ours and value is not None else None
        if value is not None and not re.fullmatch(r"[A-Za-z0-9_.:/@%+,=~-]+", value):
            value = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if keep is not None:
            export = "export " if re.match(r"\s*export\s", lines[keep]) else ""
            end = re.search(r"[\r\n]*$", lines[keep]).group(0)  # type: ignore[union-attr]
            lines[keep] = f"{export}{name}={value}{end}"
        elif value is not None:
            if lines and not lines[-1].endswith("\n"):
                lines[-1] += eol
            lines.append(f"{name}={value}{eol}")
        lines = [line for n, line in enumerate(lines) if n not in ours or n == keep]
    return "".join(lines) if lines or text is not None else None


# -- showing ----------------------------------------------------------------------------------------


def show(plans: List[Plan], token: str) -> None:
    for plan in plans:
        if plan.before == plan.after:
            say(f"{plan.path.name}: nothing to change")
        else:
            print(diff_of(plan, token))


def diff_of(plan: Plan, token: str) -> str:
    """What changes, line by line; the token never appears, and of .env only our own lines do."""
    context = 0 if plan.path.name == ".env" else 3
    lines = list(difflib.unified_diff(
        (plan.before or "").splitlines(), (plan.after or "").splitlines(),
        str(plan.path), str(plan.path), lineterm="", n=context))
    text = "\n".join(lines) or f"{plan.path}: only its permissions or line ends change"
    text = re.sub(rf"({TOKEN}\s*=\s*)\S.*", r"\1***", text)
    return text.replace(token, "***") if token else text


def say(line: str) -> None:
    print(line)


def plugin_changes(plugin: Path, wanted: Dict[str, str]) -> bool:
    """Says what will become of the plugin's directory; whether anything will."""
    if plugin.is_symlink():
        raise Problem(f"{plugin} is a link to {os.readlink(plugin)}; remove it, or install what it points to")
    there = {}
    if plugin.is_dir():
        for path in plugin.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                there[str(path.relative_to(plugin))] = path.read_bytes()
    fresh = {name: text.encode("utf-8") for name, text in wanted.items()}
    if there == fresh:
        say(f"plugin: {'unchanged, version ' + version() if fresh else 'not there'}")
        return False
    gone = sorted(set(there) - set(fresh))
    what = f"{len(fresh)} files of version {version()}" if fresh else "removed"
    say(f"plugin: {plugin}: {what}" + (f"; no longer there: {', '.join(gone)}" if gone else ""))
    return True


# -- carrying out -----------------------------------------------------------------------------------


def carry_out(home: Path, plugin: Path, plans: List[Plan], plugin_changed: bool, uninstall: bool) -> None:
    owner = home.stat()
    # Joining: the configuration last, so that nothing is switched on that is not there yet.
    for plan in plans if not uninstall else list(reversed(plans)):
        if plan.path.name == "config.yaml" and not uninstall and plugin_changed:
            write_plugin(plugin, plugin_files(), owner)
        write_file(plan, owner)
    if uninstall and plugin_changed:
        shutil.rmtree(plugin)
    changed = plugin_changed or any(plan.before != plan.after for plan in plans)
    say("Done. Restart the bot's gateway so that it takes effect." if changed else "Nothing had to be done.")


def write_plugin(plugin: Path, files: Dict[str, str], owner: os.stat_result) -> None:
    """The whole directory at once: no file of an older version stays behind."""
    made = not plugin.parent.exists()
    plugin.parent.mkdir(parents=True, exist_ok=True)
    if made:
        give_to(plugin.parent, owner)
    fresh = Path(tempfile.mkdtemp(prefix=".hermes-bridge-", dir=plugin.parent))
    try:
        for name, text in files.items():
            path = fresh / name
            path.write_text(text, encoding="utf-8", newline="")
            path.chmod(0o644)
            give_to(path, owner)
        fresh.chmod(0o755)
        give_to(fresh, owner)
        if plugin.exists():
            old = Path(tempfile.mkdtemp(prefix=".hermes-bridge-old-", dir=plugin.parent))
            os.rename(plugin, old / NAME)
            os.rename(fresh, plugin)
            shutil.rmtree(old)
        else:
            os.rename(fresh, plugin)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise Problem(f"{plugin} cannot be written: {error.strerror}") from None


def write_file(plan: Plan, owner: os.stat_result) -> None:
    """Replaces the file in one step, keeping owner and mode; a link keeps pointing to it."""
    target = Path(os.path.realpath(plan.path))
    there = target.stat() if target.exists() else None
    if plan.after is None or (plan.before == plan.after and there and stat.S_IMODE(there.st_mode) == plan.mode):
        return
    fresh = ""
    try:
        handle, fresh = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(plan.after)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(fresh, plan.mode)
        give_to(Path(fresh), there or owner)
        os.replace(fresh, target)
    except OSError as error:
        if fresh:
            Path(fresh).unlink(missing_ok=True)
        # A single file mounted into a container cannot be replaced, only written.
        if there is None or not write_in_place(target, plan):
            raise Problem(f"{plan.path} cannot be written: {error.strerror}") from None


def write_in_place(target: Path, plan: Plan) -> bool:
    try:
        with open(target, "r+", encoding="utf-8", newline="") as file:
            file.write(plan.after or "")
            file.truncate()
        os.chmod(target, plan.mode)
        return True
    except OSError:
        return False


def give_to(path: Path, owner: Any) -> None:
    """Files made by root in a bot's home belong to the bot."""
    if os.geteuid() == 0 and (owner.st_uid, owner.st_gid) != (0, 0):
        os.chown(path, owner.st_uid, owner.st_gid)


if __name__ == "__main__":
    sys.exit(main())
