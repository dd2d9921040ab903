"""supervisord and circus, told to keep the same program alive: a config each, and how it is run in the foreground."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def supervisord(place: Path, count: int) -> list[str]:
    """``startsecs`` 0: what runs, runs; a restart is at once."""
    programs = "".join(
        f"[program:starter_{n}]\ncommand={place}/starter.sh starter_{n} notes\ndirectory={place}\n"
        "autorestart=true\nstartsecs=0\nstdout_logfile=NONE\nstderr_logfile=NONE\n"
        for n in range(count)
    )
    head = f"[supervisord]\nlogfile={place}/supervisord.log\npidfile={place}/supervisord.pid\n"
    (place / "supervisord.conf").write_text(head + programs)
    return ["-m", "supervisor.supervisord", "-n", "-c", str(place / "supervisord.conf")]


def circus(place: Path, count: int) -> list[str]:
    """On sockets in its place; looks for the dead every second at the latest."""
    watchers = "".join(
        f"[watcher:starter_{n}]\ncmd={place}/starter.sh starter_{n} notes\nworking_dir={place}\n"
        f"stdout_stream.class=FileStream\nstdout_stream.filename=/dev/null\n"
        for n in range(count)
    )
    ends = "".join(f"{name} = ipc://{place}/{name}\n" for name in ("endpoint", "pubsub_endpoint"))
    (place / "circus.ini").write_text(f"[circus]\ncheck_delay = 1\n{ends}{watchers}")
    return ["-m", "circus.circusd", str(place / "circus.ini")]
