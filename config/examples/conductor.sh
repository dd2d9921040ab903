#!/bin/sh
# The conductor: hands a goal to the dispatcher as a plan, and hears of summaries and escalations. Put your agent's command here.
case $ACKD_TYPE in
user_goal) printf 'task_id: PLAN-1\ntitle: the plan\n' >queue/tasks/dispatch-plan.yaml ;;
esac
