"""What to set before NumPy, dpctl or MPI is imported, and how to tell that two MPIs are mixed.

The rules: a variable that the user has set is left alone, and no mask is ever set: it would have to come
before the process starts, and a second one hides every device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launch.ranks import World

_OMP = "OMP_NUM_THREADS"
_BLAS_THREADS = ("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def defaults(env: Mapping[str, str], *, device: str, cores: int, local_size: int) -> dict[str, str]:
    """Work out the variables to add to the environment of a rank.

    Args:
        env: the environment so far.
        device: "level_zero", "cpu" (the OpenCL CPU device) or "host" (NumPy); or "auto": what has to be
            set before it can be known which of them there is.
        cores: cores that `local_size` ranks have to share. A rank that its launcher has bound to cores of its
            own has already got its share: pass the number it is bound to, and 1.
        local_size: ranks that share them.

    Returns:
        Only what is to be added.
    """
    share = max(1, cores // max(1, local_size))
    from_pbs = _omp_is_from_pbs(env, share)
    # MKL and OpenBLAS put their own variables above OMP_NUM_THREADS, so a user's value of that is repeated.
    blas_threads = (None if from_pbs else _users_threads(env)) or str(share)
    wanted = {_OMP: str(share), **dict.fromkeys(_BLAS_THREADS, blas_threads)}
    if device in ("cpu", "auto"):
        # The device runs on TBB, which does not read OMP_NUM_THREADS; this is what bounds it exactly.
        wanted["DPCPP_CPU_NUM_CUS"] = str(share)
    if device == "cpu":
        # The device compiles each family of kernels at first use, 0.3 to 0.6 s with the GIL held, in each of
        # twelve ranks; with the cache on disk it is 5 to 25 ms from the second time on. Not so for the GPUs:
        # there, thousands of ranks would write to one home directory.
        wanted["SYCL_CACHE_PERSISTENT"] = "1"
    if device in ("level_zero", "auto") and not env.get("ZE_AFFINITY_MASK"):
        # Tiles have to be root devices. FLAT is the driver's own default on cards with tiles, but not the
        # specification's, which other readers of the variable may go by. Under a mask it is left alone: the
        # mask was written for what its author saw, and in FLAT mode a 'card.tile' entry hides every GPU.
        wanted["ZE_FLAT_DEVICE_HIERARCHY"] = "FLAT"
        # ZE_ENABLE_PCI_ID_DEVICE_ORDER is not set: tiles of discrete cards come in PCI order anyway, and
        # where there is an integrated GPU too it would become tile 0.
        if env.get("I_MPI_OFFLOAD", "0") != "0":
            # Intel MPI would deal out the GPUs as well, and hide the others from each rank: a mask, after the
            # devices have been listed. Without it MPI still takes device memory.
            wanted["I_MPI_OFFLOAD_PIN"] = "0"
    if from_pbs:
        env = {name: value for name, value in env.items() if name != _OMP}
    return {name: value for name, value in wanted.items() if name not in env}


def mixed(world: World, library: str) -> str | None:
    """Say whether the launcher is one MPI's and the library another's, before MPI starts.

    Args:
        world: the layout by the launcher's variables.
        library: the library's description of itself, which it gives before it is initialised.

    Returns:
        A sentence; None if they fit, or the launcher is nobody's in particular.
    """
    ours = "Open MPI" in library
    if world.launcher not in ("Open MPI", "Hydra") or (world.launcher == "Open MPI") == ours:
        return None
    owner = "Open MPI" if world.launcher == "Open MPI" else "MPICH or Intel MPI"
    return (
        f"this mpiexec belongs to {owner}, and mpi4py uses {library}: use the mpiexec that came with that "
        "library, or name the other library to mpi4py in MPI4PY_LIBMPI"
    )


def clashes(world: World, mpi_size: int) -> str | None:
    """Say whether the launcher is one MPI's and mpi4py another's: twelve processes, each of them rank 0 of 1.

    Args:
        world: the layout by the launcher.
        mpi_size: the size of MPI's world.

    Returns:
        The sentence to show, None if the two can agree.
    """
    # Some launchers give no size, but a rank knows that the ranks before it exist.
    started = max(
        world.size or 1,
        world.local_size or 1,
        (world.rank or 0) + 1,
        (world.local_rank or 0) + 1,
    )
    if mpi_size != 1 or started == 1:
        return None
    many = f"{started}" if world.size else f"at least {started}"
    return (
        f"{world.launcher} started {many} ranks, but MPI in this process knows only itself, so each of them "
        f"would run the whole job: mpi4py was built for another MPI than this launcher's. Use the mpiexec "
        f"that belongs to it (on Aurora, the frameworks module and no mpi4py of your own; with srun, the "
        f"right --mpi), or build mpi4py with this MPI's mpicc."
    )


def _omp_is_from_pbs(env: Mapping[str, str], share: int) -> bool:
    """Tell PBS's value from the user's.

    PBS sets OMP_NUM_THREADS to NCPUS, all the hardware threads of the node: 208 for each of twelve ranks. A
    smaller value than the share is kept whoever set it; it does no harm.
    """
    value = env.get(_OMP)
    if "PBS_JOBID" not in env or value is None or value != env.get("NCPUS"):
        return False
    return value.isdigit() and int(value) > share


def _users_threads(env: Mapping[str, str]) -> str | None:
    """Read the user's OMP_NUM_THREADS; the first number counts if there is one per nesting level."""
    first = env.get(_OMP, "").partition(",")[0].strip()
    return first if first.isdigit() and int(first) > 0 else None
