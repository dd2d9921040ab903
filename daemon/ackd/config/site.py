"""The places of a team's files, read fast: the root, its directories, and the agents that have an address.

This module finds ackd.toml (or a bare root), decides whether it may be trusted, knows the layout below the root, and
maps every spelling of an agent's name to the canonical one. The config as a whole is not judged: only the few keys that
`send` and `ack` need are taken, because pydantic costs more than everything else these commands do; `ackd check` and
`ackd run` read it all (config/model.py). Fails with ``NoTeam``, ``BadConfig`` (a site that others could have put there,
bad TOML, a key of the wrong type), ``NoRoot`` (one that was named and is not there), ``BadName`` and ``UnknownAgent``;
reading directories may raise OSError, except that a directory which is not there yet counts as empty.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from ackd.config import plain_toml
from ackd.coordination.registry import CAPABILITIES
from ackd.core.errors import BadConfig, BadName, NoRoot, NoTeam, NotOneAgent, Problem, UnknownAgent
from ackd.core.names import MONITOR, RESERVED_NAMES, USER, agent_name, called, identity, is_agent_name

CONFIG_NAME: Final = "ackd.toml"
#: Directories that are a root even without a config: ours, and that of an IGNITE workspace.
BARE_ROOTS: Final = (".ackd", ".ignite")
#: Agents that exist in every team: the person, and the two that live inside the daemon.
ALWAYS: Final = (USER, "system", MONITOR)
DEFAULT_MAX_MESSAGE_BYTES: Final = 1_048_576

_MAX_CONFIG_CHARS: Final = 1_048_576
#: tomllib's time grows with the square of a dotted key's length: half a megabyte of dots would take minutes.
_ENDLESS_KEY: Final = r"""(?<![\w.-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}"""

_WRITABLE_BY_ALL: Final = 0o002
_WRITABLE_BY_GROUP: Final = 0o020
_STICKY: Final = 0o1000

_ROOT_LINE: Final = r"""(?m)^[ \t]*root[ \t]*=[ \t]*(["'])([^"'\\\n]+)\1"""

_Value = TypeVar("_Value")


class Site(NamedTuple):
    """A team's place on disk. ``agents`` holds the raw tables of the config, by their spelling there, and those of the
    agents that pools make of a template; ``groups`` and ``pools``: who is in each, as the agents are spelled there."""

    config_path: Path | None
    root: Path
    agents: Mapping[str, dict[str, object]] = MappingProxyType({})
    escalate_to: str = USER
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    extra_types: tuple[str, ...] = ()
    #: "deliver": messages of unknown types are delivered, too.
    unknown_types: str = "quarantine"
    reserved: frozenset[str] = RESERVED_NAMES
    #: False: the config says durability = "process", so writers may leave flushing to the kernel.
    fsync: bool = True
    #: A message that is sent once stays one message for this long.
    dedup_window_s: float = 86_400
    #: The raw tables of capabilities, by name, as far as the config has them. Each capability reads its own.
    tables: Mapping[str, Mapping[str, object]] = MappingProxyType({})
    groups: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    pools: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    @property
    def base(self) -> Path:
        """The project that the team works on: the directory of its config, else the directory that its root lies in."""
        return self.config_path.parent if self.config_path is not None else self.root.parent

    @property
    def queue(self) -> Path:
        return self.root / "queue"

    @property
    def receipts(self) -> Path:
        return self.root / "receipts"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def archive(self) -> Path:
        return self.root / "archive"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def dead_letter(self) -> Path:
        return self.queue / "dead_letter"

    @property
    def corrupt(self) -> Path:
        return self.queue / "corrupt"

    def boxes(self) -> list[str]:
        """The queue directories that exist, as spelled on disk, without names that no agent can have."""
        try:
            with os.scandir(self.queue) as entries:
                names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []
        return [name for name in names if is_agent_name(name, self.reserved)]

    def boxes_by_agent(self) -> dict[str, list[str]]:
        """The queue directories of every agent, by its identity. Whoever asks for all agents asks once: ``box_dir`` and
        ``box_dirs`` read the directory for each."""
        found: dict[str, list[str]] = {}
        for box in self.boxes():
            found.setdefault(identity(box), []).append(box)
        return found

    def known_agents(self) -> list[str]:
        """Every agent, one spelling each: the config's, else the directory's, else the built-in. Groups and pools have
        directories too, and are none."""
        spellings: dict[str, str] = {}
        theirs = (name for one in CAPABILITIES if one.name in self.tables for name in one.always_there)
        shared = {identity(name) for name in (*self.groups, *self.pools)}
        for name in (*self.agents, *self.boxes(), *ALWAYS, *theirs):
            if identity(name) not in shared:
                spellings.setdefault(identity(name), name)
        return list(spellings.values())

    def addresses(self) -> list[str]:
        """Everyone whom mail can be sent to: the agents, the groups and the pools."""
        return [*self.known_agents(), *self.groups, *self.pools]

    def resolve_agent(self, name: str) -> str:
        """The canonical spelling of an agent that exists, whichever of ``-`` and ``_`` was typed. Raises NotOneAgent
        for a group or a pool."""
        wanted = identity(agent_name(name, self.reserved))
        known = self.known_agents()
        for candidate in known:
            if identity(candidate) == wanted:
                return candidate
        for kind, shared in (("group", self.groups), ("pool", self.pools)):
            if (found := called(name, shared)) is not None:
                raise NotOneAgent(found, kind, shared[found])
        raise UnknownAgent(name, tuple(known))

    def resolve_address(self, name: str) -> str:
        """The canonical spelling of an agent, a group or a pool. Raises UnknownAgent, which names all of them."""
        agent_name(name, self.reserved)
        if (shared := self.group_called(name) or self.pool_called(name)) is not None:
            return shared
        try:
            return self.resolve_agent(name)
        except UnknownAgent:
            raise UnknownAgent(name, tuple(self.addresses())) from None

    def shared_by(self, agent: str) -> list[str]:
        """The groups and pools that the agent is in."""
        both = (*self.groups.items(), *self.pools.items())
        return [name for name, members in both if any(identity(one) == identity(agent) for one in members)]

    def group_called(self, name: str) -> str | None:
        """The group of that name, in any spelling, as the config spells it; None if there is none."""
        return called(name, self.groups)

    def pool_called(self, name: str) -> str | None:
        """The pool of that name, in any spelling, as the config spells it; None if there is none."""
        return called(name, self.pools)

    def box_dir(self, agent: str) -> Path:
        """The agent's queue directory: the one that exists under any spelling of the name, else the one to make."""
        return Path(self.box_path(agent))

    def box_dirs(self, agent: str) -> list[Path]:
        """Return all of the agent's queue directories: ``ignitian-1/`` and ``ignitian_1/`` may lie beside each other,
        and both are served."""
        first = self.box_dir(agent)
        others = [self.queue / box for box in self.boxes() if identity(box) == identity(agent) and box != first.name]
        return [first, *others]

    def box_path(self, agent: str) -> str:
        """Like ``box_dir``, but text: making a Path costs more than the look at the disk."""
        agent_name(agent, self.reserved)
        queue = f"{self.root}/queue"
        if os.path.isdir(f"{queue}/{agent}"):  # noqa: PTH112
            return f"{queue}/{agent}"
        same = (box for box in self.boxes() if identity(box) == identity(agent))
        return f"{queue}/{next(same, agent)}"


def find_site(
    root: str | Path | None = None,
    config: str | Path | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] = os.environ,
) -> Site:
    """Find the site: named by the command line, else by the environment, else by the current directory.

    ``--config``/``--root`` beat ACKD_CONFIG/ACKD_ROOT as a pair: whoever typed one of them does not expect the other to
    come from the environment. A root given alone takes the ackd.toml above it, else the one above ``cwd``; a root given
    with a config replaces the config's own. Then ackd.toml upwards from ``cwd``, then a ``.ackd/`` or ``.ignite/``.
    What is found and not named must be the caller's or root's own (``_trust``).
    """
    return _find(root, config, cwd, env, read_site)


def find_root(
    root: str | Path | None = None,
    config: str | Path | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] = os.environ,
) -> Site:
    """Find the site for a command that needs only the root. A config that cannot be read must not keep an agent from
    acknowledging, since a daemon may run on with what it read before. Raises NoTeam if no root is found either."""
    return _find(root, config, cwd, env, _read_root)


def _find(
    root: str | Path | None,
    config: str | Path | None,
    cwd: str | Path | None,
    env: Mapping[str, str],
    read: Callable[[Path, Path | None], Site],
) -> Site:
    here = Path(cwd) if cwd is not None else Path.cwd()
    named_by = "--root"
    if root is None and config is None:
        root, config = env.get("ACKD_ROOT") or None, env.get("ACKD_CONFIG") or None
        named_by = "ACKD_ROOT"
    if root is not None:
        _must_be_there(here / root, named_by)
    if config is not None:
        return read(here / config, here / root if root is not None else None)
    if root is not None:
        return _site_at(here / root, here, env, read)
    if (found := _upwards(here, CONFIG_NAME)) is not None:
        return _found(found, None, env, read)
    for name in BARE_ROOTS:
        if (found := _upwards(here, name)) is not None:
            _trust(found, "--root", env)
            return Site(config_path=None, root=found)
    raise NoTeam(str(here))


def _site_at(root: Path, here: Path, env: Mapping[str, str], read: Callable[[Path, Path | None], Site]) -> Site:
    root = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow a link the user chose as the root's name
    found = _upwards(root.parent, CONFIG_NAME) or _upwards(here, CONFIG_NAME)
    if found is not None:
        return _found(found, root, env, read)
    return Site(config_path=None, root=root)


def _must_be_there(root: Path, named_by: str) -> None:
    """Raise NoRoot for a directory that was named and does not exist. With a slip of the pen mail would else be queued
    where no daemon ever looks."""
    try:
        if stat.S_ISDIR(os.stat(root).st_mode):  # noqa: PTH116
            return
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        return  # it cannot be looked at, and whoever needs it says why
    raise NoRoot(os.path.abspath(root), named_by)  # noqa: PTH100


def _found(config: Path, root: Path | None, env: Mapping[str, str], read: Callable[[Path, Path | None], Site]) -> Site:
    """The site of a config that nobody named; and its own root, if nobody named that either."""
    _trust(config, "--config", env)
    site = read(config, root)
    if root is None and os.path.lexists(site.root):
        _trust(site.root, "--root", env)
    return site


# --- trust ------------------------------------------------------------------------------------------------------------
def _trust(path: Path, option: str, env: Mapping[str, str]) -> None:
    """Raise BadConfig for a path that was found, not named, and that others could have put there. A config says which
    commands are run, and whoever can write to a root can write as every agent.

    The rule is that of git's safe.directory: the owner must be the caller or root, unless the caller says otherwise.
    For a link both the owner of its target and that of the link itself count, because relative paths in a config are
    relative to the link. In a directory such as /tmp, where everybody may make files and nobody may replace another's,
    the owner is enough. A file that others may replace is never trusted.
    """
    why = distrust(path)
    if why is None or _is_trusted(path, env.get("ACKD_TRUST", "")):
        return
    cure = f"say {option} {path}, or set ACKD_TRUST={path}"
    raise BadConfig(str(path), (Problem("", f"{why}. It was found here, not named: if you trust it, {cure}"),))


def distrust(path: Path) -> str | None:
    """Say why others than its owner and root could have written the file; None if they could not."""
    me = os.geteuid()
    made, there = os.lstat(path), os.stat(path)  # noqa: PTH116 - pathlib is slower
    for status in (made, there):
        if status.st_uid not in (me, 0):
            return f"belongs to {_user(status.st_uid)}, neither to you ({_user(me)}) nor to root"
    if there.st_mode & _WRITABLE_BY_ALL:
        return f"can be written by everybody (mode {there.st_mode & 0o7777:04o}; chmod o-w ends that)"
    place = os.stat(path.parent)  # noqa: PTH116
    if place.st_mode & _WRITABLE_BY_ALL and not place.st_mode & _STICKY:
        return f"can be replaced by everybody (mode {place.st_mode & 0o7777:04o} of {path.parent}; chmod o-w ends that)"
    return None


def _is_trusted(path: Path, said: str) -> bool:
    """Say whether the caller trusts the path. ``said``: paths separated by colons, each of the file itself or of its
    directory."""
    accepted = {os.path.realpath(path), os.path.realpath(path.parent)}
    return any(os.path.realpath(one) in accepted for one in said.split(os.pathsep) if one)


def _user(uid: int) -> str:
    import pwd  # noqa: PLC0415 - for a refusal only

    try:
        return f"{pwd.getpwuid(uid).pw_name}, uid {uid}"
    except KeyError:
        return f"uid {uid}"


def writable_by_group(path: Path) -> bool:
    """Say whether others than its owner may write it, or replace it in its directory."""
    place = os.stat(path.parent)  # noqa: PTH116
    replaceable = place.st_mode & _WRITABLE_BY_GROUP and not place.st_mode & _STICKY
    return bool(replaceable or os.stat(path).st_mode & _WRITABLE_BY_GROUP)  # noqa: PTH116


def _upwards(start: Path, name: str) -> Path | None:
    start = Path(os.path.abspath(start))  # noqa: PTH100 - a start that does not exist yet is fine
    for directory in (start, *start.parents):
        candidate = directory / name
        if candidate.is_file() if name == CONFIG_NAME else candidate.is_dir():
            return candidate
    return None


def read_toml(path: Path) -> dict[str, object]:
    """Read the file's tables. Raises BadConfig with the line at which it stops being TOML."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadConfig(str(path), (Problem("", f"not UTF-8 at byte {error.start}"),)) from None
    except OSError as error:
        raise BadConfig(str(path), (Problem("", f"cannot be read: {error.strerror}"),)) from None
    if len(text) > _MAX_CONFIG_CHARS:
        raise BadConfig(str(path), (Problem("", f"larger than {_MAX_CONFIG_CHARS} characters"),))
    plain = plain_toml.read(text)
    if plain is not None:
        return plain
    import tomllib  # noqa: PLC0415 - see plain_toml

    if found := re.search(_ENDLESS_KEY, text, re.ASCII):
        line = text.count("\n", 0, found.start()) + 1
        raise BadConfig(str(path), (Problem("", "a key of more than 64 parts", line),))
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(str(path), (_not_toml(str(error), text),)) from None
    except RecursionError:
        raise BadConfig(str(path), (Problem("", "not TOML: nested too deep"),)) from None
    except ValueError as error:  # a number of thousands of digits
        raise BadConfig(str(path), (Problem("", f"not TOML: {error}"),)) from None


def _not_toml(words: str, text: str) -> Problem:
    what = re.sub(r" \(at [^)]*\)$", "", words)
    if at := re.search(r"\(at line (\d+), column (\d+)\)", words):
        return Problem("", f"not TOML: {what} (column {at[2]})", int(at[1]))
    return Problem("", f"not TOML: {what} (the file ends here)", len(text.splitlines()))


def read_site(path: Path, root: Path | None = None) -> Site:
    """The site that an ackd.toml describes; ``root`` in it is relative to the file."""
    path = Path(os.path.abspath(path))  # noqa: PTH100
    data = read_toml(path)
    problems: list[Problem] = []

    def take(table: Mapping[str, object], key: str, kind: type[_Value], default: _Value) -> _Value:
        value = table.get(key, default)
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        problems.append(Problem(key, f"must be a {_KINDS[kind]}"))
        return default

    own_root = path.parent / take(data, "root", str, ".ackd")
    agents = take(data, "agents", dict, {})
    tables = {name: take(agents, name, dict, {}) for name in agents}
    root = Path(os.path.abspath(root if root is not None else own_root))  # noqa: PTH100
    site = Site(
        config_path=path,
        root=root,
        agents=tables,
        escalate_to=take(data, "escalate_to", str, USER),
        max_message_bytes=take(data, "max_message_bytes", int, DEFAULT_MAX_MESSAGE_BYTES),
        extra_types=tuple(map(str, take(data, "extra_types", list, []))),
        unknown_types=take(data, "unknown_types", str, "quarantine"),
        fsync=take(data, "delivery", dict, {}).get("durability", "power") != "process",
        dedup_window_s=_seconds(take(data, "delivery", dict, {}).get("dedup_window_s"), 86_400),
        tables={one.name: take(data, one.name, dict, {}) for one in CAPABILITIES if one.settings and one.name in data},
        reserved=RESERVED_NAMES | _ensemble_names(data.get("ensemble"), path.parent, root),
    )
    problems.extend(_name_problems(site))
    if "groups" in data or "pools" in data:
        from ackd.config.groups import read_shared  # noqa: PLC0415 - most teams have none

        shared = read_shared(data, tables, site.tables, take)
        site = site._replace(agents=shared.agents, groups=shared.groups, pools=shared.pools)
        if not problems:
            problems.extend(Problem(".".join(key), what) for key, what in shared.complaints(site.reserved))
    if problems:
        raise BadConfig(str(path), tuple(problems))
    return site


def _seconds(value: object, default: float) -> float:
    """A number of the config, as far as it is one: whether it makes sense is the daemon's to say."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else default


def _read_root(path: Path, root: Path | None = None) -> Site:
    """A site without anything of its config but the root: the one that was said, or that stands in the file as a line
    of its own, else the usual one. It must be there."""
    path = Path(os.path.abspath(path))  # noqa: PTH100
    if root is None:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")[:_MAX_CONFIG_CHARS]
        except OSError:
            text = ""
        said = re.search(_ROOT_LINE, re.split(r"(?m)^[ \t]*\[", text, maxsplit=1)[0])
        root = path.parent / (said[2] if said else ".ackd")
    root = Path(os.path.abspath(root))  # noqa: PTH100
    if not os.path.isdir(root / "queue"):  # noqa: PTH112
        return read_site(path, root)  # raises, and says what is wrong
    return Site(config_path=path, root=root)


def _ensemble_names(table: object, base: Path, root: Path) -> frozenset[str]:
    """Return the directories of an ensemble. If it shares queue/ with us, these are not queues of agents."""
    if not isinstance(table, dict):
        return frozenset()
    queue = base / str(table.get("queue", "queue"))
    shared = os.path.abspath(queue) == f"{root}/queue"  # noqa: PTH100
    return frozenset({"tasks", "reports", "ack"}) if shared else frozenset()


_KINDS: Final[Mapping[type, str]] = {str: "string", int: "whole number", list: "list", dict: "table"}


def _name_problems(site: Site) -> Iterator[Problem]:
    for name in site.agents:
        try:
            agent_name(name, site.reserved)
        except BadName as error:
            yield Problem(f"agents.{name}", str(error))
