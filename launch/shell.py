"""The parts of a batch script that are the same for every job: shell, for `script` to put together."""

NODES = r"""nodes=$(wc -l <"$scratch/good")
if ((nodes < 1)); then
    echo "sched: the batch system names no node to run on" >&2
    exit 2
fi"""

NODES_BUT_SPARES = r"""nodes=$(($(wc -l <"$scratch/good") - SPARES))
if ((nodes < 1)); then
    echo "sched: SPARES=$SPARES leaves no node to run on: ask for more nodes" >&2
    exit 2
fi"""

LOST = r"""# The node that has failed, by what PALS says (docs.alcf.anl.gov):
# the last one in the first such line. "rank 7 died from signal 11" is none: that is a task's fault, or
# the echo of another node's end.
lost() {
    sed -nE '/ping failed on|ping RPC timeout from|No reply from|shepherd died from signal 9/ {
        s/.*\<(x[0-9]+c[0-9]+s[0-9]+b[0-9]+n[0-9]+).*/\1/p
    }' "$scratch/said" | head -n 1
}"""

STATE = r"""state() { find "$journal" -printf '%p %s %T@\n' 2>/dev/null | sort | cksum; }
[[ -n $journal ]] && before=$(state)"""

ONCE = r"""start
status=$?"""

WITH_SPARES = r"""if ((SPARES == 0)); then
    start
    status=$?
else
    # With a journal the run goes on where it was; without one it starts anew, which is worth it once.
    starts=1
    [[ -n $journal ]] && starts=$SPARES
    while true; do
        start 2>&1 | (trap '' TERM && exec tee "$scratch/said")
        status=${PIPESTATUS[0]}
        bad=$(lost)
        if ((status == 0 || starts == 0)) || [[ -n $stopped || -z $bad ]]; then break; fi
        if ! grep -q "^$bad\>" "$scratch/hosts"; then break; fi
        grep -v "^$bad\>" "$scratch/good" >"$scratch/rest"
        mv "$scratch/rest" "$scratch/good"
        starts=$((starts - 1))
        echo "sched: node $bad has failed (status $status); starting again without it" >&2
    done
fi"""

AGAIN = r"""# 75: stopped in time, with more to do; not deleted.
# Two attempts that add nothing to the journal are enough.
if ((status == 75 && RESUBMIT == 1)) && [[ -z $stopped ]]; then
    stalls=0
    [[ -n $journal && $(state) == "$before" ]] && stalls=$((${STALLS:-0} + 1))
    if [[ -z $journal || -n ${@ARRAY@:-} ]]; then
        echo "sched: not resubmitted: that takes a journal, and a job that is no array" >&2
    elif ((stalls == 2)); then
        echo "sched: not resubmitted: the last two attempts added nothing to $journal" >&2
    else
        @AGAIN@
    fi
fi"""
