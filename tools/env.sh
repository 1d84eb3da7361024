# Sourced by demo.sh and test.sh: a virtual environment with this checkout in it.
#
#   PYTHON   the interpreter to use (default: python3)
#   VENV     where the environment is made (default: .venv in the checkout)

set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
PYTHON=${PYTHON:-python3}
VENV=${VENV:-$root/.venv}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Debian and Ubuntu ship Python without the part that makes environments.
make_venv() {
    [ -x "$1/bin/pip" ] && return
    rm -rf "$1"
    if ! "$PYTHON" -m venv "$1" >/dev/null 2>&1; then
        echo "installing python3-venv" >&2
        as_root apt-get update -qq
        as_root apt-get install -y -qq python3-venv >/dev/null
        rm -rf "$1"
        "$PYTHON" -m venv "$1"
    fi
}

# Quiet while it goes well.
run_quietly() {
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        exit 1
    fi
    rm -f "$log"
}

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "Python 3.10 or newer is needed, and $PYTHON is $("$PYTHON" --version 2>&1): set PYTHON" >&2
    exit 1
}
