"""What needs hardware or software that is not here is skipped, and says so.

`tools/test.sh` installs all of it and sets `SCHED_TEST_ALL`: then a skip for want of something fails.
"""

import importlib.util
import os

import pytest

MISSING = ("is not installed", "there is no mpiexec")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("dpnp") is None:
        missing = pytest.mark.skip(reason="dpnp is not installed")
        for item in items:
            if item.get_closest_marker("sycl"):
                item.add_marker(missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> object:
    report = yield
    if report.skipped and os.environ.get("SCHED_TEST_ALL"):
        reason = str(report.longrepr)
        if any(words in reason for words in MISSING):
            report.outcome, report.longrepr = "failed", f"skipped, but everything should be here: {reason}"
    return report
