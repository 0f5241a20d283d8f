"""Is this bot joined to its relay, and is all well? The doctor on the bot's side.

Owns the look at the bot's files and the questions to the relay. Changes nothing, prints no token. Asks
over HTTP, never over the WebSocket: a second connection would take the bot's questions away from it.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple
from urllib.parse import urlsplit

NAME = "hermes-bridge"
#: The relay answers a waiting question after at most this many seconds; clients must wait longer.
ASK_MAX_WAIT_SECONDS = 240

GOOD, BAD, NOTE = "ok", "BAD", "note"
Finding = Tuple[str, str]


def report(home: Path, env: Dict[str, str], version: str, config_check: Any) -> int:
    """Prints every finding; 0 if nothing is bad."""
    url, token = env.get("HERMES_BRIDGE_RELAY_URL", ""), env.get("HERMES_BRIDGE_TOKEN", "")
    findings = [(GOOD, f"home {home}")]
    findings += plugin(home, version)
    findings += configuration(home, config_check)
    findings += environment(home, url, token)
    if url and token:
        findings += relay(url, token)
    findings += gateway(home)
    for mark, sentence in findings:
        print(f"{mark:>4}  {sentence}")
    return 1 if any(mark == BAD for mark, _ in findings) else 0


def plugin(home: Path, version: str) -> List[Finding]:
    directory = home / "plugins" / NAME
    try:
        manifest = (directory / "plugin.yaml").read_text(encoding="utf-8")
        (directory / "__init__.py").read_text(encoding="utf-8")
    except OSError:
        return [(BAD, f"the plugin is not installed in {directory}")]
    found = re.search(r"^version: *(\S+)", manifest, re.M)
    there = found.group(1) if found else "unknown"
    if there != version:
        return [(BAD, f"the plugin is version {there}, this relay's is {version}: install again")]
    return [(GOOD, f"plugin {there}")]


def configuration(home: Path, config_check: Any) -> List[Finding]:
    try:
        text = (home / "config.yaml").read_text(encoding="utf-8")
    except OSError as error:
        return [(BAD, f"config.yaml cannot be read: {error.strerror}")]
    reader = config_check.Reader()
    if not reader.name:
        enabled = re.search(r"""^\s*-\s*['"]?hermes-bridge['"]?\s*(#.*)?$|enabled:.*\bhermes-bridge\b""", text, re.M)
        return [(NOTE, "no YAML parser here: config.yaml was only looked through")] + (
            [] if enabled else [(BAD, "hermes-bridge is not in plugins.enabled")])
    try:
        config = flat(reader.read(text))
    except config_check.Unreadable as error:
        return [(BAD, f"config.yaml is not valid YAML: {error}")]
    findings = [(GOOD, "enabled in config.yaml")] if NAME in at(config, "plugins", "enabled", or_else=[]) else [
        (BAD, "hermes-bridge is not in plugins.enabled")]
    if NAME in at(config, "plugins", "disabled", or_else=[]):
        findings.append((BAD, "hermes-bridge is in plugins.disabled"))
    for path in (("platforms", NAME, "enabled"), (NAME, "enabled")):
        if at(config, *path, or_else=True) is False:
            findings.append((BAD, f"{'.'.join(path)} is false: the platform is switched off"))
    server = at(config, "mcp_servers", NAME, or_else=None)
    if isinstance(server, dict):
        timeout = server.get("timeout", 300)
        findings.append((GOOD, "tools: through mcp_servers"))
        if isinstance(timeout, (int, float)) and timeout <= ASK_MAX_WAIT_SECONDS:
            findings.append((BAD, f"mcp_servers.{NAME}.timeout is {timeout} s; the relay may answer after "
                                  f"{ASK_MAX_WAIT_SECONDS} s, so make it 300"))
    else:
        findings.append((GOOD, "tools: native"))
    return findings


def environment(home: Path, url: str, token: str) -> List[Finding]:
    findings = []
    for name, value in (("HERMES_BRIDGE_TOKEN", token), ("HERMES_BRIDGE_RELAY_URL", url)):
        if not value:
            findings.append((BAD, f"{name} is not in {home / '.env'}"))
    path = home / ".env"
    if path.exists() and path.stat().st_mode & 0o077:
        findings.append((BAD, f"{path} can be read by others: chmod 600"))
    return findings or [(GOOD, f".env has token and relay ({url})")]


def relay(url: str, token: str, fetch: Callable[..., Tuple[int, str]] = None) -> List[Finding]:  # type: ignore[assignment]
    fetch = fetch or http
    parts = urlsplit(url)
    base = f"{'https' if parts.scheme == 'wss' else 'http'}://{parts.netloc}{parts.path.replace('/bridge/connect', '')}"
    status, said = fetch(f"{base}/health", None, "")
    if status != 200:
        return [(BAD, f"the relay does not answer at {base}/health: {said or f'HTTP {status}'}")]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                       "params": {"name": "list_agents", "arguments": {}}})
    status, said = fetch(f"{base}/mcp", body, token)
    if status in (401, 403):
        return [(GOOD, f"relay reachable at {base}"), (BAD, "the relay does not accept this token")]
    if status >= 400 or status == 0:
        return [(GOOD, f"relay reachable at {base}"), (BAD, f"the relay's tools answer {said or status}")]
    agents = len(re.findall(r'\\?"name\\?"', said))
    return [(GOOD, f"relay reachable at {base}, token accepted, {agents} agents known")]


def gateway(home: Path) -> List[Finding]:
    """What the running gateway wrote about the platform."""
    try:
        written = json.loads((home / "gateway_state.json").read_text(encoding="utf-8"))
        state = written["platforms"][NAME]
    except (OSError, ValueError, KeyError, TypeError):
        return [(NOTE, "no gateway of this home has started the platform yet: restart it")]
    age = int(time.time() - (home / "gateway_state.json").stat().st_mtime)
    if state.get("state") == "connected":
        return [(GOOD, f"the gateway said connected {age} s ago")]
    return [(BAD, f"the gateway said {state.get('state')} {age} s ago: {state.get('error_message') or 'no reason given'}")]


def http(url: str, body: Any, token: str) -> Tuple[int, str]:
    """Status and the beginning of the text; status 0 with the reason when nothing answers."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, body.encode() if body else None, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read(1_000_000).decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, f"HTTP {error.code}"
    except Exception as error:
        return 0, str(getattr(error, "reason", error))


def flat(meaning: Any) -> Any:
    """Plain Python values of what ``config_check`` read."""
    (kind, value), = meaning.items()
    if kind == "map":
        return {str(_scalar(key)): flat(item) for key, item in value}
    if kind == "list":
        return [flat(item) for item in value]
    return _scalar(value)


def _scalar(text: str) -> Any:
    import ast

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def at(config: Any, *path: str, or_else: Any) -> Any:
    for key in path:
        if not isinstance(config, dict) or key not in config:
            return or_else
        config = config[key]
    return or_else if config is None else config
