#!/bin/sh
# The coordinator: one task to each worker, and a line of progress for each answer.
set -eu
mkdir -p ended

report() { # what ended, in one line; the last one is final
    ended=$(find ended -type f | wc -l)
    final=false
    [ "$ended" -lt 3 ] || final=true
    ackd send leader --type progress_update --body "
repository: demo/notes
stage: implementation
percent: $((ended * 100 / 3))
message: \"$1 ($ended of 3 tasks ended)\"
total_tasks: 3
completed: $(find ended -name '*.done' | wc -l)
final: $final
summary: |
  $1
"
}

case $ACKD_TYPE in
task_list)
    worker=0
    for task in $(sed -n 's/.*task_id: *\([a-z0-9_]*\).*/\1/p' "$ACKD_BODY"); do
        worker=$((worker + 1))
        ackd send "ignitian_$worker" --type task_assignment --priority high --body "
task_id: $task
title: \"Do $task\"
description: \"As the leader planned it\"
instructions: |
  Do it, then report to the coordinator.
deliverables: [result]
skills_required: [any]
estimated_time: 5
"
    done
    ;;
task_completed)
    task=$(sed -n 's/^task_id: *//p' "$ACKD_BODY")
    : >"ended/$task.done"
    report "$task is done by $ACKD_FROM"
    ;;
dead_letter)
    worker=$(sed -n 's/^to: *//p' "$ACKD_BODY")
    : >"ended/$worker.dead"
    report "the task of $worker is a dead letter"
    ;;
*)
    exit 65
    ;;
esac
