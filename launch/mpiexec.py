"""The mpiexec for `sched run -n`: whose it is, whether it fits mpi4py's library, and what it should be told.

An mpiexec and a library of two different MPIs start twelve processes that are each rank 0 of 1. So both are
asked what they are, before anything is started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# What they say of themselves: `mpiexec --version` or MPI_Get_library_version.
_SIGNS = (
    ("Open MPI", ("Open MPI", "OpenRTE", "PRRTE")),
    ("Intel MPI", ("Intel(R) MPI",)),
    ("MPICH", ("MPICH", "HYDRA", "MVAPICH")),
)


def owner(text: str) -> str | None:
    """Tell by what an mpiexec or a library says whose it is: "MPICH", "Intel MPI", "Open MPI", or None."""
    return next((name for name, signs in _SIGNS if any(sign in text for sign in signs)), None)


def fits(version: str, library: str) -> bool:
    """Tell whether an mpiexec and a library may belong together.

    Intel MPI is an MPICH, and each starts the other's ranks. An mpiexec that is nobody's in particular (a
    cluster's own, such as PALS) starts those of the library it was installed for, which is any but Open MPI's
    as far as is known.

    Args:
        version: what `mpiexec --version` says.
        library: what the library says.
    """
    return (owner(version) == "Open MPI") == (owner(library) == "Open MPI")


def environment(
    env: Mapping[str, str], version: str, *, ranks: int, cores: int, root: bool
) -> dict[str, str]:
    """Work out the variables with which an mpiexec starts ranks on one machine as it should.

    Args:
        env: the environment so far; what is set there is left alone.
        version: what `mpiexec --version` says.
        ranks: how many are to be started.
        cores: how many there are for them.
        root: the user is root, as in a container.

    Returns:
        Only what is to be added.
    """
    if owner(version) != "Open MPI":
        return {}
    wanted = {
        # More ranks than cores are an ordinary thing here; the first name is Open MPI 5's, the second 4's.
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        # It would bind two ranks to a core each, of eight.
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
    }
    if root:
        wanted |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if ranks > cores:
        wanted["OMPI_MCA_mpi_yield_when_idle"] = "1"
    return {name: value for name, value in wanted.items() if name not in env}


def without_count(arguments: Sequence[str]) -> list[str]:
    """Return the options of `sched run` without the number of ranks, in whatever form it was given.

    Args:
        arguments: the options, without the job and what follows it.
    """
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, _ = argument.partition("=")
        if argument == "-n" or (len(name) > 2 and "--ranks".startswith(name)):
            if not equals:
                next(rest, None)
        elif not argument.startswith("-n"):
            kept.append(argument)
    return kept
