"""Ctrl-C, so that it never leaves the scheduler's tables half changed.

Python raises KeyboardInterrupt between any two steps of the main thread. Where that thread is in the
script, or in a task, or waits, this is right. Where it is inside the scheduler, the interrupt is held back
until it comes out.
"""

import signal
import threading
from types import FrameType
from typing import Protocol

_RUNS_USER_CODE = {"_make", "_run_job", "_invoke_callbacks"}
_WAITS = {"wait", "_pause"}


class _Engine(Protocol):
    def interrupt_later(self, yes: bool) -> None: ...


def hold_back_interrupts(engine: _Engine) -> None:
    """Handle SIGINT for an engine, if this is the main thread and nobody else handles it."""
    if threading.current_thread() is not threading.main_thread():
        return
    if getattr(signal.getsignal(signal.SIGINT), "__module__", "_signal") not in ("_signal", __name__):
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        place = _nearest(frame)
        if place in _RUNS_USER_CODE:
            # The task fails, and the script is interrupted after it.
            engine.interrupt_later(place == "_make")
            raise KeyboardInterrupt
        if place is None or place in _WAITS:
            raise KeyboardInterrupt
        engine.interrupt_later(True)

    signal.signal(signal.SIGINT, handle)


def _nearest(frame: FrameType | None) -> str | None:
    """Return the function of ours that runs, or that called what runs; None if the script does."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "__main__":
            return None
        if module.partition(".")[0] == "sched":
            return frame.f_code.co_name
        frame = frame.f_back
    return None
