#!/bin/sh
# A director that does not know ackd, and edits the files of the message bus, as agents of that protocol do. It is always
# against it.
exec python3 - "$(sed -n 's/^phase: //p' "$ACKD_BODY")" <<'END'
import datetime
import json
import os
import pathlib
import sys

board = pathlib.Path(os.environ["BUS"]) / "board"
now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def enter(name, entry):
    path = board / name
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, "CXO": entry}, indent=2))


match sys.argv[1]:
    case "ASSESSING":
        enter("assessments.json", {"verdict": "CONCERNS", "score": 5, "concerns": ["too many clicks"]})
    case "DISCUSSING":
        said = {"from": "CXO", "to": "CA", "type": "CHALLENGE", "message": "why so?", "timestamp": now}
        with (board / "discussion.jsonl").open("a") as discussion:
            discussion.write(json.dumps(said) + "\n")
    case "VOTING":
        enter("votes.json", {"final_verdict": "REJECT", "confidence": 0.9, "conditions": ["fewer clicks"], "timestamp": now})
END
