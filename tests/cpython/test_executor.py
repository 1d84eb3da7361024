"""CPython's own tests of executors, unchanged, with tiles instead of threads or processes.

Its test classes are mixins that take the kind of executor from an attribute; here that is `pool.pool`.
Those for thread and process pools are used as well, since most of what sets the two apart is neither.
What cannot apply is in one table, with the reason. Left out as a whole: `FutureTests`, which test
`concurrent.futures.Future` by itself, and the deadlocks of process pools.
"""

import gc
import multiprocessing
import threading
import unittest
from pathlib import Path

import pytest

from tests.cpython.pool import MISSING, find, pool

ROOT = Path(__file__).parents[2]

HOMES = {
    "ExecutorTest": "executor",
    "ThreadPoolExecutorTest": "test_thread_pool",
    "ProcessPoolExecutorTest": "test_process_pool",
    "WaitTests": "test_wait",
    "ThreadPoolWaitTests": "test_wait",
    "AsCompletedTests": "test_as_completed",
    "ExecutorShutdownTest": "test_shutdown",
    "ThreadPoolShutdownTest": "test_shutdown",
    "ProcessPoolShutdownTest": "test_shutdown",
    "InitializerMixin": "test_init",
    "FailingInitializerMixin": "test_init",
}
"""Class of CPython's -> the submodule it lives in where these tests are a package."""

_BY_NAME = "makes a pool of CPython's by its own name, so it says nothing of another executor"
_THREADS = "counts the pool's own threads (_threads)"
_PROCESSES = "counts the pool's own processes (_processes)"
_RECYCLED = "max_tasks_per_child: a rank lives as long as its run"
_INITIALIZER = "initializer=: there is none, a task finds its tile as it was left"
_CAPTURED = "its function captures a lock or an event: functions are copied to the tile, and those cannot be"

CANNOT_APPLY = {
    "ExecutorTest.test_max_workers_negative": "compares the words of an error about max_workers",
    "ThreadPoolExecutorTest.test_map_submits_without_iteration": (
        "its function notes its calls in a list that it captures: it is copied, and so is the list"
    ),
    "ThreadPoolExecutorTest.test_default_workers": "compares _max_workers with a pool's default",
    "ThreadPoolExecutorTest.test_saturation": f"{_CAPTURED}; and {_THREADS}",
    "ThreadPoolExecutorTest.test_idle_thread_reuse": _THREADS,
    "ThreadPoolExecutorTest.test_hang_global_shutdown_lock": _BY_NAME,
    "ThreadPoolExecutorTest.test_executor_map_current_future_cancel": _CAPTURED,
    "ThreadPoolWaitTests.test_pending_calls_race": _CAPTURED,
    "ThreadPoolShutdownTest.test_threads_terminate": f"{_CAPTURED}; and {_THREADS}",
    "ThreadPoolShutdownTest.test_context_manager_shutdown": _BY_NAME,
    "ThreadPoolShutdownTest.test_del_shutdown": _BY_NAME,
    "ThreadPoolShutdownTest.test_shutdown_no_wait": _BY_NAME,
    "ThreadPoolShutdownTest.test_thread_names_assigned": _BY_NAME,
    "ThreadPoolShutdownTest.test_thread_names_default": _BY_NAME,
    "ProcessPoolExecutorTest.test_max_workers_too_large": _BY_NAME,
    "ProcessPoolExecutorTest.test_killed_child": "kills one of the pool's own processes (_processes)",
    "ProcessPoolExecutorTest.test_traceback": (
        "wants the cause to be of the process pool's private type; here it is sched.RemoteTraceback"
    ),
    "ProcessPoolExecutorTest.test_saturation": f"its task takes a semaphore of processes; and {_PROCESSES}",
    "ProcessPoolExecutorTest.test_idle_process_reuse_one": _PROCESSES,
    "ProcessPoolExecutorTest.test_idle_process_reuse_multiple": _PROCESSES,
    "ProcessPoolExecutorTest.test_max_tasks_per_child": _RECYCLED,
    "ProcessPoolExecutorTest.test_max_tasks_per_child_defaults_to_spawn_context": _RECYCLED,
    "ProcessPoolExecutorTest.test_max_tasks_early_shutdown": _RECYCLED,
    "ProcessPoolExecutorTest.test_python_finalization_error": "breaks the threads of a pool of processes",
    "ProcessPoolShutdownTest.test_processes_terminate": _PROCESSES,
    "ProcessPoolShutdownTest.test_context_manager_shutdown": _BY_NAME,
    "ProcessPoolShutdownTest.test_del_shutdown": _BY_NAME,
    "ProcessPoolShutdownTest.test_shutdown_no_wait": _BY_NAME,
    "InitializerMixin.test_initializer": _INITIALIZER,
    "FailingInitializerMixin.test_initializer": _INITIALIZER,
}
"""Test of CPython's -> why it cannot apply here."""

NOT_IN_EVERY_PYTHON = {
    "ProcessPoolExecutorTest.test_max_tasks_per_child",
    "ProcessPoolExecutorTest.test_max_tasks_per_child_defaults_to_spawn_context",
    "ProcessPoolExecutorTest.test_max_tasks_early_shutdown",
    "ProcessPoolExecutorTest.test_python_finalization_error",
}

_util = find("util")
if _util is None:
    pytest.skip(MISSING, allow_module_level=True)

_classes = {name: getattr(find(home), name) for name, home in HOMES.items()}


def _tests(cls):
    """List the tests that a class has itself: those that it inherits are run once, where they are from."""
    return [name for name in vars(cls) if name.startswith("test")]


def _on_tiles(name, cls):
    attributes = {
        "__module__": __name__,
        "executor_type": staticmethod(pool),
        # For the servers of shared objects that some tests start: forking beside threads is not for us.
        "get_context": lambda self: multiprocessing.get_context("spawn"),
    }
    for test in dir(cls):
        key = f"{name}.{test}"
        if test.startswith("test") and test not in _tests(cls):
            attributes[test] = None
        elif key in CANNOT_APPLY:
            attributes[test] = unittest.skip(CANNOT_APPLY[key])(getattr(cls, test))
    bases = [cls, _util.ExecutorMixin, _util.BaseTestCase]
    return type(name, tuple(b for b in bases if b is cls or not issubclass(cls, b)), attributes)


for _name, _class in _classes.items():
    globals()[_name] = _on_tiles(_name, _class)
del _class


@pytest.fixture(autouse=True)
def _programs_with_tiles(monkeypatch):
    """Let the programs that test the end of the interpreter import `pool`, not a pool of CPython's."""
    shutdown = find("test_shutdown")
    run = shutdown.assert_python_ok

    def run_with_tiles(flag, source):
        ours = "from tests.cpython.pool import find; find('test_shutdown'); from tests.cpython.pool import"
        source = source.replace("from concurrent.futures import", ours).replace("ThreadPoolExecutor", "pool")
        return run(flag, source, PYTHONPATH=str(ROOT), __isolated=False)

    monkeypatch.setattr(shutdown, "assert_python_ok", run_with_tiles)


@pytest.fixture(autouse=True)
def _only_our_threads_are_counted(monkeypatch):
    """See that each test ends the threads of its tiles; CPython's own count would count pytest's too."""

    def ours():
        return {thread for thread in threading.enumerate() if thread.name.startswith("sched-")}

    before = ours()
    monkeypatch.setattr(_util.threading_helper, "threading_cleanup", lambda *counts: None)
    yield
    assert ours() <= before


@pytest.fixture(autouse=True)
def _quick_collections():
    """Hide what was there before from the garbage collector, which some tests call a hundred times."""
    gc.freeze()
    yield
    gc.unfreeze()


def test_the_table_has_no_stale_names():
    there = {f"{name}.{test}" for name, cls in _classes.items() for test in _tests(cls)}
    assert set(CANNOT_APPLY) - there <= NOT_IN_EVERY_PYTHON
    assert set(CANNOT_APPLY) >= NOT_IN_EVERY_PYTHON
