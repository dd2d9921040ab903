"""The session log on disk: one NDJSON line per fact, appended whole, and read back.

lines: the shape of one line · files: the files of a directory · writer: the daemon's, which keeps what the disk refuses
· appending: a line from any process · reading: lines of files, either way
· search: all about one message · following: what comes next. Synchronous, because the command line reads with it.
"""

from ackd.adapters.session_log.appending import append
from ackd.adapters.session_log.files import begin_session, session_files, show_in
from ackd.adapters.session_log.following import Follower, follow
from ackd.adapters.session_log.lines import Line, parse_line
from ackd.adapters.session_log.reading import LineReader, end_of_lines, iter_logs, read_lines
from ackd.adapters.session_log.search import choose_id, find_message_lines, matching_ids
from ackd.adapters.session_log.writer import SessionLog

__all__ = [
    "Follower",
    "Line",
    "LineReader",
    "SessionLog",
    "append",
    "begin_session",
    "choose_id",
    "end_of_lines",
    "find_message_lines",
    "follow",
    "iter_logs",
    "matching_ids",
    "parse_line",
    "read_lines",
    "session_files",
    "show_in",
]
