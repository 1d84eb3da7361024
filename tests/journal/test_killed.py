"""A run may be killed at any moment."""

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
TIMES = 50


def test_a_run_that_is_killed_loses_at_most_what_it_was_recording(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.journal.killing", tmp_path / "journal", "1", str(TIMES)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    recorded, _ = done.stdout.split()
    assert int(recorded) > TIMES
