"""The commands that are no job: each module has `arguments(parser)` and `main(options)`."""
