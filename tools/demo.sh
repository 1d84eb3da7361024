#!/bin/sh
# From nothing to the main job on 12 ranks, on the CPU device. Arguments go to the job.
. "$(dirname "$0")/env.sh"

make_venv "$VENV"
echo "installing into $VENV (a few minutes the first time)"
run_quietly "$VENV/bin/pip" install "${root}[sycl,mpich,examples]"
set -x
exec "$VENV/bin/mpiexec" -n 12 "$VENV/bin/python" -m sched run --device cpu "$root/examples/cholesky.py" "$@"
