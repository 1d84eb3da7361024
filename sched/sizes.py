"""Amounts of memory as people write and read them: "2 GiB" and 2147483648."""

import operator
import re
from fractions import Fraction

from sched.errors import RequestError

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS |= {_letter: 1000**_power, f"{_letter}b": 1000**_power, f"{_letter}ib": 1024**_power}
_SIZE = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]*)", re.ASCII)


def parse_size(size: int | str, name: str = "size") -> int:
    """Return an amount of memory in bytes.

    Args:
        size: a number of bytes; or a number with a unit: "2 GiB", "1.5GiB", "500 MB", "500M". KiB, MiB, GiB
            and TiB are powers of 1024; K, KB, M, MB, G, GB, T and TB powers of 1000. Capitals do not matter.
        name: what it is, for the message.

    Raises:
        RequestError: It is no such amount, or a negative one.
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.strip())
        unit = _UNITS.get(match[2].lower()) if match else None
        if match and unit:
            return int(Fraction(match[1]) * unit)
    elif not isinstance(size, bool):
        try:
            number = operator.index(size)  # NumPy's integers too
        except TypeError:
            number = -1
        if number >= 0:
            return number
    raise RequestError(
        f"{name}={size!r} is no amount of memory: give a whole number of bytes from 0, or a text such as "
        "'2 GiB', '1.5 GiB' or '500 MB'"
    )


def show_size(nbytes: int) -> str:
    """Return an amount of memory for people, to three digits: "1.5 GiB"."""
    for unit, factor in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if nbytes >= factor:
            return f"{nbytes / factor:.3g} {unit}" if nbytes < 1000 * factor else f"{nbytes // factor} {unit}"
    return f"{nbytes} B"
