#!/bin/sh
# The coordinator: one task to each worker, and a line of progress for each answer.
set -eu
mkdir -p ended

who_does() { # a task's worker
    case $1 in
    task_004) echo builder ;;
    task_005) echo translator ;;
    task_006) echo reviewer ;;
    *) echo "ignitian_${1#task_00}" ;;
    esac
}

report() { # what ended, in one line; the last one is final
    ended=$(find ended -type f | wc -l)
    planned=$(wc -l <planned)
    final=false
    [ "$ended" -lt "$planned" ] || final=true
    ackd send leader --type progress_update --body "
repository: demo/notes
stage: implementation
percent: $((ended * 100 / planned))
message: \"$1 ($ended of $planned tasks ended)\"
total_tasks: $planned
completed: $(find ended -name '*.done' | wc -l)
final: $final
summary: |
  $1
"
}

case $ACKD_TYPE in
task_list)
    sed -n 's/.*task_id: *\([a-z0-9_]*\).*/\1/p' "$ACKD_BODY" >planned
    while read -r task; do
        ackd send "$(who_does "$task")" --type task_assignment --priority high --body "
task_id: $task
title: \"Do $task\"
description: \"As the leader planned it\"
instructions: |
  Do it, then report to the coordinator.
deliverables: [result]
skills_required: [any]
estimated_time: 5
" </dev/null
    done <planned
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
