"""The manual pages, made from the commands and from the config model: ``make documents`` writes them to docs/man.

ackd(1) has the table of commands, and each command or group of commands a page of its own. ackd.toml(5) has the words of
config/ackd.toml, which tests/config/test_model.py holds against the model, and of the model the type and range of each key.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackd.cli import commands, errors, main
from ackd.cli.command_line import Command, Group, Parser, _Formatter, first_sentence
from ackd.config.agents import settings_of
from ackd.config.model import Config
from ackd.endpoints import registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REPOSITORY = Path(__file__).parents[1]
PLACE = REPOSITORY / "docs" / "man"
REFERENCE = REPOSITORY / "config" / "ackd.toml"

#: Options that every command has: said once at the end.
_SHARED = ("--root", "--config", "--json")
ABOUT_CONFIG = """\
    Every key of ackd.toml with its default. `ackd init` writes a short file, `ackd config reference` prints one with every
    key, and `ackd check` says what is wrong with yours, and how to mend it."""
ENVIRONMENT = {
    "ACKD_ROOT": "The team's directory, as --root.",
    "ACKD_CONFIG": "The config file, as --config.",
    "ACKD_AGENT": "The agent that speaks, as --agent.",
    "ACKD_TRUST": "Config files and roots of other users that are trusted, separated by colons.",
    "ACKD_DEBUG": "If it is set, a bug in ackd is reported with its traceback.",
}
FILES = {
    "ackd.toml": "The config, found upwards from the working directory. See ackd.toml(5).",
    ".ackd/": "The root: queues, receipts, dead letters, the archive, logs and state.",
}


def pages() -> dict[str, str]:
    """Every page by its path below docs/man."""
    made = {"man1/ackd.1": _main_page(), "man5/ackd.toml.5": _config_page()}
    for name in commands.COMMANDS:
        made[f"man1/ackd-{name}.1"] = _command_page(name)
    return made


# --- pages ------------------------------------------------------------------------------------------------------------
def _main_page() -> str:
    listed = {name: line for name, (_, line) in commands.COMMANDS.items()}
    return _page(
        "ackd",
        1,
        main.ABOUT,
        [
            ("SYNOPSIS", [f"{_bold('ackd')} {_text('COMMAND [OPTIONS] [ARGUMENTS]...')}"]),
            (
                "DESCRIPTION",
                [*_prose(main.ABOUT), *_prose(main.EPILOG), *_prose("Each command has a page: ackd-send(1).")],
            ),
            ("COMMANDS", [line for name, about in listed.items() for line in _item(f"ackd-{name}(1)", about)]),
            ("EXIT STATUS", [line for code, words in errors.EXIT_CODES for line in _item(str(code), f"{words}.")]),
            ("ENVIRONMENT", [line for name, words in ENVIRONMENT.items() for line in _item(name, words)]),
            ("FILES", [line for name, words in FILES.items() for line in _item(name, words)]),
        ],
        ["ackd.toml(5)"],
    )


def _command_page(name: str) -> str:
    found, about = commands.load(name), commands.COMMANDS[name][1]
    if isinstance(found, Group):
        parts = {f"{name} {part}": found.commands[part] for part in sorted(found.commands)}
        body = [("DESCRIPTION", list(_prose(found.help))), ("COMMANDS", [])]
        for words, one in parts.items():
            body[-1][1].extend([f'.SS "{_text(words.partition(" ")[2])}"', *_described(one), *_options(one, words)])
    else:
        parts = {name: found}
        body = [("DESCRIPTION", list(_described(found))), ("OPTIONS", list(_options(found, name)))]
    shared = {option: text for words, one in parts.items() for option, text in _rows(one, words, shared=True)}
    synopsis = [line for words, one in parts.items() for line in (_usage(one, words), ".br")][:-1]
    more = [line for option, text in shared.items() for line in _item(option, text)]
    see = ["ackd(1)", "ackd.toml(5)"]
    sections = [("SYNOPSIS", synopsis), *body, ("COMMON OPTIONS", more)]
    exits = ("EXIT STATUS", _prose("0 if it is done. The other exit codes are those of ackd(1)."))
    return _page(f"ackd-{name}", 1, about, [*sections, (exits[0], list(exits[1]))], see)


def _usage(one: Command, words: str) -> str:
    usage = Parser(one, words).format_usage().strip().removeprefix("Usage: ")
    return f"{_bold(f'ackd {words}')} {_text(usage.removeprefix(f'ackd {words}').strip())}"


def _described(one: Command) -> Iterator[str]:
    yield from _prose(one.help)


def _options(one: Command, words: str) -> Iterator[str]:
    for option, text in _rows(one, words, shared=False):
        yield from _item(option, text)


def _rows(one: Command, words: str, *, shared: bool) -> Iterator[tuple[str, str]]:
    formatter = _Formatter("ackd")
    for action in Parser(one, words)._actions:
        if not action.option_strings or bool(set(action.option_strings) & set(_SHARED)) is not shared:
            continue
        yield formatter._format_action_invocation(action), formatter._expand_help(action) if action.help else ""
    if shared:
        yield "-h, --help", "Show the command's help and exit."


# --- ackd.toml --------------------------------------------------------------------------------------------------------
def _config_page() -> str:
    where, tables = _reference()
    sections = [("DESCRIPTION", [*_prose(ABOUT_CONFIG), *_prose(where)])]
    for title, (about, keys) in tables.items():
        section = [*_prose(" ".join(about))] if about else []
        for key, (words, default) in keys.items():
            section += _item(f"{key} = {default}", f"{words} {_range(title, key)}".strip())
        sections.append((title or "KEYS OF THE TEAM", section))
    see = ["ackd(1)", "ackd-check(1)", "ackd-config(1)", "ackd-example(1)"]
    return _page("ackd.toml", 5, "Say who is in a team of agents, and how ackd serves it.", sections, see)


#: The name of a table, the words about it, and its keys, each with its words and its default.
_Tables = dict[str, tuple[list[str], dict[str, tuple[str, str]]]]


def _reference() -> tuple[str, _Tables]:
    """config/ackd.toml: the words at its beginning about where the file is found, and its tables."""
    first, *paragraphs = REFERENCE.read_text(encoding="utf-8").split("\n\n")
    where = " ".join(line.lstrip("# ") for line in first.partition("\n#\n")[2].splitlines())
    tables: _Tables = {"": ([], {})}
    title, words = "", list[str]()
    for line in (line for paragraph in paragraphs for line in paragraph.splitlines()):
        if match := re.fullmatch(r"#?\[([a-z.]+)\]", line):
            title = f"[{match[1]}]".replace("agents.example", "agents.NAME")
            tables[title], words = (words, {}), []
        elif match := re.fullmatch(r"#([a-z_]+) = (.*)", line):
            tables[title][1][match[1]], words = (" ".join(words), match[2]), []
        else:
            words.append(line.lstrip("# "))
    return where, tables


def _range(title: str, key: str) -> str:
    """The values that the model takes, as far as the default does not say so."""
    schemas = [Config.model_json_schema(), *(settings_of(kind).model_json_schema() for kind in registry.KINDS)]
    if title == "[agents.NAME]":
        schemas = schemas[1:]
    for schema in schemas:
        found = _inside(schema, title, key)
        if found is not None:
            return _range_words(found)
    return ""


def _inside(schema: Mapping[str, Any], title: str, key: str) -> Mapping[str, Any] | None:
    place: Mapping[str, Any] | None = schema
    for part in title.strip("[]").split(".") if title not in ("", "[agents.NAME]") else ():
        place = _resolved(schema, (place or {}).get("properties", {}).get(part))
    return _resolved(schema, (place or {}).get("properties", {}).get(key))


def _resolved(schema: Mapping[str, Any], found: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if found is None:
        return None
    for choice in found.get("anyOf", [found]):
        if "$ref" in choice:
            target: Mapping[str, Any] = schema["$defs"][choice["$ref"].rpartition("/")[2]]
            return target
        if choice.get("type") != "null":
            chosen: Mapping[str, Any] = choice
            return chosen
    return found


def _range_words(found: Mapping[str, Any]) -> str:
    if "enum" in found:
        return f"One of: {', '.join(found['enum'])}."
    least, above = found.get("minimum"), found.get("exclusiveMinimum")
    most = found.get("maximum")
    kind = {"integer": "A whole number", "number": "A number"}.get(found.get("type", ""), "")
    if not kind:
        return ""
    low = f" from {least:g}" if least is not None else f" above {above:g}" if above is not None else ""
    return f"{kind}{low}{f' up to {most:_}'.replace('_', ',') if most is not None and most < 10**8 else ''}."


# --- roff -------------------------------------------------------------------------------------------------------------
def _page(
    name: str, section: int, about: str, sections: Iterable[tuple[str, list[str]]], see_also: Iterable[str]
) -> str:
    lines = [
        '.\\" Made by tests/man_pages.py: make documents writes it anew.',
        f'.TH "{_text(name.upper())}" {section} "" "ackd" "ackd manual"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(first_sentence(about).rstrip('.'))}",
    ]
    for title, content in (*sections, ("SEE ALSO", [_text(", ".join(see_also))])):
        if content:
            lines += [f'.SH "{_text(title)}"', *content]
    return "\n".join(lines) + "\n"


def _prose(text: str) -> Iterator[str]:
    """Paragraphs, filled; one that begins with ``\\b`` keeps its lines."""
    for paragraph in "\n".join(line.strip() for line in text.strip().splitlines()).split("\n\n"):
        yield ".PP"
        if paragraph.startswith("\b"):
            yield from (".nf", *map(_text, paragraph.split("\n")[1:]), ".fi")
        else:
            yield _text(" ".join(paragraph.split()))


def _item(term: str, text: str) -> list[str]:
    return [".TP", _bold(term), _text(" ".join(text.split())) or "\\&"]


def _bold(text: str) -> str:
    return f"\\fB{_text(text)}\\fR"


def _text(text: str) -> str:
    """Text that roff sets as it is. What is in backticks is a command, and bold."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("'", "\\(aq")
    escaped = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", escaped).replace("^", "\\(ha").replace("~", "\\(ti")
    escaped = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in escaped)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def write() -> None:
    made = pages()
    for path in PLACE.rglob("*.[15]"):
        if str(path.relative_to(PLACE)) not in made:
            path.unlink()
    for name, text in made.items():
        (PLACE / name).parent.mkdir(parents=True, exist_ok=True)
        (PLACE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
