"""What can be wrong with a machine, its variables and its MPI, found before a job meets it.

In two steps that know nothing of each other. `look` gathers *facts*, which are plain values; whatever may end
or hang a process (device drivers, an MPI library) is asked by a child of its own, `probe`. The *checks*
(`software`, `devices`, `mpi`, `machine`) are functions of the facts, each of one trap, so that every trap can
be tested without the machine that has it. They open nothing, but for files that a variable names.
"""
