#!/bin/sh
# One stage of one story, as a command. stories/ID.md is the story, its lines that begin with "- " are the tasks;
# ./build ID does the work, and ./verify ID says on its last line how good it is, of 100. Put your agent's command there.
id=$ACKD_STORY
story=stories/$id.md
tasks=$(grep -c '^- ' "$story" 2>/dev/null || true)

case $ACKD_STAGE in
0)
    [ -f "$story" ] || { echo "Stage 0 ERROR for $id: there is no $story"; exit 1; }
    echo "Stage 0 COMPLETE for $id. ${tasks:-0} tasks created. Plan score: 4/4."
    ;;
1)
    if [ "${tasks:-0}" -gt 0 ]; then
        echo "Stage 1 COMPLETE for $id. Verdict: GO. Readiness: 8."
    else
        echo "Stage 1 COMPLETE for $id. Verdict: NO-GO. Readiness: 2. Reason: $story has no tasks"
    fi
    ;;
2)
    if ./build "$id" >&2; then
        echo "Stage 2 COMPLETE for $id. All tasks Done. Story set to To Review."
    else
        echo "Stage 2 ERROR for $id: ./build ended with exit $?"
    fi
    ;;
3)
    score=$(./verify "$id" | tail -n 1)
    if [ "${score:-0}" -ge 70 ]; then
        echo "Stage 3 COMPLETE for $id. Verdict: PASS. Quality Score: $score/100."
    else
        echo "Stage 3 COMPLETE for $id. Verdict: FAIL. Quality Score: ${score:-0}/100. Issues: below 70"
    fi
    ;;
esac
