"""Why there is no value: exceptions taken apart on the rank where they were raised, and made again here."""

import contextlib
import pickle
import traceback
from typing import Any

import cloudpickle

from sched.errors import DependencyError, RemoteError, RemoteTraceback
from sched.runtime.messages import Fault


def describe(error: BaseException, task_name: str, where: str) -> Fault:
    """Make a fault of an exception. It never fails, whatever the exception does when it is looked at."""
    kind = type(error)
    type_name = (
        kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    )
    try:
        message = str(error)
    except BaseException as broken:
        message = f"<its str() raised {type(broken).__name__}>"
    try:
        text = "".join(traceback.format_exception(kind, error, error.__traceback__))
    except BaseException:
        text = f"{type_name}: {message}\n"
    return Fault(task_name, type_name, message, f"### {where}\n{text.rstrip()}", _pickled(error))


def _pickled(error: BaseException) -> bytes | None:
    """Pickle an exception so that the same type is made again, or not at all.

    By itself an exception is made again by calling its type with `args`, which fails for types whose
    `__init__` takes something else. So there is a second way, by parts, which does not call `__init__`.
    """
    kind = type(error)
    try:
        for whole in (error, (kind, error.args, error.__dict__)):
            with contextlib.suppress(Exception):
                pickled: bytes = cloudpickle.dumps(whole, protocol=5)
                if type(_unpickled(pickled)) is kind:
                    return pickled
    except BaseException:  # the user's own code runs here, and this one does not want to travel
        pass
    return None


def _unpickled(pickled: bytes) -> Any:
    made = pickle.loads(pickled)
    if type(made) is not tuple:
        return made
    kind, args, attributes = made
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


def revive(fault: Fault) -> BaseException:
    """Make an exception of a fault: the original type if it can be, with the remote story as its cause."""
    error: BaseException | None = None
    if fault.exception is not None:
        try:
            error = _unpickled(fault.exception)
        except Exception:
            error = None
    if not isinstance(error, BaseException):
        error = RemoteError(fault.type_name, fault.message)
    error.__cause__ = RemoteTraceback(fault.story)
    return error


def dependent(task_name: str, fault: Fault | None, cause_name: str) -> DependencyError:
    """Make the exception of a task that was not run because `cause_name` has no value."""
    if fault is None:
        return DependencyError(
            f"{task_name} was not run: it takes the value of {cause_name}, which was cancelled"
        )
    error = DependencyError(
        f"{task_name} was not run: it takes the value of {cause_name}, which failed with "
        f"{fault.type_name}: {fault.message}"
    )
    error.__cause__ = revive(fault)
    return error
