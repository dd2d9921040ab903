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
./report.sh "$(sed -n 's/^task_id: *//p' "$ACKD_BODY")" "done at try $tries" "$ACKD_MESSAGE_ID"
