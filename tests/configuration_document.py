"""The page about configuration, made from the model of ackd.toml: ``make documents`` writes it.

Keys, types, ranges and defaults are those of the model. What a key means stands beside it in config/ackd.toml, whose
defaults a test compares with the model; a key that is not explained there is a mistake.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from pydantic_core import PydanticUndefined

from ackd.config.agents import TEAM_ONLY, AgentSettings, DeliverySettings, LivenessSettings, agent_keys, settings_of
from ackd.config.model import (
    _CAPABILITY_TABLES,
    Config,
    DaemonSettings,
    PoolSettings,
    RedactSettings,
    TmuxServerSettings,
    WatchSettings,
)
from ackd.config.values import Table
from ackd.endpoints import registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

REPOSITORY: Final = Path(__file__).parents[1]
REFERENCE: Final = REPOSITORY / "config" / "ackd.toml"
DOCUMENT: Final = REPOSITORY / "docs" / "configuration.md"

BEGINNING: Final = """\
# Configuration

`ackd.toml` says where a team's files are and who is in it. `ackd init` writes a small one, and `ackd check` says what is wrong with yours, with the line, and how to mend it. An
unknown key is an error, and the nearest known one is named. Every key has a default; [config/ackd.toml](../config/ackd.toml) has all of them in one file, ready to be
changed, and [config/examples](../config/examples) has whole teams.

The file is found upwards from the working directory. `--config FILE` or `ACKD_CONFIG` name another, and `--root DIR` or `ACKD_ROOT` another root. Who may write it is a
question of [trust](operations.md#who-may-use-it). Paths in it are relative to it.

This page is made from the code, by `tests/configuration_document.py`.
"""

#: Tables of the file: their heading, what they are for, and their model.
_TABLES: Final[tuple[tuple[str, str, type[BaseModel]], ...]] = (
    (
        "delivery",
        "Times and limits of delivery. All but `dedup_window_s`, `loop_limit` and `durability` may also stand in an agent's own table.",
        DeliverySettings,
    ),
    ("watch", "How directories are watched.", WatchSettings),
    (
        "liveness",
        "For agents behind which something lives. Each key may also stand in an agent's own table. [Silence](silence.md) says what follows.",
        LivenessSettings,
    ),
    ("daemon", "How the daemon stops.", DaemonSettings),
    (
        "redact",
        "What is taken out of what people are shown. [Secrets](operations.md#secrets) says where, and what is shown whole.",
        RedactSettings,
    ),
    ("tmux", "For [agents in terminals](agents/tmux.md).", TmuxServerSettings),
)
_CAPABILITY_WORDS: Final = {
    "ensemble": "[Ensemble](protocols/ensemble.md) files are looked at only if this table stands in the file.",
    "bus": "[Message buses](protocols/bus.md) and [leases](protocols/leases.md). Without this table only the team's own bus is followed.",
    "board": "Meetings of a [board](protocols/board.md).",
    "pipeline": "Stories through [four stages](protocols/pipeline.md).",
}


def document() -> str:
    meanings = _meanings()
    parts = [BEGINNING, "\n## The top of the file\n\n"]
    own = {name: field for name, field in Config.model_fields.items() if not _is_table(name)}
    parts.append(_table(own, meanings[""]))
    for name, words, model in _TABLES:
        parts.append(f"\n## [{name}]\n\n{words}\n\n{_table(model.model_fields, meanings[name])}")
    for name, model in _CAPABILITY_TABLES.items():
        parts.append(f"\n## [{name}]\n\n{_CAPABILITY_WORDS.get(name) or meanings[name]['']}\n\n")
        inner = {key: field for key, field in model.model_fields.items() if _model_in(field) is None}
        parts.append(_table(inner, meanings[name]))
        for key, field in model.model_fields.items():
            if (table := _model_in(field)) is not None:
                here = meanings[f"{name}.{key}"]
                general = {**meanings["agents.example"], "endpoint": "The kind of each worker."}
                known = {**general, **{one: words for one, words in here.items() if words}}
                parts.append(f"\n### [{name}.{key}]\n\n{here['']}\n\n{_table(table.model_fields, known)}")
    parts.append(_profiles())
    parts.append(_shared(meanings))
    parts.append(_agents(meanings["agents.example"]))
    return "".join(parts)


def _is_table(name: str) -> bool:
    own = ("profiles", "groups", "pools", "templates", "agents")
    return name in _CAPABILITY_TABLES or name in own or name in {table for table, _, _ in _TABLES}


def _profiles() -> str:
    return (
        "\n## [profiles.NAME]\n\nTerminals of a kind of your own: how they are typed to, and what their screens mean. "
        "[All keys of a profile](../daemon/ackd/endpoints/tmux/README.md#profiles) are listed beside the code, and "
        "[an example](agents/tmux.md#profiles-what-a-screen-means) is on the page about terminals.\n"
    )


def _shared(meanings: dict[str, dict[str, str]]) -> str:
    groups, pools, templates = (meanings[name][""] for name in ("groups", "pools.example", "templates"))
    table = _table(PoolSettings.model_fields, meanings["pools.example"])
    return f"\n## [groups]\n\n{groups}\n\n## [pools.NAME]\n\n{pools}\n\n{table}\n## [templates.NAME]\n\n{templates}\n"


def _agents(meanings: dict[str, str]) -> str:
    parts = [
        "\n## [agents.NAME]\n\nOne table for each agent. An agent without a table, whose queue directory exists, is a mailbox; `user` always "
        "exists. A name has letters, digits, dots, dashes and underscores, and `-` and `_` are the same in it. Besides the keys below each key of "
        "`[delivery]` may stand here, but for "
        + ", ".join(f"`{key}`" for key in sorted(TEAM_ONLY))
        + ".\n\n| key | kinds | values | default | meaning |\n|---|---|---|---|---|\n"
    ]
    for key in agent_keys():
        if key in AgentSettings.model_fields and key not in ("endpoint", "labels"):
            continue
        kinds = [kind for kind in registry.KINDS if key in settings_of(kind).model_fields]
        if key in DeliverySettings.model_fields:
            continue
        field = settings_of(kinds[0]).model_fields[key]
        own = "all" if len(kinds) == len(registry.KINDS) else ", ".join(kinds)
        values = " or ".join(f'`"{kind}"`' for kind in registry.KINDS) if key == "endpoint" else _values(field)
        parts.append(f"| `{key}` | {own} | {values} | {_default(field)} | {_cell(meanings[key])} |\n")
    return "".join(parts)


def _table(fields: dict[str, FieldInfo], meanings: dict[str, str]) -> str:
    rows = ["| key | values | default | meaning |\n|---|---|---|---|\n"]
    for key, field in fields.items():
        rows.append(f"| `{key}` | {_values(field)} | {_default(field)} | {_cell(meanings[key])} |\n")
    return "".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _model_in(field: FieldInfo) -> type[Table] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Table) else None


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "needed"
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, dict) and value:
        return "`{ " + ", ".join(f"{key} = {json.dumps(one)}" for key, one in value.items()) + " }`"
    return f"`{json.dumps(value, ensure_ascii=False)}`"


# --- values -------------------------------------------------------------------------------------------------------------
def _values(field: FieldInfo) -> str:
    words = _kind(field.annotation)
    bounds = _bounds(list(_metadata(field)))
    return f"{words}, {bounds}" if bounds else words


def _metadata(field: FieldInfo) -> Iterator[Any]:
    yield from field.metadata
    for one in get_args(field.annotation):  # of `X | None`, those of X
        yield from getattr(one, "__metadata__", ())


def _kind(kind: Any) -> str:
    if hasattr(kind, "__metadata__"):
        kind = get_args(kind)[0]
    args = [one for one in get_args(kind) if one is not type(None)]
    if get_origin(kind) is Literal:
        return " or ".join(f'`"{one}"`' for one in args)
    if get_origin(kind) is tuple:
        inner = args[0]
        listed = _kind(inner)
        return f"list of {listed if get_origin(inner) is Literal else 'tables' if listed == 'table' else 'texts'}"
    if get_origin(kind) is dict:
        return "table of " + ("texts" if args[1] is str else _kind(args[1]))
    if len(args) == 1:
        return _kind(args[0])
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return names.get(kind, "table")


def _bounds(metadata: list[Any]) -> str:
    flat: list[Any] = [inner for one in metadata for inner in (getattr(one, "metadata", None) or [one])]
    low = next((f"from {one.ge:g}" for one in flat if getattr(one, "ge", None) is not None), "")
    low = low or next((f"above {one.gt:g}," for one in flat if getattr(one, "gt", None) is not None), "")
    high = next((f"up to {_number(one.le)}" for one in flat if getattr(one, "le", None) is not None), "")
    return f"{low} {high}".strip(" ,")


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


# --- meanings -----------------------------------------------------------------------------------------------------------
_HEADER = re.compile(r"#?\[([\w.]+)\]$")
_SETTING = re.compile(r"#(\w+) = ")


class _Meanings(dict[str, str]):
    """What config/ackd.toml says of the keys of one table. The empty key: of the table itself."""

    def __init__(self, table: str) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, key: str) -> str:
        raise LookupError(
            f"config/ackd.toml does not name {key} in [{self._table}]: add it, with a comment that says what it does"
        )


class _Tables(dict[str, dict[str, str]]):
    def __missing__(self, table: str) -> dict[str, str]:
        raise LookupError(f"config/ackd.toml has no [{table}]: add it, with its keys and a comment on each")


def _meanings() -> dict[str, dict[str, str]]:
    """What config/ackd.toml says of each key: table → key → meaning. A comment is about all settings below it."""
    found: dict[str, dict[str, str]] = _Tables({"": _Meanings("")})
    table, was_setting = "", False
    comment: list[str] = []
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        if header := _HEADER.match(line):
            table = header[1]
            found[table] = _Meanings(table)
            found[table][""] = _as_markdown(" ".join(comment))
            comment = []
        elif setting := _SETTING.match(line):
            found[table][setting[1]] = _as_markdown(" ".join(comment))
            was_setting = True
        elif line.startswith("# "):
            comment = [*([] if was_setting else comment), line[2:]]
            was_setting = False
        else:
            comment, was_setting = [], False
    return found


def _as_markdown(text: str) -> str:
    """Link the pages that the text names, and leave out the kinds of agents before it: they have a column."""
    text = re.sub(rf"^(?:(?:{'|'.join(registry.KINDS)})(?:, )?)+: ", "", text)
    text = text[:1].upper() + text[1:]
    text = re.sub(r" \(docs/([\w/]+)\.md\)", lambda page: f" ([{page[1].rpartition('/')[2]}]({page[1]}.md))", text)
    return text.replace("<root>/bus", "`<root>/bus`")


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
