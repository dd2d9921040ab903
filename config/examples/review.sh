#!/bin/sh
# A reviewer: reads what it is sent, and answers. Put your agent's command here.
ackd send leader --body "reviewed: $(head -c 60 "$ACKD_BODY" | tr -d '"\n')"
