"""The exceptions, each of which says whose move it is.

*Yours, in the call you just made*: `RequestError`, `UsageError`. *Yours, in a task*: whatever the task
raised, with a `RemoteTraceback` as its cause; `RemoteError` where the original cannot travel; and
`DependencyError` for the tasks that needed it. *Whoever set up the machine*: `DeviceError`,
`LaunchError`. *Ours*: `ProtocolError`.
"""


class SchedError(Exception):
    """Any error that this package raises itself."""


class RequestError(SchedError, ValueError):
    """What was asked for can never be had; the message has the numbers. Ask for less, or something else."""


class UsageError(SchedError, RuntimeError):
    """The call cannot be made here, or not any more; the message says where it can."""


class DeviceError(SchedError, RuntimeError):
    """There is no such device, or it cannot be used; the message says what to install or set."""


class LaunchError(SchedError, RuntimeError):
    """The run was started in a way that cannot work; the message says how to start it."""


class RemoteTraceback(SchedError):
    """The traceback, as text, of an exception that was raised on a tile. Found as `__cause__`."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class RemoteError(SchedError):
    """Stands in for an exception that could not be pickled, or not be unpickled here.

    Attributes:
        type_name: qualified name of the original type.
        message: `str()` of the original.
    """

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(type_name, message)
        self.type_name = type_name
        self.message = message

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}"


class DependencyError(SchedError):
    """The task was not run, because a task whose value it takes has none. Found as `__cause__`: why."""


class ProtocolError(SchedError, AssertionError):
    """A bug in sched. Please report it, with the traceback."""
