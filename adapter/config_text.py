"""Edits of a bot's config.yaml as text: comments, order, quoting and anchors stay as they are.

Owns the four edits that joining a relay needs: a name into or out of a list, a block into or out of a
mapping. Pure, standard library only. Understands the shapes that people and Hermes write; of anything
else it says :class:`Unsure` with the words to add by hand, and changes nothing. Its caller verifies
every result with a real YAML parser where there is one.
"""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Tuple


class Unsure(Exception):
    """The file has a shape that is not edited by guessing."""


class Entry(NamedTuple):
    """A key of a block mapping: its line, the line after its value, its indent, what follows the colon."""

    line: int
    end: int
    indent: int
    value: str


_KEY = re.compile(r"""^(?P<indent> *)(?P<key>"[^"]*"|'[^']*'|[^\s#&*!|>%@`"'\[\]{},:?-][^#:]*?|[?:-][^\s#:][^#:]*?)\s*:(?P<value>\s.*|)$""")
_ITEM = re.compile(r"^(?P<indent> *)-(?:\s+(?P<value>.*))?$")
_PROPERTIES = re.compile(r"^\s*(?:[&!][^\s]*\s*)*")


def add_to_list(text: str, path: Tuple[str, str], name: str) -> str:
    """The text with ``name`` in the list at ``path``, which is made if it is missing."""
    bom, text = _bom(text)
    return bom + _Document(text).add_to_list(path, name)


def remove_from_list(text: str, path: Tuple[str, str], name: str) -> str:
    """The text without ``name`` in the list at ``path``; a list that becomes empty stays, empty."""
    bom, text = _bom(text)
    return bom + _Document(text).remove_from_list(path, name)


def put_block(text: str, path: Tuple[str, str], block: List[str]) -> str:
    """The text with the mapping at ``path``; one that is there already keeps all but its ``url``."""
    bom, text = _bom(text)
    return bom + _Document(text).put_block(path, block)


def remove_block(text: str, path: Tuple[str, str]) -> str:
    """The text without the key at ``path``; a mapping that becomes empty stays, empty."""
    bom, text = _bom(text)
    return bom + _Document(text).remove_block(path)


class _Document:
    """The lines of one document, and the line end that new ones get."""

    def __init__(self, text: str) -> None:
        self.eol = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
        # Only at line feeds: other separators may stand inside a value.
        self.lines = re.findall(r"[^\n]*\n|[^\n]+", text)
        self._refuse_strange_documents()

    # -- the four edits ---------------------------------------------------------------------------

    def add_to_list(self, path: Tuple[str, str], name: str) -> str:
        parent, entry = self._find(path)
        if entry is None:
            return self._add_child(path[0], parent, [f"{path[1]}:", f"  - {name}"])
        value = _bare(entry.value)
        if value.startswith("["):
            return self._flow_add(entry, name)
        if value in ("", "~", "null", "Null", "NULL"):
            items = self._items(entry) if value == "" else []
            if not items:
                self._set_value(entry, "")
                self._insert(entry.line + 1, [" " * (entry.indent + 2) + f"- {name}"])
            elif name not in [_unquoted(v) for _, _, _, v in items]:
                _, end, indent, _ = items[-1]
                self._insert(end, [" " * indent + f"- {name}"])
            return self._text()
        raise Unsure(f"{path[0]}.{path[1]} is not a plain list; add {name} to it by hand")

    def remove_from_list(self, path: Tuple[str, str], name: str) -> str:
        _, entry = self._find(path)
        if entry is None:
            return self._text()
        value = _bare(entry.value)
        if value.startswith("["):
            return self._flow_remove(entry, name)
        if value != "":
            return self._text()
        items = self._items(entry)
        ours = [item for item in items if _unquoted(item[3]) == name]
        for line, end, _, _ in reversed(ours):
            del self.lines[line:end]
        if ours and len(ours) == len(items):
            self._set_value(entry, "[]")
        return self._text()

    def put_block(self, path: Tuple[str, str], block: List[str]) -> str:
        parent, entry = self._find(path)
        if entry is None:
            return self._add_child(path[0], parent, [f"{path[1]}:", *("  " + line for line in block)])
        url = next(line for line in block if line.startswith("url:"))
        if _bare(entry.value) == "":
            child = next((e for k, e in self._children(entry) if k == "url"), None)
            if child is not None:
                if _unquoted(_bare(child.value)) != url.split(None, 1)[1]:
                    self._set_value(child, url.split(None, 1)[1])
                return self._text()
        raise Unsure(f"{path[0]}.{path[1]} exists in another shape; give it the line {url!r} by hand")

    def remove_block(self, path: Tuple[str, str]) -> str:
        parent, entry = self._find(path)
        if entry is None or parent is None:
            return self._text()
        alone = len(self._children(parent)) == 1
        del self.lines[entry.line:entry.end]
        if alone:
            self._set_value(parent, "{}")
        return self._text()

    # -- finding ----------------------------------------------------------------------------------

    def _find(self, path: Tuple[str, str]) -> Tuple[Optional[Entry], Optional[Entry]]:
        """The entries of the outer and of the inner key, each if it is there."""
        top = [entry for key, entry in self._mapping(0, len(self.lines), 0) if key == path[0]]
        if not top:
            return None, None
        if len(top) > 1:
            raise Unsure(f"{path[0]} stands twice in the file; make it one first")
        value = _bare(top[0].value)
        if value in ("", "~", "null", "Null", "NULL", "{}", "{ }"):
            inner = [e for key, e in self._children(top[0]) if key == path[1]] if value == "" else []
            if len(inner) > 1:
                raise Unsure(f"{path[0]}.{path[1]} stands twice in the file; make it one first")
            return top[0], inner[0] if inner else None
        raise Unsure(f"{path[0]} is written on one line or shared with an anchor; write it as a block first")

    def _children(self, entry: Entry) -> List[Tuple[str, Entry]]:
        first = next((n for n in range(entry.line + 1, entry.end) if not _idle(self.lines[n])), None)
        if first is None:
            return []
        indent = _indent(self.lines[first])
        if indent <= entry.indent:
            return []
        return self._mapping(first, entry.end, indent)

    def _mapping(self, start: int, end: int, indent: int) -> List[Tuple[str, Entry]]:
        """The keys at exactly this indent, each with its value's lines."""
        found: List[Tuple[str, int, str]] = []
        for number in range(start, end):
            line = self.lines[number].rstrip("\r\n")
            if _idle(line) or _indent(line) != indent:
                continue
            match = _KEY.match(line)
            if match:
                found.append((_unquoted(match["key"]), number, match["value"]))
            elif line.startswith(("---", "%", "...")):
                continue
            elif not found or not (_ITEM.match(line) or line.lstrip()[0] in "]}"):
                # An item, or the end of a bracket, at a key's own indent belongs to that key;
                # anything else is no mapping.
                raise Unsure(f"line {number + 1} is in a shape that is not edited by guessing")
        entries = []
        for position, (key, number, value) in enumerate(found):
            limit = found[position + 1][1] if position + 1 < len(found) else end
            entries.append((key, Entry(number, self._last_content(number, limit), indent, value)))
        return entries

    def _last_content(self, line: int, limit: int) -> int:
        """The line after the value's last content: comments that follow belong to what comes next."""
        end = line + 1
        for number in range(line + 1, limit):
            if not _idle(self.lines[number]) and not self.lines[number].startswith(("---", "...")):
                end = number + 1
        return end

    def _items(self, entry: Entry) -> List[Tuple[int, int, int, str]]:
        """The items of a block list: line, line after it, indent, text."""
        first = next((n for n in range(entry.line + 1, entry.end) if not _idle(self.lines[n])), None)
        if first is None:
            return []
        indent = _indent(self.lines[first])
        numbers = []
        for number in range(first, entry.end):
            line = self.lines[number].rstrip("\r\n")
            if _idle(line) or _indent(line) > indent:
                continue
            match = _ITEM.match(line)
            if match is None or indent < entry.indent:
                raise Unsure(f"line {number + 1} is not an item of a plain list")
            numbers.append((number, match["value"] or ""))
        items = []
        for position, (number, value) in enumerate(numbers):
            limit = numbers[position + 1][0] if position + 1 < len(numbers) else entry.end
            items.append((number, self._last_content(number, limit), indent, _bare(value)))
        return items

    # -- lists on one line, or in brackets over several ----------------------------------------------

    def _flow_span(self, entry: Entry) -> Tuple[int, int, List[Tuple[int, int]]]:
        """Offsets in the joined text: after ``[``, of ``]``, and of every element between them."""
        offset = sum(len(line) for line in self.lines[:entry.line])
        text = "".join(self.lines)
        position = begin = text.index("[", offset + len(self.lines[entry.line].split(":", 1)[0])) + 1
        elements: List[Tuple[int, int]] = []
        first = last = -1
        while position < len(text):
            char = text[position]
            if char in "{[&*!":
                raise Unsure("a list in brackets holds more than plain names; edit it by hand")
            if char in "],":
                if first >= 0:
                    elements.append((first, last + 1))
                    first = -1
                if char == "]":
                    return begin, position, elements
            elif char == "#" and text[position - 1] in " \t\n[,":
                position = text.index("\n", position)
            elif char in "\"'":
                first = position if first < 0 else first
                position = text.index(char, position + 1)
                last = position
            elif not char.isspace():
                first = position if first < 0 else first
                last = position
            position += 1
        raise Unsure("a list in brackets does not end")

    def _flow_add(self, entry: Entry, name: str) -> str:
        begin, _, elements = self._flow_span(entry)
        text = "".join(self.lines)
        if name in [_unquoted(text[a:b]) for a, b in elements]:
            return text
        if not elements:
            return text[:begin] + name + text[begin:]
        end = elements[-1][1]
        return text[:end] + ", " + name + text[end:]

    def _flow_remove(self, entry: Entry, name: str) -> str:
        begin, _, elements = self._flow_span(entry)
        text = "".join(self.lines)
        names = [_unquoted(text[a:b]) for a, b in elements]
        if name not in names:
            return text
        place = names.index(name)
        start, end = elements[place]
        if place + 1 < len(elements):
            end = elements[place + 1][0]
        elif place > 0:
            start = elements[place - 1][1]
        shorter = _Document(text[:start] + text[end:])
        return shorter._flow_remove(Entry(entry.line, entry.end, entry.indent, entry.value), name)

    # -- writing ----------------------------------------------------------------------------------

    def _add_child(self, outer: str, parent: Optional[Entry], child: List[str]) -> str:
        if parent is None:
            self._append([f"{outer}:", *("  " + line for line in child)])
            return self._text()
        children = self._children(parent) if _bare(parent.value) == "" else []
        indent = children[0][1].indent if children else parent.indent + 2
        self._set_value(parent, "")
        place = children[-1][1].end if children else parent.line + 1
        self._insert(place, [" " * indent + line for line in child])
        return self._text()

    def _append(self, block: List[str]) -> None:
        place = len(self.lines)
        for number, line in enumerate(self.lines):
            if line.rstrip() == "...":
                place = number
        between = [""] if place and self.lines[place - 1].strip() else []
        self._insert(place, [*between, *block])

    def _insert(self, place: int, block: List[str]) -> None:
        if place and place <= len(self.lines) and not self.lines[place - 1].endswith("\n"):
            self.lines[place - 1] += self.eol
        self.lines[place:place] = [line + self.eol for line in block]

    def _set_value(self, entry: Entry, value: str) -> None:
        """Gives the key a value on its own line; anchors, tags and the comment stay."""
        line = self.lines[entry.line]
        body = line.rstrip("\r\n")
        head = body[: len(body) - len(entry.value)]
        properties = _PROPERTIES.match(entry.value).group(0).strip()  # type: ignore[union-attr]
        if value and properties:
            raise Unsure(f"line {entry.line + 1} is shared with an anchor; edit it by hand")
        comment = entry.value[len(_without_comment(entry.value)):].rstrip()
        kept = " ".join(part for part in (properties, value) if part)
        self.lines[entry.line] = head + (f" {kept}" if kept else "") + comment + line[len(body):]

    def _text(self) -> str:
        return "".join(self.lines)

    def _refuse_strange_documents(self) -> None:
        starts = 0
        for number, line in enumerate(self.lines):
            if line.startswith("---"):
                starts += 1
                if starts > 1 or any(not _idle(before) and not before.startswith("%") for before in self.lines[:number]):
                    raise Unsure("the file holds more than one YAML document")
                if _bare(line[3:]):
                    raise Unsure("the document begins on the line of its marker")
            if re.match(r"^\s*\t+\s*\S", line) and not line.lstrip().startswith("#"):
                raise Unsure(f"line {number + 1} is indented with a tab")
        first = next((line for line in self.lines if not _idle(line) and line[:3] not in ("---", "...")), "")
        if first.strip() in ("{}", "{ }"):
            # Nothing at all, as a program writes it.
            self.lines.remove(first)
        elif first.startswith(("{", "[")):
            raise Unsure("the file is written in braces; write it as a block first")


def _bom(text: str) -> Tuple[str, str]:
    """A byte order mark, which is no part of the first key, and the text after it."""
    return ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)


def _idle(line: str) -> bool:
    """Blank or only a comment."""
    return not line.strip() or line.lstrip().startswith("#")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _without_comment(value: str) -> str:
    """What stands before a comment; a ``#`` inside quotes or a word begins none."""
    quote = ""
    for position, char in enumerate(value):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (position == 0 or value[position - 1] in " \t[{,:"):
            quote = char
        elif char == "#" and (position == 0 or value[position - 1] in " \t"):
            return value[:position].rstrip()
    return value.rstrip()


def _bare(value: str) -> str:
    """The value without comment, anchor and tag."""
    value = _without_comment(value)
    return value[_PROPERTIES.match(value).end():].strip()  # type: ignore[union-attr]


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
