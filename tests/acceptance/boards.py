"""Directors as scripts: some answer with `ackd board`, one knows the seed's files only, and does with them what the seed
tells a director to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.acceptance.teams import Team
from tests.queue_mail import queue_mail

if TYPE_CHECKING:
    from pathlib import Path

#: Whatever is asked, in the words of the request.
DIRECTOR = """
field() { sed -n "s/^$1: //p" "$ACKD_BODY"; }
id=$(field session_id)
case $(field phase) in
ASSESSING) ackd board assess "$id" --track api --verdict ${VERDICT:-APPROVE} --score 8 --concern "seen by $ACKD_AGENT" ;;
DISCUSSING) ackd board discuss "$id" --track api --to ALL --type AGREE --message "round $(field round) by $ACKD_AGENT" ;;
VOTING) ackd board vote "$id" --track api --verdict ${VOTE:-APPROVE} --confidence 0.8 --condition "tests ($ACKD_AGENT)" ;;
esac
"""

BY_FILES = """
phase=$(sed -n 's/^phase: //p' "$ACKD_BODY")
python3 - "$phase" <<'END'
import datetime, json, os, pathlib, sys, uuid

bus = pathlib.Path(os.environ["BUS"])
now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def edit(name, entry):
    path = bus / "board" / name
    known = json.loads(path.read_text()) if path.exists() else {}
    known["CXO"] = entry
    path.write_text(json.dumps(known, indent=2))


def post(kind, payload):
    line = {"id": f"msg-{uuid.uuid4()}", "type": kind, "source": "CXO", "timestamp": now, "payload": payload}
    with (bus / "queue.jsonl").open("a") as queue:
        queue.write(json.dumps(line) + "\\n")


match sys.argv[1]:
    case "ASSESSING":
        said = {"verdict": "CONCERNS", "score": 7, "concerns": ["too many clicks"]}
        edit("assessments.json", said)
        post("BOARD_ASSESS", said)
    case "DISCUSSING":
        said = {"from": "CXO", "to": "CA", "type": "CHALLENGE", "message": "why so?", "changes_my_verdict": True,
                "timestamp": now}
        with (bus / "board/discussion.jsonl").open("a") as log:
            log.write(json.dumps(said) + "\\n")
        post("BOARD_DISCUSS", said)
    case "VOTING":
        said = {"final_verdict": "REJECT", "confidence": 0.9, "conditions": ["fewer clicks"], "timestamp": now}
        edit("votes.json", said)
        post("BOARD_VOTE", said)
END
"""


class BoardTeam(Team):
    """A team with a track ``api``, laid out as the seed does."""

    def __init__(self, place: Path, config: str) -> None:
        super().__init__(place)
        (place / "ackd.toml").write_text(config)
        self.bus = place / "conductor/tracks/api/.message-bus"
        for directory in ("events", "board"):
            (self.bus / directory).mkdir(parents=True, exist_ok=True)
        (self.bus / "queue.jsonl").touch()
        for name in ("locks.json", "worker-status.json", "board/assessments.json", "board/votes.json"):
            (self.bus / name).write_text("{}")
        (self.bus / "board/discussion.jsonl").touch()
        self.script("director.sh", DIRECTOR)
        self.script("director-by-files.sh", BY_FILES)

    def board(self, *words: str, env: dict[str, str] | None = None) -> Any:
        done = self.ackd("board", *words, "--json", env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def record(self, meeting_id: str) -> Any:
        return json.loads((self.bus / "board" / meeting_id / "meeting.json").read_text())

    def queue(self, kind: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in (self.bus / "queue.jsonl").read_text().splitlines()]
        return [line for line in lines if line["type"] == kind]

    def mail(self, agent: str, kind: str) -> list[Path]:
        return list(queue_mail(self.root, agent, kind))
