"""A PBS of files: `qsub` and `qstat` on PATH that answer what a test has put down for them.

Texts and exit codes are those of OpenPBS 23.06, as seen on a server. `qdel` is there to prove that nothing
calls it.
"""

from __future__ import annotations

from pathlib import Path

QSUB = """#!/bin/bash
cat >"$FAKE/script"
printf '%s\\n' "$#" >"$FAKE/arguments"
cat "$FAKE/qsub.err" >&2 2>/dev/null
[[ -e $FAKE/qsub.code ]] && exit "$(<"$FAKE/qsub.code")"
echo "$(<"$FAKE/id")"
"""

# The answers come one after the other, the last one again and again.
QSTAT = """#!/bin/bash
echo "$*" >>"$FAKE/asked"
n=$(wc -l <"$FAKE/asked")
while [[ ! -e $FAKE/qstat.$n ]]; do n=$((n - 1)); ((n > 0)) || exit 99; done
. "$FAKE/qstat.$n"
"""

QDEL = """#!/bin/bash
echo "$*" >>"$FAKE/deleted"
"""


class FakePBS:
    """What the stand-ins say, and what they were told."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self._here = folder
        self.bin.mkdir(parents=True)
        for name, text in (("qsub", QSUB), ("qstat", QSTAT), ("qdel", QDEL)):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        (folder / "id").write_text("1.vm")

    @property
    def variables(self) -> dict[str, str]:
        """What the stand-ins have to have in their environment."""
        return {"FAKE": str(self._here), "PATH": f"{self.bin}:/usr/bin:/bin"}

    def gives(self, job: str) -> None:
        """Let qsub give out this id."""
        (self._here / "id").write_text(job)

    def refuses(self, code: int, message: str) -> None:
        """Let qsub refuse."""
        (self._here / "qsub.code").write_text(str(code))
        (self._here / "qsub.err").write_text(message)

    def answers(self, *answers: str) -> None:
        """Let qstat do this, in bash, each time it is asked."""
        for number, answer in enumerate(answers, start=1):
            (self._here / f"qstat.{number}").write_text(answer)

    @property
    def script(self) -> bytes | None:
        """What came to qsub on its standard input; None if it was not called."""
        path = self._here / "script"
        return path.read_bytes() if path.exists() else None

    @property
    def arguments(self) -> int:
        """How many arguments qsub had."""
        return int((self._here / "arguments").read_text())

    @property
    def asked(self) -> list[str]:
        """What qstat was asked."""
        path = self._here / "asked"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def deleted(self) -> bool:
        """Whether qdel was called."""
        return (self._here / "deleted").exists()


def job(state: str, **facts: object) -> str:
    """Return a script in which qstat tells of job 1.vm."""
    lines = ["Job Id: 1.vm", f"    job_state = {state}", *(f"    {name} = {facts[name]}" for name in facts)]
    return "cat <<'END'\n" + "\n".join(lines) + "\n\nEND\n"


GONE = "echo 'qstat: Unknown Job Id 1.vm' >&2; exit 153"
FINISHED = (
    "echo 'qstat: 1.vm Job has finished, use -x or -H to obtain historical job information' >&2; exit 35"
)
DOWN = "echo 'Connection refused' >&2; echo 'qstat: cannot connect to server vm (errno=15010)' >&2; exit 255"
