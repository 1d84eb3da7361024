"""Follow a batch job until it has ended: `sched submit --wait`.

PBS is asked now and then, and what it does not answer is asked again: a server that is down for some minutes
is no reason to lose sight of a job. The job itself is never touched.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from launch import advice as advice
else:
    from sched.siblings import load

    advice = load("advice")

PATIENCE = 360
"""How many times in a row PBS may not answer: with ten seconds between, for an hour."""

_LONGEST_ANSWER = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command of PBS's answered."""

    code: int
    out: str
    err: str


class Output:
    """A file that grows, copied as it does.

    Args:
        path: the file, which need not be there yet.
        to: where it is copied to.
    """

    def __init__(self, path: Path, to: BinaryIO) -> None:
        self.path = path
        self._to = to
        self._read = 0
        self._last = b""

    def copy(self) -> None:
        """Copy what has come since."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read)
                while chunk := file.read(1 << 20):
                    self._read += len(chunk)
                    self._last = (self._last + chunk)[-(1 << 16) :]
                    self._to.write(chunk)
        except OSError:  # not there yet, or its file system is away for a moment
            return
        self._to.flush()

    @property
    def last(self) -> str:
        """The end of it."""
        return self._last.decode("utf-8", "replace")


def ask(*words: str) -> Answer:
    """Run a command of PBS's; one that does not end, or cannot be started, has the code -1."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=_LONGEST_ANSWER, check=False
        )
    except subprocess.TimeoutExpired:
        return Answer(-1, "", f"{words[0]} did not answer in {_LONGEST_ANSWER:.0f} s")
    except OSError as error:
        return Answer(-1, "", f"{words[0]} cannot be started: {error.strerror}")
    return Answer(done.returncode, done.stdout, done.stderr.strip())


def look_up(job: str) -> Answer:
    """Ask for a job, also for one that has ended.

    Not with -x at once: where no history is kept, PBS refuses that for jobs that run, too.
    """
    answer = ask("qstat", "-f", "-w", job)
    return ask("qstat", "-x", "-f", "-w", job) if answer.code == advice.FINISHED else answer


def follow(
    job: str,
    output: Output,
    *,
    pause: Callable[[], None],
    say: Callable[[str], None],
    asked: Callable[[str], Answer] = look_up,
) -> int:
    """Say what becomes of a job and copy its output, until it has ended.

    Args:
        job: its id.
        output: where PBS writes what it prints.
        pause: waits until it is time to ask again.
        say: shows a sentence.
        asked: asks PBS for a job.

    Returns:
        The job's exit status, as `advice.ended`; 1 if it is not known.
    """
    said = ""
    ran = False
    missed = 0
    while True:
        answer = asked(job)
        output.copy()
        if answer.code == advice.UNKNOWN:
            return _vanished(job, output, ran, say)
        facts = _facts(answer, job)
        if facts is None:
            missed += 1
            if missed == 1:
                say(f"PBS does not answer ({answer.err or f'qstat ended with {answer.code}'}); asking again")
            elif missed > PATIENCE:
                say(f"PBS does not answer any more: {answer.err}. Job {job} may still run: ask `qstat {job}`")
                return 1
        else:
            if missed:
                say("PBS answers again")
            missed = 0
            ran = ran or facts.get("job_state") in ("R", "E", "B")
            if facts.get("job_state") == "F":
                return _ended(job, facts, output, say, asked)
            if said != (said := advice.state(facts)):
                say(f"job {job} {said}")
        pause()


def _facts(answer: Answer, job: str) -> dict[str, str] | None:
    """Return what PBS told of a job, None if nothing."""
    if answer.code != 0:
        return None
    found = advice.jobs(answer.out)
    return found.get(job) or next(iter(found.values()), None)


def _vanished(job: str, output: Output, ran: bool, say: Callable[[str], None]) -> int:
    """Say what is known of a job that PBS does not know any more."""
    if ran or output.path.exists():
        say(
            f"job {job} has ended, and PBS keeps no history here, so its exit status is not known: "
            f"see {output.path}"
        )
    else:
        say(
            f"PBS has dropped job {job} without running it: its nodes or its walltime are outside of what "
            "the queue behind takes, or the job it was to come after is not there; or it was deleted"
        )
    return 1


def _ended(
    job: str,
    facts: dict[str, str],
    output: Output,
    say: Callable[[str], None],
    asked: Callable[[str], Answer],
) -> int:
    status, words = advice.ended(facts)
    if "[]" in job:  # the array's own status is 0, whatever its elements'
        return _array_ended(job, status, words, say)
    say(f"job {job} {words}")
    node = advice.lost_node(output.last) if status else None
    if node:
        say(f"node {node} failed under it: with --spares 1 another one takes its place")
    return status


def _array_ended(job: str, status: int, words: str, say: Callable[[str], None]) -> int:
    """Say how the elements of an array ended; return the largest of their exit statuses."""
    elements = advice.jobs(ask("qstat", "-x", "-t", "-f", "-w", job).out)
    elements.pop(job, None)
    if not elements:
        say(f"job {job} {words}; how its elements ended, PBS does not tell")
        return status
    ends = {element: advice.ended(facts) for element, facts in elements.items()}
    for element, (code, how) in ends.items():
        if code:
            say(f"job {element} {how}")
    failed = sum(1 for code, _ in ends.values() if code)
    say(f"job {job} has ended: {len(ends)} elements, {failed} of them not well")
    return max(code for code, _ in ends.values())


def to_stdout(path: Path) -> Output:
    """Return the output of a job, to be copied to this process's own."""
    return Output(path, sys.stdout.buffer)
