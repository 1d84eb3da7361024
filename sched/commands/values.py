"""What options take, as argparse calls it."""

import argparse


def count(text: str) -> int:
    """Return a whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def size(text: str) -> int:
    """Return an amount of memory in bytes; see `sizes.parse_size`."""
    from sched.errors import RequestError
    from sched.sizes import parse_size

    try:
        return parse_size(text)
    except RequestError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def sizes(text: str) -> list[int]:
    """Return several, of at least one byte each."""
    found = [size(part) for part in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} has a size of no bytes")
    return found


def seconds(text: str) -> float:
    """Return a number of seconds from 0."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0")
    return number
