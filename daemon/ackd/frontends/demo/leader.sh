#!/bin/sh
# The leader: makes a strategy and a task list of a goal, and hears how it went.
set -eu

case $ACKD_TYPE in
user_goal)
    ackd reply "$ACKD_MESSAGE_ID" --type strategy_response --body '
goal: "Publish the release notes"
strategy:
  approach: "three workers side by side"
  phases:
    - {phase: 1, name: "write", description: "collect, write, publish"}
task_count: 3
estimated_duration: 20
risks: ["the publishing account may be locked"]
recommendations: ["watch task_003"]
'
    ackd send coordinator --type task_list --priority high --body '
goal: "Publish the release notes"
strategy_summary: "three workers side by side"
tasks:
  - {task_id: task_001, title: "Collect the changes", description: "From the log", phase: 1, priority: high,
     estimated_time: 5, dependencies: [], skills_required: [git], deliverables: [changes.txt]}
  - {task_id: task_002, title: "Write the notes", description: "In plain words", phase: 1, priority: normal,
     estimated_time: 5, dependencies: [], skills_required: [prose], deliverables: [notes.md]}
  - {task_id: task_003, title: "Publish them", description: "On the site", phase: 1, priority: normal,
     estimated_time: 5, dependencies: [], skills_required: [web], deliverables: [page]}
'
    ;;
progress_update)
    if grep -q '^final: true' "$ACKD_BODY"; then
        ackd send user --body "$(sed -n 's/^message: *//p' "$ACKD_BODY")"
    fi
    ;;
escalation)
    ackd send user --priority critical --body "escalated to me: $(sed -n 's/^cause: *//p' "$ACKD_BODY")"
    ;;
*)
    exit 65 # not for me
    ;;
esac
