"""Does the edited config.yaml mean what it meant before, plus the edit?

Owns that comparison. Standard library only; the parser is whatever Hermes itself reads its
configuration with (PyYAML, in newer releases ruamel), here or in the Python that runs Hermes, always
by the rules of YAML 1.1, in which ``no`` is false and ``0755`` is octal. Without any parser it compares
the outline of the two texts, line by line.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
from typing import Any, List, Optional

#: Run by another Python too, so it is text. Prints the document with every scalar's type beside it.
READER = '''
import json, sys
def load(text):
    try:
        import yaml
        return yaml.safe_load(text)
    except ImportError:
        from ruamel.yaml import YAML
        reader = YAML(typ="safe", pure=True)
        reader.version = (1, 1)
        return reader.load(text)
def plain(value):
    if isinstance(value, dict):
        return {"map": sorted(([repr(k), plain(v)] for k, v in value.items()), key=lambda pair: pair[0])}
    if isinstance(value, (list, tuple)):
        return {"list": [plain(v) for v in value]}
    return {type(value).__name__: repr(value)}
def read(text):
    return plain(load(text))
'''


class Unreadable(Exception):
    """The text is no YAML."""


class Reader:
    """Reads YAML with the best parser there is; ``name`` says with which, empty if with none."""

    def __init__(self, pythons: Optional[List[str]] = None) -> None:
        self._local: Any = None
        self._python = ""
        scope: dict = {}
        exec(READER, scope)
        try:
            scope["load"]("a: 1")
            self._local = scope["read"]
        except ImportError:
            for python in hermes_pythons() if pythons is None else pythons:
                self._python = python
                try:
                    if self._remote("a: 1"):
                        break
                except (Unreadable, OSError, subprocess.SubprocessError):
                    pass
                self._python = ""
        self.name = "this Python" if self._local else self._python

    def read(self, text: str) -> Any:
        """The meaning of the text, comparable with ``==``; raises :class:`Unreadable`."""
        if self._local is None:
            return self._remote(text)
        try:
            return self._local(text)
        except Exception as error:
            raise Unreadable(_first_line(error)) from None

    def _remote(self, text: str) -> Any:
        script = READER + "print(json.dumps(read(sys.stdin.read())))"
        done = subprocess.run([self._python, "-c", script], input=text.encode("utf-8"),
                              capture_output=True, timeout=60, env={**os.environ, "PYTHONUTF8": "1"})
        if done.returncode != 0:
            raise Unreadable(_first_line("".join(done.stderr.decode("utf-8", "replace").splitlines()[-1:])))
        return json.loads(done.stdout)


def hermes_pythons() -> List[str]:
    """Pythons that may run Hermes: the one its command names, and the usual places."""
    found = []
    command = shutil.which("hermes")
    if command:
        try:
            with open(command, "rb") as script:
                line = script.readline().decode("utf-8", "replace").strip()
            if line.startswith("#!") and "python" in line:
                found.append(line[2:].split()[0])
        except OSError:
            pass
        found.append(os.path.join(os.path.dirname(os.path.realpath(command)), "python3"))
    found += ["/opt/hermes/.venv/bin/python3", "/opt/hermes/venv/bin/python3"]
    return [python for python in dict.fromkeys(found) if os.access(python, os.X_OK)]


def complaint(reader: Reader, before: str, after: str, edits: List[List[Any]]) -> str:
    """Why the edited text must not replace the old one; empty if it may.

    ``edits`` is what was meant: ``["add", outer, inner, name]``, ``["remove", outer, inner, name]``,
    ``["put", outer, inner]`` or ``["drop", outer, inner]``."""
    if not reader.name:
        return outline_complaint(before, after, edits)
    try:
        old, new = reader.read(before), reader.read(after)
    except Unreadable as error:
        return f"the edited file could not be read back: {error}"
    for edit in edits:
        old = _meant(old, edit)
        new = _apart(new, edit)
    old = _tidied(old, edits)
    new = _tidied(new, edits)
    return "" if old == new else "the edit would change the meaning of something else"


def _meant(document: Any, edit: List[Any]) -> Any:
    """What the old document must be after the edit; a put block is compared apart."""
    kind, outer, inner = edit[:3]
    top = dict(map(_pair, (document or {}).get("map", [])))
    block = dict(map(_pair, (top.get(repr(outer)) or {}).get("map", [])))
    if kind in ("add", "remove"):
        names = list((block.get(repr(inner)) or {}).get("list", []))
        name = {"str": repr(edit[3])}
        if kind == "add" and name not in names:
            names.append(name)
        if kind == "remove":
            if repr(inner) not in block:
                return document
            names = [known for known in names if known != name]
        block[repr(inner)] = {"list": names}
    else:
        block.pop(repr(inner), None)
        if kind == "drop" and repr(outer) not in top:
            return document
    top[repr(outer)] = _map(block)
    return _map(top)


def _apart(document: Any, edit: List[Any]) -> Any:
    return _meant(document, ["drop", *edit[1:3]]) if edit[0] == "put" else document


def _tidied(document: Any, edits: List[List[Any]]) -> Any:
    """An empty list, an empty mapping and nothing at all are the same at the places of the edits."""
    top = dict(map(_pair, (document or {}).get("map", [])))
    for _, outer, inner, *_ in edits:
        block = dict(map(_pair, (top.get(repr(outer)) or {}).get("map", [])))
        if block.get(repr(inner)) in ({"list": []}, {"NoneType": "None"}):
            block.pop(repr(inner))
        if block or top.get(repr(outer)) is None or "map" in top[repr(outer)] or "NoneType" in top[repr(outer)]:
            top.pop(repr(outer), None)
            if block:
                top[repr(outer)] = _map(block)
    return _map(top)


def _pair(pair: Any) -> Any:
    return pair[0], pair[1]


def _map(block: dict) -> Any:
    return {"map": sorted(([key, value] for key, value in block.items()), key=lambda pair: pair[0])}


def outline_complaint(before: str, after: str, edits: List[List[Any]]) -> str:
    """Without a parser: only lines that the edits are about may differ, and no other key may move."""
    names = {re.escape(str(word)) for edit in edits for word in edit[1:]}
    names |= {"enabled", "url", "headers", "Authorization", "timeout"}
    about = re.compile(r"^\s*(?:-\s+)?['\"]?(?:" + "|".join(sorted(names)) + r")\b")
    old, new = before.splitlines(), after.splitlines()
    for kind, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if kind == "equal":
            continue
        for line in (*old[old_from:old_to], *new[new_from:new_to]):
            if line.strip() and not about.match(line) and not any(re.search(name, line) for name in names):
                return f"the line {line.strip()!r} would change, which is none of this edit's"
    tops = re.compile(r"^[^\s#-][^#]*?:(?=\s|$)", re.M)
    kept = [key for key in tops.findall(before) if key not in tops.findall(after)]
    return f"the key {kept[0]!r} would be lost" if kept else ""


def _first_line(error: Any) -> str:
    return " ".join(str(error).split())[:300]
