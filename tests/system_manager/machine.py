"""A machine with a systemd of its own: booted by systemd-nspawn on an overlay of this machine's root.

What is written there goes to memory, and is gone in the end. The machine has no network, and a mount namespace, pid
namespace and cgroup of its own, so that it neither disturbs this one nor another like it. It boots only what a service
needs: the journal, D-Bus and logind.

Needs root and systemd-nspawn; ``missing`` says what is not there. The machine ends with the process that started it,
however that ends. Nothing waits for a time: systemd-nspawn itself says when the machine is up (sd_notify).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: What a test may wait for something in there: units are started, stopped and restarted, beside all other tests.
MACHINE_PATIENCE_S: Final = 2 * PATIENCE_S
_ENDS_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")
_NAMESPACES: Final = ("unshare", "--mount", "--propagation=private", "--pid", "--mount-proc", "--fork", "--kill-child")
_NEEDED: Final = ("systemd-nspawn", "unshare", "nsenter", "setpriv", "runuser", "tmux")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: Boots nothing of the machine's own services (databases, timers): it would cost seconds, and is none of ours.
_TARGET: Final = """\
[Unit]
Description=What the tests of the service need
Requires=basic.target
Wants=dbus.socket systemd-logind.service
After=basic.target dbus.socket systemd-logind.service
AllowIsolate=yes
"""

#: Runs as the first process of a pid namespace, and in a mount namespace: both end with it, and all that is in them.
#: (The machine alone would outlive a killed systemd-nspawn.) The cgroup is a new one, because two systemds must not take
#: each other's processes for their own.
_BOOT: Final = """\
set -eu
while IFS=: read -r number controllers path; do
    case "$controllers" in
        "") for top in /sys/fs/cgroup/unified /sys/fs/cgroup; do [ -e "$top/cgroup.procs" ] && break; done ;;
        name=systemd) top=/sys/fs/cgroup/systemd ;;
        *) continue ;;
    esac
    mkdir "$top$path/$NAME"
    echo 0 > "$top$path/$NAME/cgroup.procs"
done < /proc/self/cgroup
mount -t tmpfs -o size=2G,mode=0755 tmpfs "$PLACE"
mkdir "$PLACE/upper" "$PLACE/work" "$PLACE/root"
mount -t overlay -o "lowerdir=/,upperdir=$PLACE/upper,workdir=$PLACE/work" overlay "$PLACE/root"
cp "$FROM/ackd-tests.target" "$PLACE/root/etc/systemd/system/"
rm -rf "$PLACE"/root/var/log/journal "$PLACE"/root/var/lib/systemd/linger
mkdir "$PLACE/root/var/log/journal"
for parent in $OPEN; do chmod o+x "$PLACE/root$parent"; done
systemd-nspawn --directory="$PLACE/root" --machine="$NAME" --register=no --keep-unit --private-network \\
    --link-journal=no --notify-ready=yes --console=read-only --bind-ro="$FROM:/from-outside" \\
    --boot -- --unit=ackd-tests.target --show-status=no
"""


def missing() -> str:
    """Say what this machine lacks for the tests; empty if nothing."""
    if os.geteuid() != 0:
        return "a machine of its own under systemd-nspawn needs root"
    for program in _NEEDED:
        if shutil.which(program) is None:
            return f"{program} is not installed (Debian: systemd-container, util-linux, tmux)"
    if not Path("/usr/lib/systemd/systemd").exists() and not Path("/lib/systemd/systemd").exists():
        return "systemd is not installed"
    return ""


class Machine:
    """``leader``: the pid of the machine's systemd, as seen from here."""

    def __init__(self, leader: int) -> None:
        self.leader = leader

    # --- commands -----------------------------------------------------------------------------------------------------
    def run(
        self,
        *command: str,
        user: str = "root",
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in there, as a user who is logged in. With ``check`` it must succeed."""
        ended = subprocess.run(
            self._inside(command, user, cwd, env or {}),
            capture_output=True,
            text=True,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            timeout=MACHINE_PATIENCE_S,
            check=False,
        )
        if check:
            assert ended.returncode == 0, (
                f"{shlex.join(command)}: exit {ended.returncode}\n{ended.stdout}{ended.stderr}"
            )
        return ended

    def start(self, *command: str, user: str = "root", cwd: str = "/") -> subprocess.Popen[bytes]:
        """Start a command in there that goes on; whoever starts it ends it."""
        return subprocess.Popen(
            self._inside(command, user, cwd, {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _inside(self, command: tuple[str, ...], user: str, cwd: str, env: Mapping[str, str]) -> list[str]:
        variables = {"PATH": _PATH, "LC_ALL": "C.UTF-8", "USER": user, "HOME": self.home(user), **env}
        if user != "root":
            variables.setdefault("XDG_RUNTIME_DIR", f"/run/user/{self.uid(user)}")
            command = ("runuser", "-u", user, "--", *command)
        enter = ["nsenter", f"--target={self.leader}", "--mount", "--uts", "--ipc", "--net", "--pid", f"--wdns={cwd}"]
        return [*enter, "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *command]

    @functools.cache  # noqa: B019 - there is one machine
    def home(self, user: str) -> str:
        return "/root" if user == "root" else self.run("getent", "passwd", user).stdout.split(":")[5]

    @functools.cache  # noqa: B019
    def uid(self, user: str) -> int:
        return int(self.run("id", "-u", user).stdout)

    # --- files --------------------------------------------------------------------------------------------------------
    def path(self, inside: str) -> Path:
        """A path in there, as root sees it from here."""
        return Path(f"/proc/{self.leader}/root{inside}")

    def write(self, inside: str, text: str, *, user: str = "root", mode: int = 0o644) -> None:
        self.run("mkdir", "-p", str(Path(inside).parent), user=user)
        self.run(
            "sh", "-c", f"cat > {shlex.quote(inside)} && chmod {mode:o} {shlex.quote(inside)}", user=user, stdin=text
        )

    # --- units --------------------------------------------------------------------------------------------------------
    def unit(self, name: str, *properties: str, user: str = "") -> dict[str, str]:
        """Properties of a unit, of the system's or of a user's manager."""
        mode = ["--user"] if user else []
        said = self.run(
            "systemctl", *mode, "show", name, f"--property={','.join(properties)}", user=user or "root"
        ).stdout
        return dict(line.partition("=")[::2] for line in said.splitlines())

    def until(self, true: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + MACHINE_PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"{what} never came true\n{self.log()}"
            time.sleep(0.05)

    def log(self, lines: int = 60) -> str:
        """The end of its journal: for a test that fails."""
        return self.run("journalctl", "--no-pager", f"--lines={lines}", check=False).stdout

    def journal(self, unit: str, *, user: str = "") -> list[dict[str, object]]:
        """The entries that a unit has written, each with all of its fields."""
        chosen = [f"_SYSTEMD_USER_UNIT={unit}"] if user else [f"_SYSTEMD_UNIT={unit}"]
        self.run("journalctl", "--sync")
        said = self.run("journalctl", "--no-pager", "--output=json", *chosen).stdout
        return [json.loads(line) for line in said.splitlines()]


@contextlib.contextmanager
def booted(place: Path, from_outside: Path, readable: Path) -> Iterator[Machine]:
    """A machine that is up. ``from_outside`` is a directory that it sees at /from-outside; ``readable``: a path of this
    machine that every user in there can reach, such as that of Python, which may lie in root's home."""
    name = f"ackd-tests-{os.getpid()}-{time.monotonic_ns()}"
    (from_outside / "ackd-tests.target").write_text(_TARGET)
    root = place / "machine"
    root.mkdir()
    closed = [str(parent) for parent in readable.parents if not parent.stat().st_mode & 0o001]
    variables = {"NAME": name, "PLACE": str(root), "FROM": str(from_outside), "OPEN": " ".join(closed)}
    console = place / "console.txt"
    with _NotifySocket(place / "notify") as told, console.open("wb") as out:
        process = subprocess.Popen(
            [*_ENDS_WITH_US, *_NAMESPACES, "sh", "-c", _BOOT],
            env={"PATH": _PATH, "NOTIFY_SOCKET": str(told.path), **variables},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            try:
                leader = told.leader_when_ready(process)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{console.read_text(errors='replace')}") from None
            yield Machine(leader)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            _remove_cgroups(name)


class _NotifySocket:
    """The receiving end of what systemd-nspawn says: the machine's first process, and that it is up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def __enter__(self) -> Self:
        self._socket.bind(str(self.path))
        self._socket.settimeout(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def leader_when_ready(self, process: subprocess.Popen[bytes]) -> int:
        leader, deadline = 0, time.monotonic() + MACHINE_PATIENCE_S
        while time.monotonic() < deadline:
            try:
                said = self._socket.recv(4096).decode().splitlines()
            except TimeoutError:
                assert process.poll() is None, f"systemd-nspawn ended with {process.returncode}"
                continue
            for line in said:
                if line.startswith("X_NSPAWN_LEADER_PID="):
                    leader = int(line.partition("=")[2])
            if "READY=1" in said and leader:
                return _from_here(process.pid, leader)
        raise AssertionError("the machine did not come up")


def _from_here(top: int, wanted: int) -> int:
    """The pid that a process below ``top`` has here, by the one that it has in the pid namespace around the machine."""
    below = [top]
    while below:
        pid = below.pop()
        status = Path(f"/proc/{pid}/status").read_text()
        pids = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
        if len(pids) > 2 and pids[-2] == str(wanted):
            return pid
        below += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    raise AssertionError(f"no process {wanted} below {top}")


def _remove_cgroups(name: str) -> None:
    """Remove the cgroups that the machine has left, once the kernel has ended the last process in them."""
    deadline = time.monotonic() + PATIENCE_S
    while found := [path for path in Path("/sys/fs/cgroup").glob(f"**/{name}/**/") if path.is_dir()]:
        for directory in sorted(found, reverse=True):
            with contextlib.suppress(OSError):
                directory.rmdir()
        assert time.monotonic() < deadline, f"{found} cannot be removed"
        time.sleep(0.01)
