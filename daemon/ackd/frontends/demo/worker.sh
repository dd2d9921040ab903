#!/bin/sh
# A worker. $1: how often it fails before it succeeds.
set -eu
[ "$ACKD_TYPE" = task_assignment ] || exit 65

tries=$(cat "$ACKD_AGENT.tries" 2>/dev/null || echo 0)
tries=$((tries + 1))
echo "$tries" >"$ACKD_AGENT.tries"
sleep 0.3
if [ "$tries" -le "$1" ]; then
    echo "try $tries: no connection to the site" >&2
    exit 1
fi
ackd reply "$ACKD_MESSAGE_ID" --type task_completed --body "
$(grep '^task_id:' "$ACKD_BODY")
$(grep '^title:' "$ACKD_BODY")
status: success
deliverables:
  - {file: result.txt, description: \"What was asked for\", location: .}
execution_time: 1
notes: \"done at try $tries\"
"
