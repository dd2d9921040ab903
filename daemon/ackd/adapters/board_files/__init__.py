"""A board's files: one directory per meeting, the lock around every change, and the seed's flat files."""

from ackd.adapters.board_files.flat import Flat, append_lines, put_flat, read_flat, set_aside
from ackd.adapters.board_files.queue_tail import queue_size, said_since
from ackd.adapters.board_files.rooms import (
    give_up_room,
    held,
    make_board,
    make_room,
    make_room_for,
    meeting_ids,
    newest_first,
    others_newest,
    others_since,
    read_meeting,
    write_file,
    write_meeting,
)

__all__ = [
    "Flat",
    "append_lines",
    "give_up_room",
    "held",
    "make_board",
    "make_room",
    "make_room_for",
    "meeting_ids",
    "newest_first",
    "others_newest",
    "others_since",
    "put_flat",
    "queue_size",
    "read_flat",
    "read_meeting",
    "said_since",
    "set_aside",
    "write_file",
    "write_meeting",
]
