"""What the pages under `docs/` show, runs: with dpnp, on two emulated tiles."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
PAGES = sorted((CHECKOUT / "docs").glob("*.md"))
PORTING = (CHECKOUT / "docs" / "porting-from-cupy.md").read_text()

RUN = """
import doctest, sys
flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL  # dpnp's exceptions move from module to module
failed, tried = doctest.testfile(sys.argv[1], module_relative=False, optionflags=flags)
sys.exit(failed > 0 or tried == 0)
"""


@pytest.mark.sycl
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_sessions_are_true(page: Path) -> None:
    """In a process of its own: the tiles are those of the process, and chosen before there is a device."""
    env = os.environ | {"SCHED_DEVICE": "cpu", "SCHED_TILES": "2", "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-c", RUN, str(page)]
    done = subprocess.run(
        command, env=env, cwd=CHECKOUT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def sections() -> dict[str, str]:
    """Return the sections of the porting page, by the anchor of their heading."""
    found = re.split(r"^## (.*)\n", PORTING, flags=re.MULTILINE)[1:]
    anchors = [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in found[::2]]
    return dict(zip(anchors, found[1::2], strict=True))


def test_every_idiom_of_the_table_has_a_section_that_shows_both_sides() -> None:
    rows = re.findall(r"^\| .*`.* \| .* \| \[.*\]\(#(.*)\) \|$", PORTING, re.MULTILINE)
    assert len(rows) == PORTING.count("\n| ") - 1  # the heading
    for anchor in rows:
        assert "```python\n" in sections()[anchor], anchor
        assert ">>> " in sections()[anchor], anchor


def test_every_example_is_of_an_idiom_of_the_table_or_of_the_whole_program() -> None:
    for anchor, text in sections().items():
        assert f"(#{anchor})" in PORTING or ">>> " not in text, anchor


def test_its_links_lead_somewhere() -> None:
    for anchor in re.findall(r"\]\(#(.*?)\)", PORTING):
        assert anchor in sections(), anchor
