"""What needs hardware or software that is not here is skipped, and says so."""

import importlib.util

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("dpnp") is None:
        missing = pytest.mark.skip(reason="dpnp is not installed")
        for item in items:
            if item.get_closest_marker("sycl"):
                item.add_marker(missing)
