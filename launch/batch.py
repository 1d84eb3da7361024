"""What a batch system must be able to say for itself: the modules `pbs` and `slurm` do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from launch.machines import Machine
    from launch.request import Request


class Batch(Protocol):
    """A batch system; a module of this package is one.

    Attributes:
        NAME: for sentences.
        SUBMIT: the command that takes a script on its standard input.
        QUEUES: what a person types to see the queues, and
        MINE: to see their own jobs; both in backquotes.
        JOB: what its ids look like, as a regular expression.
        MARK: with what a line begins that it reads itself.
        DIRECTORY: the variable with the directory of the submission.
        ARRAY: the variable with the number of an array's element.
        HOSTS: shell commands that print the job's hosts, a line each.
        ROOT: whether it takes jobs of root.
        AGAIN: the shell command that submits the running script again, with $stalls; empty: none is known.
        OVERRIDING: variables that count for more, for `SUBMIT`, than these directives of the script.
        ASK: the command, without the id, that asks for a job.
    """

    NAME: str
    SUBMIT: str
    QUEUES: str
    MINE: str
    JOB: str
    MARK: str
    DIRECTORY: str
    ARRAY: str
    HOSTS: str
    ROOT: bool
    AGAIN: str
    OVERRIDING: Mapping[str, str]
    ASK: tuple[str, ...]

    def directives(self, request: Request, machine: Machine) -> list[str]:
        """Return the lines that it reads, without `MARK`, of a request that is complete."""
        ...

    def refused(self, message: str, code: int) -> str | None:
        """Return what to do when it has refused a script with this message and exit code; None if unknown."""
        ...

    def job_id(self, printed: str) -> str | None:
        """Return the id of a job from what `SUBMIT` has printed; None if there is none."""
        ...

    def unfit(self, request: Request, code: int, printed: str, message: str) -> str | None:
        """Return why no job should come after the one that is asked for; None if one may.

        Args:
            request: with an `after` that has no fault.
            code: with which `ASK` ended.
            printed: its answer.
            message: its stderr.
        """
        ...
