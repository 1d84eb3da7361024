"""Starting ranks well: which rank this is, which tile it takes, what must be set before anything is imported.

Every function here is pure: an environment or a list of facts in, a number, a dict or a sentence out. Nothing
reads `os.environ`, queries a device or imports the scheduler, and only `machines.load` reads a file; whoever
calls does that, once and in the right order:

1. `ranks.find`, `cores.to_deal` and `environment.defaults`, before NumPy, dpctl or MPI is imported;
2. `masks.no_level_zero`, if the first look at the devices finds none;
3. `environment.mixed` before MPI starts, `environment.clashes` after;
4. `binding.seated` and `binding.choose`, when the ranks have told each other where they are; and
   `binding.check`, of what they took. No device is opened before that;
5. `cores.beside`, for the tiles that it then has.

`mpiexec` is for `sched run -n`, before there are ranks. What writes batch scripts begins with `request` and
`script`, and with `machines`, which are data.
"""
