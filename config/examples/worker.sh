#!/bin/sh
# A worker: acknowledges its task, does it, and reports, all by files. Put your agent's command here.
file=$(sed -n 's/^  file: //p' "$ACKD_BODY")
[ -n "$file" ] || exit 0 # no task, but a message
task=$(sed -n 's/^task_id: //p' "$file")
touch "queue/ack/$task.ack"
printf 'task_id: %s\nworker: %s\nstatus: success\n' "$task" "$ACKD_AGENT" >"queue/reports/$task-completed.yaml"
