"""What finished tasks returned, on disk, so that the next run of the same script need not run them again.

A journal is a directory. A task's *key* (`keys.py`, `sources.py`) says what was computed: two tasks with one
key do the same work. Each rank of a run appends *records*, key -> value, to a *segment* of its own
(`records.py`, `segments.py`); large values have a file each beside it (`values.py`). Nothing that has been
written is ever written again, so a run that is killed leaves whole records, and at most one that is torn.
Rank 0 holds the journal for its run (`owner.py`) and reads which keys there are (`store.py`). What
is where: `directory.py`.

Nothing is believed that its checksum does not confirm. What is lost is computed again; that is all it costs.

No run writes one yet: `sched run` has no `--journal` so far, and `sched journal` is not among the commands.
"""
