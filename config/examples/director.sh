#!/bin/sh
# A director that agrees with everything. Put your agent's command where it decides: the body of the message ($ACKD_BODY)
# has the proposal, the director's focus and what the others have said.
id=$(sed -n 's/^session_id: //p' "$ACKD_BODY")
case $(sed -n 's/^phase: //p' "$ACKD_BODY") in
ASSESSING) ackd board assess "$id" --verdict APPROVE --score 8 ;;
DISCUSSING) ackd board discuss "$id" --pass ;;
VOTING) ackd board vote "$id" --verdict APPROVE --confidence 0.8 ;;
esac
