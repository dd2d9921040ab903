"""The session log on disk: one NDJSON line per fact, appended whole, and read back.

lines: the form of a line · files: the files of a directory · stored: a file as it is stored, plain or compressed ·
writing: the daemon's own log, and single lines from any process · reading: lines forwards or backwards, all about one
message, and new ones as they come · keeping: compressing and removing finished ones. Synchronous, because the command
line reads with it. README.md says who writes what in which order.
"""

from ackd.storage.session_log.files import age_order, begin_session, session_files, show_in
from ackd.storage.session_log.lines import Line, parse_line
from ackd.storage.session_log.reading import (
    Follower,
    LineReader,
    choose_id,
    chunks,
    end_of_lines,
    find_message_lines,
    follow,
    iter_logs,
    matching_ids,
    newest_session,
    read_lines,
)
from ackd.storage.session_log.writing import SessionLog, append

__all__ = [
    "Follower",
    "Line",
    "LineReader",
    "SessionLog",
    "age_order",
    "append",
    "begin_session",
    "choose_id",
    "chunks",
    "end_of_lines",
    "find_message_lines",
    "follow",
    "iter_logs",
    "matching_ids",
    "newest_session",
    "parse_line",
    "read_lines",
    "session_files",
    "show_in",
]
