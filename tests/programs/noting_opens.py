"""`python noting_opens.py run job.py`: sched, and each rank writes to opened-RANK what Python has opened."""

import os
import sys
from pathlib import Path

opened: list[str] = []


def note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        opened.append(str(arguments[0]))


sys.addaudithook(note)
status = 1
try:
    from sched.cli import main

    status = main()
finally:
    rank = os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK"))
    Path(f"opened-{rank}").write_text("\n".join(opened))
    sys.exit(status)
