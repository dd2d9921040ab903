"""A message's YAML body, loaded within limits and written so that it comes back the same.

One document of mappings with text keys, lists and scalars is accepted; no anchors, aliases or tags, no key twice, at
most ``MAX_DEPTH`` deep and ``MAX_NODES`` large. Scalars mean what their writer saw: ``no``, ``on``, dates, ``012`` and
``1:30`` stay text; only true/false, null and plain decimal numbers become something else. The shape of a body is
``body_shapes``' affair. Fails with ``BadBody``, for any text whatever.

The value is built from libyaml's events in one loop. PyYAML's own composer and constructor recurse, expand aliases and
keep the last of two equal keys, and both would have to be replaced to stop that.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import yaml

from ackd.core.errors import BadBody, Problem

try:
    from yaml import CSafeDumper as _BaseDumper
    from yaml import CSafeLoader as _BaseLoader
except ImportError:  # PyYAML was built without libyaml: the same, ten times slower
    from yaml import SafeDumper as _BaseDumper  # type: ignore[assignment]
    from yaml import SafeLoader as _BaseLoader  # type: ignore[assignment]

MAX_CHARS: Final = 1_048_576
MAX_DEPTH: Final = 32
MAX_NODES: Final = 20_000
MAX_DIRECTIVES: Final = 64

Value: TypeAlias = "dict[str, Value] | list[Value] | str | int | float | bool | None"
Path: TypeAlias = tuple[str | int, ...]

_CONSTANTS: Final[dict[str, bool | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
# Both are narrower than YAML 1.1, so that whatever our dumper leaves unquoted is text here too. 300 digits: Python
# refuses to read very long numbers.
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,300})")
_FLOAT: Final = re.compile(r"[-+]?[0-9]{1,300}\.[0-9]{0,300}(?:[eE][-+][0-9]{1,3})?")
# libyaml compares each %TAG with all before it: a megabyte of them would take minutes.
_DIRECTIVE: Final = re.compile(r"(?m:^|[\r\x85\u2028\u2029])%")
_STR_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})


def load(text: str) -> Value:
    return load_with_lines(text)[0]


def load_with_lines(text: str) -> tuple[Value, dict[Path, int]]:
    """The value, and the line (from 1) on which each key or item begins; ``()`` is the whole."""
    if len(text) > MAX_CHARS:
        raise _bad(f"the body is larger than {MAX_CHARS} characters")
    if len(_DIRECTIVE.findall(text)) > MAX_DIRECTIVES:
        raise _bad(f"more than {MAX_DIRECTIVES} directives")
    builder = _Builder()
    try:
        loader = _BodyLoader(text)
        try:
            builder.take_all(loader)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _bad(f"not YAML: {error.problem or error.context}", mark.line + 1 if mark else None) from None
    except UnicodeEncodeError as error:
        raise _bad("half a character (a lone surrogate)", text.count("\n", 0, error.start) + 1) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # A reader error has no mark; the others are escapes such as "\UFFFFFFFF" in the pure-Python scanner.
        raise _bad(f"not YAML: {str(error).splitlines()[0]}", _line_of_position(text, error)) from None
    return builder.whole, builder.lines


def dump(value: Any) -> str:
    """Block style, order kept, Unicode as it is; text that a YAML reader could take for something else is quoted."""
    return str(
        yaml.dump(value, Dumper=_BodyDumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=4096)
    )


def _bad(what: str, line: int | None = None) -> BadBody:
    return BadBody((Problem("", what, line),))


def _line_of_position(text: str, error: Exception) -> int | None:
    position = getattr(error, "position", None)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else None


# --- loading ----------------------------------------------------------------------------------------------------------
class _BodyLoader(_BaseLoader):
    """Used for its events only."""


class _Builder:
    """Puts events together: the open mappings and lists, the way to them, and per mapping the key that waits."""

    def __init__(self) -> None:
        self.whole: Value = None
        self.lines: dict[Path, int] = {(): 1}
        self._stack: list[dict[str, Value] | list[Value]] = []
        self._path: list[str | int] = []
        self._key: list[str | None] = []
        self._documents = 0
        self._nodes = 0

    def take_all(self, loader: Any) -> None:
        while loader.check_event():
            event = loader.get_event()
            self._take(event, event.start_mark.line + 1)

    def _take(self, event: yaml.Event, line: int) -> None:
        match event:
            case yaml.AliasEvent():
                raise _bad(f"alias *{event.anchor}: write the value out", line)
            case yaml.ScalarEvent():
                self._begin_node(event, line)
                self._scalar(event, line)
            case yaml.MappingStartEvent():
                self._begin_node(event, line)
                self._open({}, line)
            case yaml.SequenceStartEvent():
                self._begin_node(event, line)
                self._open([], line)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close()
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise _bad("a second document: a body is one", line)
            case _:
                pass

    def _begin_node(self, event: Any, line: int) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _bad(f"more than {MAX_NODES} values", line)
        if event.anchor is not None:
            raise _bad(f"anchor &{event.anchor}: anchors and aliases are not taken", line)
        if event.tag is not None and not (isinstance(event, yaml.ScalarEvent) and event.tag in _STR_TAGS):
            raise _bad(f"tag {event.tag[:60]}: tags are not taken", line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        text: str = event.value
        if not text.isascii():
            text.encode()  # a "\ud800" escape: the pure-Python scanner lets it through
        if self._wants_key():
            self._begin_key(text, line)
            return
        plain = event.style in (None, "") and event.tag is None
        self._add(_meaning(text) if plain else text, line)

    def _wants_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1], dict) and self._key[-1] is None

    def _begin_key(self, key: str, line: int) -> None:
        mapping = self._stack[-1]
        assert isinstance(mapping, dict)
        if key in mapping:
            raise _bad(f"key {key[:60]!r} stands twice", line)
        self._key[-1] = key
        self.lines[(*self._path, key)] = line

    def _add(self, value: Value, line: int) -> None:
        """Put a value into its mapping or list, and leave its step on the path; ``_done`` removes that again."""
        self._place(value, line)
        self._done()

    def _place(self, value: Value, line: int) -> None:
        if not self._stack:
            self.whole = value
            self.lines[()] = line
            return
        holder = self._stack[-1]
        if isinstance(holder, dict):
            key = self._key[-1]
            assert key is not None
            holder[key] = value
            self._path.append(key)
            self._key[-1] = None
        else:
            self._path.append(len(holder))
            holder.append(value)
            self.lines[tuple(self._path)] = line

    def _done(self) -> None:
        if self._stack:
            self._path.pop()

    def _open(self, value: dict[str, Value] | list[Value], line: int) -> None:
        if self._wants_key():
            raise _bad("a key must be plain text", line)
        if len(self._stack) >= MAX_DEPTH:
            raise _bad(f"nested deeper than {MAX_DEPTH}", line)
        self._place(value, line)
        self._stack.append(value)
        self._key.append(None)

    def _close(self) -> None:
        self._stack.pop()
        self._key.pop()
        self._done()


def _meaning(text: str) -> Value:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if number - number == 0 else text  # a number too large for a float stays text
    return text


# --- writing ----------------------------------------------------------------------------------------------------------
class _BodyDumper(_BaseDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - an object used twice is written twice
        return True


# Text that is known to come back unchanged from a literal block; PyYAML quotes all other text.
_LITERAL: Final = re.compile(r"\S[^\r\x85\u2028\u2029\t\ufeff]*\S\n?", re.DOTALL)


def _represent_str(dumper: Any, text: str) -> yaml.Node:
    text = text.encode("utf-8", "replace").decode() if not text.isascii() else text
    literal = "\n" in text and _LITERAL.fullmatch(text) and " \n" not in text and text.replace("\n", "").isprintable()
    node: yaml.Node = dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if literal else None)
    return node


_BodyDumper.add_representer(str, _represent_str)
