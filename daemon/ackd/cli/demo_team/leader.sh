#!/bin/sh
# The leader: makes a strategy and a task list of a goal, and hears how it went.
set -eu

tasks() { # number, title, skill, deliverable
    while IFS='|' read -r number title skill result; do
        echo "  - {task_id: task_$number, title: \"$title\", description: \"As planned\", phase: 1, priority: normal,"
        echo "     estimated_time: 5, dependencies: [], skills_required: [$skill], deliverables: [$result]}"
    done
}

case $ACKD_TYPE in
user_goal)
    plan="001|Collect the changes|git|changes.txt
002|Write the notes|prose|notes.md
003|Publish them|web|page
004|Build the packages|make|dist
005|Translate the notes|languages|translations"
    if grep -q '^\[agents.reviewer\]' ackd.toml; then
        plan="$plan
006|Review the notes|patience|review.md"
    fi
    count=$(echo "$plan" | wc -l)
    ackd reply "$ACKD_MESSAGE_ID" --type strategy_response --body "
goal: \"Publish the release notes\"
strategy:
  approach: \"$count workers side by side\"
  phases:
    - {phase: 1, name: \"write\", description: \"collect, write, publish, build, translate\"}
task_count: $count
estimated_duration: 20
risks: [\"the publishing account may be locked\"]
recommendations: [\"watch task_003\"]
"
    ackd send coordinator --type task_list --priority high --body "
goal: \"Publish the release notes\"
strategy_summary: \"$count workers side by side\"
tasks:
$(echo "$plan" | tasks)
"
    ;;
progress_update)
    if grep -q '^final: true' "$ACKD_BODY"; then
        ackd send user --body "$(sed -n 's/^message: *"\{0,1\}\([^"]*\).*/\1/p' "$ACKD_BODY")"
    fi
    ;;
escalation)
    ackd send user --priority critical --body "escalated to me: $(sed -n 's/^cause: *//p' "$ACKD_BODY")"
    ;;
*)
    exit 65 # not for me
    ;;
esac
