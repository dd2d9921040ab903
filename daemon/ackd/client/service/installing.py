"""Install ackd as a service for one workspace, and take that away again.

A unit of its own for each workspace, ``ackd@<path>.service``, has everything in it: two workspaces, or two
installations of ackd, have nothing in common that one could break for the other. Completions and manual pages are
shared by all of a user's (or of the system's) services and go with the last one.

Each thing that is done is told as a ``Step``, before the next is begun. What is as it should be is left alone, so that
installing again changes nothing. A unit that somebody has edited is refused with ``EditedFile``; with ``force`` it is
kept beside the new one. What shells and man already find is never replaced.

Fails with ``EditedFile``, ``CannotInstall``, ``RootHeld`` (a daemon runs there that is no service), ``CannotWrite``,
``NoServiceManager`` and ``ManagerRefused``.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.client import shipped
from ackd.client.errors import CannotInstall, CannotWrite, EditedFile
from ackd.client.service import units
from ackd.client.service.systemctl import SYSTEM, Manager, Service, service_of
from ackd.client.writing import creating
from ackd.config.site import CONFIG_NAME
from ackd.core.errors import RootHeld
from ackd.storage import installed_file, root_lock
from ackd.storage.installed_file import EDITED, FOREIGN, MISSING, OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ackd.config.site import Site

#: Where completions go below the data directory: the file that comes with ackd, where the shell looks for it.
_COMPLETIONS: Final = {
    "bash": ("ackd.bash", "bash-completion/completions/ackd"),
    "fish": ("ackd.fish", "fish/vendor_completions.d/ackd.fish"),
    "zsh": ("_ackd", "zsh/site-functions/_ackd"),
}
#: systemd refuses these in the name of a program, quoted or not.
_NOT_IN_A_PROGRAM: Final = frozenset("\"'\\")
_HASH, _ROFF = "#", '.\\"'


class Step(NamedTuple):
    """A thing that was done (``wrote``, ``ran``, ``removed``, ``kept``), or that is good to know (``note``)."""

    what: str
    subject: str
    why: str = ""
    paths: tuple[str, ...] = ()


class Plan(NamedTuple):
    """A service as it is to be; ``text`` is its unit."""

    site: Site
    service: Service
    text: str


def plan(site: Site, manager: Manager, *, config: str | None, root: str | None, account: str | None = None) -> Plan:
    """Say what the service of this team would be. ``config`` and ``root`` are given if the team was named by them."""
    workspace = str(site.base)
    if not workspace.isprintable() or workspace != workspace.rstrip(" \\"):
        raise CannotInstall(f"{workspace!r} cannot stand in a unit file: name the directory without such characters")
    service = service_of(site.base, manager)
    command = [*_program(), "run", "--quiet"]
    if not command[0].isprintable() or set(command[0]) & _NOT_IN_A_PROGRAM:
        raise CannotInstall(f"systemd runs no program called {command[0]!r}: install ackd in another directory")
    if config is not None and site.config_path is not None and site.config_path.name != CONFIG_NAME:
        command += ["--config", str(site.config_path)]
    if root is not None:
        command += ["--root", str(site.root)]
    is_system = manager.scope == SYSTEM
    words = units.UnitWords(
        name=service.unit,
        workspace=workspace,
        command=command,
        path=os.pathsep.join(_search_path()),
        account=_account(site, account) if is_system else None,
        writes=() if site.root.is_relative_to(site.base) else (str(site.root),),
    )
    text = units.text(shipped.unit_text(units.SYSTEM_UNIT if is_system else units.USER_UNIT), words)
    return Plan(site, service, text)


def install(
    wanted: Plan, tell: Callable[[Step], None], *, force: bool = False, start: bool = True, dry_run: bool = False
) -> None:
    """Make it so. With ``dry_run`` the same steps are told, and nothing is done."""
    manager, unit, _ = wanted.service
    manager.require()
    now = manager.show(unit, "ActiveState", "UnitFileState")
    active = now.get("ActiveState") in ("active", "activating", "reloading")
    if start and not active and (pid := root_lock.holder(wanted.site.run)) is not None:
        raise RootHeld(str(wanted.site.root), pid or None)
    _may_write(manager, dry_run=dry_run)
    changed = _put_unit(wanted, tell, force=force, dry_run=dry_run)
    for step in _shared_steps(manager, dry_run=dry_run):
        tell(step)
    if changed:
        _run(manager, tell, "daemon-reload", dry_run=dry_run)
    if now.get("UnitFileState") != "enabled":
        _run(manager, tell, "enable", unit, dry_run=dry_run)
    if start and not active:
        _run(manager, tell, "start", unit, dry_run=dry_run)
    elif active and changed:
        tell(Step("note", unit, "runs on by the unit before: `ackd service restart` takes up the new one"))
    elif active:
        tell(Step("kept", unit, "runs"))
    if not manager.lingers():
        tell(Step("note", "linger", "it ends with your last session: `loginctl enable-linger` lets it stay"))


def uninstall(service: Service, tell: Callable[[Step], None], *, force: bool = False, dry_run: bool = False) -> None:
    """Stop the service and remove all that ``install`` wrote. Messages, logs and the team's config stay."""
    manager, unit, path = service
    manager.require()
    found, others = installed_file.look(path), [one for one in _our_units(manager) if one != path]
    if found.state == MISSING:
        tell(Step("note", unit, f"is not installed: there is no {path}"))
    else:
        _may_write(manager, dry_run=dry_run)
        if found.state != OURS:
            _refuse_edited(path, found.state, force=force)
        _run(manager, tell, "disable", "--now", unit, dry_run=dry_run)
        if found.state != OURS:
            _keep_copy(path, tell, dry_run=dry_run)
        if others and not dry_run:
            installed_file.hand_over(path, others[0], _HASH)
        _remove(path, tell, dry_run=dry_run)
        _run(manager, tell, "daemon-reload", dry_run=dry_run)
        if not dry_run and manager.show(unit, "ActiveState").get("ActiveState") == "failed":
            _run(manager, tell, "reset-failed", unit, dry_run=dry_run)
    if (extra := path.with_name(f"{path.name}.d")).is_dir():
        tell(Step("note", str(extra), "is kept: it is not of `ackd service install`"))
    if not others:
        _remove_shared(manager, tell, dry_run=dry_run)


# --- the unit ---------------------------------------------------------------------------------------------------------
def _put_unit(wanted: Plan, tell: Callable[[Step], None], *, force: bool, dry_run: bool) -> bool:
    """Write the unit if it is not as it should be; tell whether it was written."""
    path = wanted.service.path
    found = installed_file.look(path)
    if found.state == OURS and found.text == wanted.text:
        tell(Step("kept", str(path), "is as it should be"))
        return False
    if found.state in (EDITED, FOREIGN):
        _refuse_edited(path, found.state, force=force)
        _keep_copy(path, tell, dry_run=dry_run)
    if not dry_run:
        with creating(path.parent):
            installed_file.put(path, wanted.text, _HASH)
    tell(Step("wrote", str(path), "instead of an older one" if found.state == OURS else ""))
    return True


def _refuse_edited(path: Path, state: str, *, force: bool) -> None:
    if not force:
        raise EditedFile(str(path), is_foreign=state == FOREIGN)


def _keep_copy(path: Path, tell: Callable[[Step], None], *, dry_run: bool) -> None:
    copy = path.with_name(f"{path.name}.bak")
    if not dry_run:
        with creating(path.parent):
            copy = installed_file.keep_copy(path)
    tell(Step("wrote", str(copy), f"a copy of {path.name} as it was"))


def _run(manager: Manager, tell: Callable[[Step], None], *words: str, dry_run: bool) -> None:
    if not dry_run:
        manager.run(*words)
    tell(Step("ran", " ".join(manager.command(*words))))


def _remove(path: Path, tell: Callable[[Step], None], *, dry_run: bool) -> None:
    if not dry_run:
        with creating(path.parent):
            installed_file.remove([path])
    tell(Step("removed", str(path)))


def _may_write(manager: Manager, *, dry_run: bool) -> None:
    if manager.scope == SYSTEM and os.geteuid() != 0 and not dry_run:
        raise CannotWrite("a service of the system is root's to install: use sudo, or leave --system out")


def _our_units(manager: Manager) -> list[Path]:
    return [one for one in manager.unit_directory.glob("ackd@?*.service") if installed_file.look(one).state == OURS]


# --- completions and manual pages -------------------------------------------------------------------------------------
def _shared_files(manager: Manager) -> Iterator[tuple[Path, str, str]]:
    """Every completion and manual page: where it goes, its text, and what begins a comment in it."""
    data = manager.data_directory
    for shell, (file, place) in _COMPLETIONS.items():
        if shell != "zsh" or manager.scope == SYSTEM:  # zsh looks into no directory of a user's by itself
            yield data / place, shipped.completion_text(file), _HASH
    for page in shipped.manual_pages():
        yield data / "man" / page.parent.name / page.name, page.read_text(encoding="utf-8"), _ROFF


def _shared_steps(manager: Manager, *, dry_run: bool) -> Iterator[Step]:
    written, foreign = list[Path](), list[Path]()
    for path, text, comment in _shared_files(manager):
        found = installed_file.look(path)
        if found.state in (EDITED, FOREIGN):
            foreign.append(path)
        elif found.state == MISSING or found.text.rstrip("\n") != text.rstrip("\n"):
            if not dry_run:
                with creating(path.parent):
                    installed_file.put(path, text, comment)
            written.append(path)
    for directory, paths in _by_directory(written).items():
        yield Step("wrote", _counted(directory, paths), paths=tuple(map(str, paths)))
    for directory, paths in _by_directory(foreign).items():
        yield Step("kept", _counted(directory, paths), "there already, and not ours", tuple(map(str, paths)))
    if manager.scope != SYSTEM:
        yield Step("note", "zsh", 'completes with: eval "$(ackd completion zsh)" in ~/.zshrc, after compinit')


def _ours_of(data: Path) -> list[Path]:
    """The completions and manual pages that we have put there, those of other versions of ackd included."""
    pages = (path for folder in ("man/man1", "man/man5") for path in data.glob(f"{folder}/ackd*"))
    candidates = [*(data / place for _, place in _COMPLETIONS.values()), *pages]
    return [path for path in candidates if installed_file.look(path).state == OURS]


def _remove_shared(manager: Manager, tell: Callable[[Step], None], *, dry_run: bool) -> None:
    paths = _ours_of(manager.data_directory)
    if paths and not dry_run:
        with creating(*{path.parent for path in paths}):
            installed_file.remove(paths)
    for directory, there in _by_directory(paths).items():
        tell(Step("removed", _counted(directory, there), paths=tuple(map(str, there))))


def _by_directory(paths: Iterable[Path]) -> dict[Path, list[Path]]:
    found: dict[Path, list[Path]] = {}
    for path in paths:
        found.setdefault(path.parent, []).append(path)
    return found


def _counted(directory: Path, paths: list[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{directory}/ackd* ({len(paths)} files)"


# --- this installation ------------------------------------------------------------------------------------------------
def _program() -> list[str]:
    """The absolute path of the ackd that runs. Links are not followed: an upgrade may change where they lead."""
    beside = Path(sysconfig.get_path("scripts")) / "ackd"
    return [str(beside)] if os.access(beside, os.X_OK) else [sys.executable, "-m", "ackd"]


def _search_path() -> list[str]:
    """The directories of the agents' programs: where ackd is, because agents run it, and then the caller's own PATH."""
    said = os.environ.get("PATH", os.defpath).split(os.pathsep)
    wanted = [os.path.dirname(_program()[0]), *said]  # noqa: PTH120
    return list(dict.fromkeys(one for one in wanted if one.startswith("/") and one.isprintable()))


def _account(site: Site, name: str | None) -> units.Account:
    """The account of a system unit: the one that was named, else the owner of the workspace."""
    import grp
    import pwd

    try:
        entry = pwd.getpwnam(name) if name is not None else pwd.getpwuid(site.base.stat().st_uid)
    except KeyError:
        whose = f"no account {name}" if name is not None else f"{site.base} belongs to a uid without an account"
        raise CannotInstall(f"{whose}: `useradd --system --create-home NAME` makes one") from None
    if entry.pw_uid == 0:
        raise CannotInstall(
            f"{site.base} is root's, and agents should not run as root: give it to an account of its own (chown -R), "
            "or say --account NAME"
        )
    if name is not None and site.base.stat().st_uid != entry.pw_uid:
        raise CannotInstall(f"{site.base} does not belong to {name}, who could not write there: chown -R {name}")
    _must_run_as(entry.pw_uid, entry.pw_name)
    try:
        group = grp.getgrgid(entry.pw_gid).gr_name
    except KeyError:
        group = str(entry.pw_gid)
    return units.Account(entry.pw_name, group, entry.pw_dir)


def _must_run_as(uid: int, name: str) -> None:
    """Raise CannotInstall if this ackd, or its Python, lies in a directory that is closed to the account."""
    for program in (Path(_program()[0]), Path(sys.executable)):
        for directory in (*program.parents, *program.resolve().parents):
            status = directory.stat()
            if not status.st_mode & 0o011 and status.st_uid != uid:
                raise CannotInstall(
                    f"{name} cannot run {program}: {directory} is closed to everybody else. Install ackd where {name} "
                    "can reach it, for instance in an environment below /opt"
                )
