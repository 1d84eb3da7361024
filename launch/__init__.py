"""Starting ranks well: which rank this is, which tile it takes, what must be set before anything is imported.

Every function here is pure: an environment or a list of facts in, a number, a dict or a sentence out. Nothing
reads `os.environ`, queries a device or imports the scheduler; whoever calls does that, once and in the right
order:

1. `ranks.find` and `environment.defaults`, before NumPy, dpctl or MPI is imported;
2. `binding.choose` (or `binding.no_level_zero`), after the first look at the devices;
3. `environment.clashes` and `binding.check`, when MPI is up and the ranks can compare notes.
"""
