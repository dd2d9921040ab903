"""What to do about a file that is no message: one sentence for each reason.

Owns the words that a notice of quarantine ends with. Refuses to know who reads them. Cannot fail: a reason without a
cure of its own has the one that always helps.
"""

from __future__ import annotations

from typing import Final

from ackd.core.words import Rejection

R = Rejection
_AGAIN: Final = "`ackd dead list` shows it, `ackd dead requeue FILE` puts it back once the cause is mended"
_WITH_SEND: Final = "Write it with `ackd send` or `ackd message build`, which get this right; or mend the copy"

_CURES: Final[dict[str, str]] = {
    R.UNKNOWN_TYPE: "Send it again with a type that ackd knows; or name this one in extra_types of ackd.toml, or set "
    'unknown_types = "deliver" there, and start ackd anew',
    R.UNKNOWN_PRIORITY: "Send it again with X-IGNITE-Priority: critical, high, normal or low",
    R.TOO_LARGE: "Send what is in it in parts, or as a path; or raise max_message_bytes in ackd.toml",
    R.NOT_ALLOWED: "Make it readable for the user that ackd runs as (chmod, chown), and send it again",
    R.NOT_REGULAR: "Write a regular file: links, FIFOs, devices and directories are never opened",
    R.EMPTY: "Write it under another name and rename it: whoever wrote it stopped before its first byte",
    R.NO_BLANK_LINE: "Write it whole, with a blank line between headers and body; best under another name, then rename",
    R.NOT_UTF8: "Send it again as UTF-8; `ackd message build` replaces what is not",
    R.MISSING_HEADER: _WITH_SEND,
}


def of(code: str) -> str:
    return f"{_CURES.get(code, _WITH_SEND)}. {_AGAIN}"
