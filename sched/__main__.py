"""`python -m sched`: the same as the command `sched`."""

from sched.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
