"""Who writes into values is found out in a run with checks."""

import numpy as np

from sched.errors import UsageError
from tests.runtime.values import first, full


def scribble(x):
    """Write into an argument in spite of everything."""
    if isinstance(x, np.ndarray):
        x.flags.writeable = True
    else:
        x.flags.writable = True
    x[0] = 99.0
    return 1


def test_a_run_with_checks_names_who_writes_into_an_argument(start):
    with start(1, 1, check=True) as run:
        part = run.on(1, name="maker").submit(full, 3)
        assert run.on(1).submit(first, part).result() == 3
        error = run.on(1, name="vandal").submit(scribble, part).exception()
        assert isinstance(error, UsageError)
        assert "vandal has written into its argument, the value of maker" in str(error)


def test_a_run_with_checks_names_a_value_that_its_maker_has_changed_since(start):
    kept = []

    def make():
        kept.append(full(3))
        return kept[-1]

    def change():
        kept[-1][0] = 99.0

    with start(1, check=True) as run:

        def both(what):
            return (make, change)[what]()

        part = run.s.options(name="maker").submit(both, 0)
        part.exception()
        run.s.submit(both, 1).result()
        error = run.s.options(name="reader").submit(first, part).exception()
        assert isinstance(error, UsageError)
        assert "the value of maker" in str(error)
        assert "changed since it was made, and before reader took it" in str(error)
