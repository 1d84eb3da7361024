"""All checks of one process, and what all ranks have found, as text."""

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Sequence

from sched.doctor import devices, machine, mpi, software
from sched.doctor.facts import Check, Facts, Finding, Severity
from sched.siblings import cores

_ORDER = list(Severity)


def find(facts: Facts) -> list[Finding]:
    """Make every check; the worst findings come first, and causes before what comes of them."""
    found = [*_run(software.CHECKS, facts), *_run(mpi.CHECKS, facts)]
    if facts.device != "host":
        of_devices = _run(devices.CHECKS, facts)
        explained = any(finding.severity is Severity.ERROR for finding in (*of_devices, *found))
        found += of_devices
        if not facts.usable and not explained and "devices" in facts.sycl.answers:
            found += _run((devices.nothing,), facts)
    found += [*_run(machine.CHECKS, facts), *_run(software.LATE, facts)]
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))


def _run(checks: Sequence[Check], facts: Facts) -> list[Finding]:
    found = []
    for check in checks:
        try:
            finding = check(facts)
        except Exception as error:  # a check that is wrong must not hide what the others say
            finding = Finding(
                Severity.WARNING,
                f"the check {check.__name__!r} has failed: {type(error).__name__}: {error}",
                "What it looks for may be there.",
                "please report it",
            )
        if finding is not None:
            found.append(finding)
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Shared:
    """A finding, and the ranks that have it; none without a launcher."""

    finding: Finding
    ranks: tuple[int, ...] = ()

    def as_dict(self) -> dict[str, object]:
        known = dataclasses.asdict(self.finding)
        return {**known, "severity": self.finding.severity.value, "ranks": list(self.ranks)}


def alone(found: Iterable[Finding]) -> list[Shared]:
    """Take what was found without saying by whom."""
    return ordered([Shared(finding) for finding in found])


def merge(found: Sequence[Sequence[Finding]]) -> list[Shared]:
    """Put together what the ranks have found, by rank: equal findings are one."""
    by_finding: dict[Finding, list[int]] = {}
    for rank, findings in enumerate(found):
        for finding in findings:
            by_finding.setdefault(finding, []).append(rank)
    return ordered([Shared(finding, tuple(ranks)) for finding, ranks in by_finding.items()])


def ordered(shared: Sequence[Shared]) -> list[Shared]:
    """Put the worst first, and leave those that are as bad as they are."""
    return sorted(shared, key=lambda each: _ORDER.index(each.finding.severity))


def stops(shared: Iterable[Shared]) -> bool:
    """Tell whether a job would not run."""
    return any(each.finding.severity is Severity.ERROR for each in shared)


def may_start_mpi(facts: Facts) -> bool:
    """Tell whether the ranks can try to meet: MPI is there, and is the launcher's."""
    wrong = _run(mpi.CHECKS, facts)
    return bool(facts.mpi.text("library")) and not stops(alone(wrong))


def show(shared: Shared, ranks: int = 1) -> str:
    """Write a finding for people, in at most three lines; `ranks` is how many there are in all."""
    finding = shared.finding
    lines = [f"{finding.severity.value}: {finding.seen}{_whose(shared.ranks, ranks)}", finding.why]
    if finding.remedy:
        lines.append(f"-> {finding.remedy}")
    return "\n    ".join(lines)


def summary(shared: Sequence[Shared], begun: str) -> str:
    """Say in a line whether a job would run; `begun` is what a run has said when it began."""
    counts = Counter(each.finding.severity for each in shared)
    amounts = [
        f"{n} {severity.value}{'s' if n > 1 else ''}" for severity in Severity if (n := counts[severity])
    ]
    if stops(shared):
        return f"{', '.join(amounts)}: a job would not run"
    shown = f" ({', '.join(amounts)})" if amounts else ""
    well = "a job would run" if counts[Severity.WARNING] else "all is well"
    return f"{well}{shown}: {begun}"


def here() -> str:
    """Name this node."""
    return os.uname().nodename


def _whose(ranks: Sequence[int], of: int) -> str:
    if not ranks or of == 1:
        return ""
    if len(ranks) == of:
        return f" [all {of} ranks]"
    listed = cores.show(ranks)
    if len(listed) > 60:
        listed = f"{listed[:50].rpartition(',')[0]}, ... {len(ranks)} in all"
    return f" [rank{'s' if len(ranks) > 1 else ''} {listed}]"
