"""Times as people write them, and as batch systems read them without doubt."""

from __future__ import annotations

import re

_UNITS = re.compile(r"(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,7})s)?", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,5}):)?(\d{1,6}):(\d{2})", re.ASCII)


def seconds(text: str) -> int:
    """Read a walltime: "30:00" is thirty minutes, as for PBS; "1:30:00", "90m", "2h", "1h30m", "600s".

    Returns:
        The time in seconds.

    Raises:
        ValueError: It is none of these, or a bare number; the message, to be put after what was read, says
            what to write.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        number = int(text)
        raise ValueError(
            f"may mean minutes or seconds: write {number}m or {number}:00 for minutes, {number}s for seconds"
        )
    if clock_form := _CLOCK.fullmatch(text):
        hours, minutes, rest = (int(part or 0) for part in clock_form.groups())
        if rest < 60 and (clock_form[1] is None or minutes < 60):
            return hours * 3600 + minutes * 60 + rest
    elif text and (units := _UNITS.fullmatch(text)):
        hours, minutes, rest = (int(part or 0) for part in units.groups())
        return hours * 3600 + minutes * 60 + rest
    raise ValueError(
        "is no time: write minutes and seconds (30:00), hours, minutes and seconds (1:30:00), or 90m, 2h, "
        "1h30m"
    )


def clock(time: int) -> str:
    """Return seconds as PBS, Slurm and people read them alike: "00:30:00"."""
    return f"{time // 3600:02}:{time // 60 % 60:02}:{time % 60:02}"
