"""The values that an argument may have, for completion: agents, message types, ids, choices.

Most arguments say by their metavar what they take: AGENT, TYPE, ID, FILE, or ``acked|completed``. Which ids an ID means
depends on the command: one's own open mail for `done`, dead letters for `dead requeue`, recent messages for `explain`.
``complete=`` of an argument says it where the metavar does not: one of the kinds below, or where the words are: a
function of the site, an enum, or anything else that can be iterated.
"""

from __future__ import annotations

import re
from itertools import pairwise
from types import FunctionType
from typing import TYPE_CHECKING, Final

from ackd.coordination.registry import load as load_attribute
from ackd.core import message_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ackd.cli.command_line import Argument
    from ackd.cli.completion import Candidate
    from ackd.client.mail import MailEntry
    from ackd.config.site import Site

NOTHING, CHOICES, FILES, DIRECTORIES = "", "choices", "files", "directories"
AGENTS, TYPES, EXAMPLES = "agents", "types", "examples"
OPEN, MESSAGES, DEAD, HELD, STORIES = "open mail", "messages", "dead letters", "held messages", "stories"

_BY_METAVAR: Final[Mapping[str, str]] = {
    "A": AGENTS,
    "AGENT": AGENTS,
    "TO": AGENTS,
    "TYPE": TYPES,
    "ID|FILE": DEAD,
    "DIR": DIRECTORIES,
    "FILE": FILES,
    "FILE|-": FILES,
    "PATH": FILES,
    "NAME|PATH": FILES,
    "TEXT|@FILE": FILES,
}
#: Arguments whose metavar would mislead, or that have none.
_BY_NAME: Final[Mapping[str, str]] = {
    "--agent": AGENTS,
    "--in-reply-to": MESSAGES,
    "--message": MESSAGES,
    "--after": STORIES,
    "file": FILES,
    "path": FILES,
}
#: The ids that an operand called ID means, by command or group.
_IDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ack", "done", "refuse", "defer", "checkpoint", "reply"), OPEN),
    "dead": DEAD,
    "loop": HELD,
    "story": STORIES,
}
#: Metavars of what only the caller knows.
FREE: Final = frozenset(
    "ID KEY N S T TIME TEXT YAML STATUS STEP ACTION TASK TRACK NAME OWNER/NAME MEETING DIRECTOR DIRECTOR|ALL "
    "CA,CPO,... HEADER=VALUE KEY=VALUE JSON|KEY=VALUE".split()
)
_WORDS_WITH_BARS: Final = re.compile(r"[A-Za-z_]+(\|[A-Za-z_]+)+")
_RECENT: Final = 200


def kind_of(one: Argument, command: str) -> str:
    """The kind of values that an argument of a command takes; ``NOTHING`` if only the caller knows them."""
    if one.complete or one.settings.get("choices"):
        return CHOICES if ":" in one.complete or not one.complete else one.complete
    name = one.names[-1]
    base = metavar(one)
    if base == "ID" and not name.startswith("-"):
        return _IDS.get(command) or _IDS.get(command.partition(" ")[0], MESSAGES)
    if name in _BY_NAME and base in ("", "A", "NAME", "ID", "FILE"):
        return _BY_NAME[name]
    if base in _BY_METAVAR:
        return _BY_METAVAR[base]
    return CHOICES if base not in FREE and _WORDS_WITH_BARS.fullmatch(base) else NOTHING


def metavar(one: Argument) -> str:
    """The first word of the metavar, without brackets and dots: AGENT of ``[AGENT...]``, ID of ``ID [TEXT]``."""
    text = str(one.settings.get("metavar") or "")
    first = text.strip("[]").partition(" ")[0]
    return first if first in FREE else first.removesuffix("...")


def values(kind: str, one: Argument, words: Sequence[str], begun: str) -> Iterable[Candidate]:
    """The candidates of a kind. ``words``: those before the cursor, which may name the team and the agent."""
    if kind == CHOICES:
        if one.complete:
            named = load_attribute(one.complete)
            there: Iterable[str] = named(_site(words)) if isinstance(named, FunctionType) else named
            return [(getattr(word, "value", word), "") for word in there]
        return [(word, "") for word in one.settings.get("choices") or metavar(one).split("|")]
    if kind == EXAMPLES:
        from ackd.cli.shipped import names

        return [(name, "") for name in names()]
    site = _site(words)
    match kind:
        case "agents":
            return [(name, "") for name in site.known_agents()]
        case "addresses":
            shared = [
                (name, f"{kind} of {', '.join(members)}" if members else f"empty {kind}")
                for kind, named in (("group", site.groups), ("pool", site.pools))
                for name, members in named.items()
            ]
            return [*((name, "") for name in site.known_agents()), *shared]
        case "labels":
            tables = (table.get("labels") for table in site.agents.values())
            return [
                (str(label), "") for label in sorted({one for has in tables if isinstance(has, list) for one in has})
            ]
        case "types":
            from ackd.core.words import KNOWN_TYPES

            return [(name, "") for name in sorted({*KNOWN_TYPES, *site.extra_types})]
        case "stories":
            from ackd.client import Client

            return [(story.story_id, story.state.value) for story in Client.at(site).stories.stories().stories]
        case "held messages":
            from ackd.client import Client

            return [(str(one.message_id), one.reason) for one in Client.at(site).held_messages()]
        case "dead letters":
            return _dead(site, begun)
        case "open mail":
            return _open_mail(site, words, begun)
        case "messages":
            from ackd.client.mail import recent

            return _ids(recent(site, limit=_RECENT), begun)
        case _:
            return ()


def _given(words: Sequence[str]) -> dict[str, str]:
    """The options among the words, with their values."""
    joined = (word.partition("=") for word in words if word.startswith("--"))
    return dict(pairwise(words)) | {name: value for name, equals, value in joined if equals}


def _site(words: Sequence[str]) -> Site:
    from ackd.config.site import find_site

    given = _given(words)
    return find_site(given.get("--root"), given.get("--config"))


def _open_mail(site: Site, words: Sequence[str], begun: str) -> Iterator[Candidate]:
    """The mail that waits for whoever types, or everybody's, if nothing says who that is."""
    from ackd.client.identity import named_agent
    from ackd.client.mail import recent

    agent = named_agent(site, _given(words).get("--agent"))
    return _ids(recent(site, agent, on_its_way=True, limit=_RECENT), begun)


def _dead(site: Site, begun: str) -> Iterator[Candidate]:
    from ackd.client import Client

    for letter in reversed(Client.at(site).dead_letters()):
        yield _id(letter.message_id, begun) if letter.message_id else letter.name, letter.reason


def _ids(entries: Iterable[MailEntry], begun: str) -> Iterator[Candidate]:
    for entry in entries:
        if entry.message_id is not None:
            yield _id(entry.message_id, begun), f"{entry.state}, {entry.sender}: {entry.subject or entry.type}"


def _id(message_id: str, begun: str) -> str:
    """The shortest form that goes on from what was typed: the hash, the id up to its ``@``, or all of it."""
    forms = (message_ids.hash_part(message_id), message_id.partition("@")[0], message_id)
    return next((form for form in forms if form and form.startswith(begun)), message_id)
