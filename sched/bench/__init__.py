"""Benchmarks that come with `sched`. Each is a job, and a user of the public names like any other."""
