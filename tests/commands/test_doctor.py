"""`sched doctor` as a program, where traps have really been laid."""

import json
import sys
import venv
from pathlib import Path

import pytest

from tests.programs.conftest import Start
from tests.programs.launching import Mpi, Outcome

from .conftest import COMMAND, Command


def findings(end: Outcome) -> list[dict[str, object]]:
    return json.loads(end.out)["findings"]


@pytest.mark.parametrize("device", ["host", pytest.param("auto", marks=pytest.mark.sycl)])
def test_a_machine_in_good_order_ends_with_status_0(command: Command, device: str):
    end = command("doctor", "--device", device)
    assert end.status == 0, end
    assert end.out.splitlines()[-1].startswith("all is well"), end


@pytest.mark.mpi_program
def test_ranks_in_good_order_end_with_status_0(command: Command, mpi: Mpi):
    end = command("doctor", "--device", "host", mpi=mpi, ranks=2)
    assert end.status == 0, end
    assert end.out.count(": 2 tiles on the host (NumPy): asked for, in 2 ranks") == 1, end


@pytest.mark.sycl
@pytest.mark.parametrize(
    ("variable", "value", "status"),
    [
        ("ONEAPI_DEVICE_SELECTOR", "opencl:cpu:0", 2),
        ("ONEAPI_DEVICE_SELECTOR", "!*:cpu", 2),
        ("OCL_ICD_FILENAMES", "/nowhere", 2),
        ("OCL_ICD_VENDORS", "/nowhere", 2),
        ("ZE_AFFINITY_MASK", "0.0", 0),  # there is no GPU here that it could hide
        ("OMP_NUM_THREADS", "6400", 0),
    ],
)
def test_a_variable_that_hurts_is_named_first(command: Command, variable: str, value: str, status: int):
    end = command("doctor", "--json", **{variable: value})
    assert findings(end)[0]["seen"] == f"{variable}={value!r}", end
    assert end.status == status, end


@pytest.mark.sycl
def test_what_a_variable_hides_has_been_looked_for(command: Command):
    end = command("doctor", ONEAPI_DEVICE_SELECTOR="opencl:cpu:0")
    assert "Without it there is opencl:cpu:0" in end.out, end
    assert "export ONEAPI_DEVICE_SELECTOR='opencl:cpu'" in end.out, end


def test_a_tmpdir_that_is_missing(command: Command, tmp_path: Path):
    end = command("doctor", "--device", "host", "--json", TMPDIR=str(tmp_path / "gone"))
    assert findings(end)[0]["seen"] == f"TMPDIR={str(tmp_path / 'gone')!r}", end
    assert end.status == 0, end


def test_a_long_tmpdir(command: Command, tmp_path: Path):
    deep = tmp_path / ("x" * 80)
    deep.mkdir()
    end = command("doctor", "--device", "host", "--json", TMPDIR=str(deep))
    assert findings(end)[0]["seen"] == f"TMPDIR={str(deep)!r}", end


def test_a_library_that_is_not_there(command: Command):
    pytest.importorskip("mpi4py")
    end = command("doctor", "--device", "host", "--json", MPI4PY_LIBMPI="/nowhere/libmpi.so")
    assert "MPI4PY_LIBMPI='/nowhere/libmpi.so'" in findings(end)[0]["seen"], end
    assert end.status == 0, end  # one process needs none


@pytest.mark.mpi_program
def test_one_mpis_launcher_and_the_others_library(command: Command, one_mpi: Mpi, other_mpi: Mpi):
    for launcher, library in ((one_mpi, other_mpi), (other_mpi, one_mpi)):
        mixed = {name: value for name, value in launcher.environment.items() if name != "MPI4PY_LIBMPI"}
        mixed |= {name: value for name, value in library.environment.items() if name == "MPI4PY_LIBMPI"}
        end = command("doctor", "--device", "host", mpi=Mpi("mixed", launcher.mpiexec, mixed), ranks=2)
        assert end.status == 2, end
        assert end.out.splitlines()[0].startswith("error: "), end
        assert " has started this process, and mpi4py uses " in end.out.splitlines()[0], end
        assert end.out.count("type -a mpiexec") == 1, end


@pytest.mark.mpi_program
def test_the_first_mpiexec_on_path_is_compared(command: Command, other_mpi: Mpi):
    path = f"{Path(other_mpi.mpiexec).parent}:/usr/bin:/bin"
    end = command("doctor", "--device", "host", "--json", PATH=path)
    assert findings(end)[0]["seen"].startswith(f"{other_mpi.mpiexec} is that of Open MPI"), end


@pytest.mark.mpi_program
def test_ranks_whose_variables_a_wrapper_has_removed(command: Command, one_mpi: Mpi, tmp_path: Path):
    gone = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    wrapper = tmp_path / "mpiexec"
    unset = " ".join(f"-u {name}" for name in gone)
    wrapper.write_text(f'#!/bin/sh\nexec {one_mpi.mpiexec} "$1" "$2" env {unset} "$3" "$4" "$5" "$6" "$7"\n')
    wrapper.chmod(0o755)
    end = command("doctor", "--device", "host", mpi=Mpi("wrapped", str(wrapper), {}), ranks=2)
    assert end.status == 2, end
    assert end.out.count("none of its variables (PALS_RANKID, PMI_RANK, ...) is set") == 2, end


def test_a_launcher_that_speaks_of_ranks_which_mpi_does_not_know(command: Command, one_mpi: Mpi):
    # As under an srun without the right --mpi: each of its processes would run the whole job.
    step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "12"}
    end = command("doctor", "--device", "host", **step)
    assert end.status == 2, end
    assert end.out.startswith("error: the ranks cannot meet\n    Slurm started 12 ranks, but MPI"), end


@pytest.mark.mpi_program
def test_what_all_ranks_find_is_said_once(command: Command, mpi: Mpi):
    end = command("doctor", "--device", "host", mpi=mpi, ranks=2, OMP_NUM_THREADS="6400")
    assert end.status == 0, end
    assert end.out.startswith("warning: OMP_NUM_THREADS='6400' [all 2 ranks]\n"), end
    assert end.out.count("OMP_NUM_THREADS='6400'") == 1, end


@pytest.mark.mpi_program
def test_an_mpi_without_thread_support(command: Command, one_mpi: Mpi):
    end = command("doctor", "--device", "host", mpi=one_mpi, ranks=2, THREADS="single")
    assert end.status == 2, end
    assert "started without thread support" in end.out, end


@pytest.mark.mpi_program
@pytest.mark.sycl
def test_what_keeps_a_run_from_beginning_is_an_error(command: Command, one_mpi: Mpi):
    end = command("doctor", mpi=one_mpi, ranks=3, TILES="2")
    assert end.status == 2, end
    assert end.out.startswith("error: a run cannot begin"), end
    assert end.out.count("3 ranks on this node, but only 2 tiles are visible") == 1, end


@pytest.mark.mpi_program
@pytest.mark.sycl
def test_every_tile_is_tried(command: Command, one_mpi: Mpi):
    end = command("doctor", mpi=one_mpi, ranks=2, TILES="4")
    assert end.status == 0, end
    assert end.out.splitlines()[-1].startswith("all is well (1 note): 4 tiles on Level Zero"), end


def test_a_trial_that_dies_is_told_of(command: Command):
    end = command("doctor", "--device", "host", TRIAL="die")
    assert end.status != 0, end
    assert end.err.startswith("sched doctor: this process on "), end
    assert "was killed in the trial run, so a job would not run" in end.err, end


@pytest.mark.mpi_program
def test_a_rank_that_dies_in_the_trial_is_told_of(command: Command, mpi: Mpi):
    end = command("doctor", "--device", "host", mpi=mpi, ranks=2, TRIAL="die")
    assert end.status != 0, end
    assert (
        end.err.count("was killed in the trial run, by its own fault or because another rank has died") == 1
    ), end


@pytest.mark.mpi_program
def test_an_mpi_that_never_comes_up_is_given_up(command: Command, one_mpi: Mpi, tmp_path: Path):
    # The second rank never starts MPI, and the first waits for it.
    rank = tmp_path / "rank.sh"
    rank.write_text('#!/bin/sh\n[ "$PMI_RANK" = 0 ] && exec "$@"\nexec sleep 600\n')
    rank.chmod(0o755)
    wrapper = tmp_path / "mpiexec"
    wrapper.write_text(f'#!/bin/sh\nn=$2; shift 2\nexec {one_mpi.mpiexec} -n "$n" {rank} "$@"\n')
    wrapper.chmod(0o755)
    end = command("doctor", "--device", "host", mpi=Mpi("half", str(wrapper), {}), ranks=2, LIMIT="2")
    assert end.status != 0, end
    assert "it has not come to an end within 2 s, and is killed" in end.err, end


@pytest.mark.skipif(sys.version_info < (3, 11), reason="-P came with Python 3.11")
def test_a_sched_py_in_this_directory(start: Start, tmp_path: Path):
    (tmp_path / "sched.py").write_text("raise SystemExit('the wrong one')\n")
    end = start("-P", COMMAND, "doctor", "--device", "host", "--json", module=None).end()
    (seen,) = [f for f in findings(end) if "sched.py" in f["seen"]]
    assert seen["seen"].endswith(f"`import sched` finds {tmp_path / 'sched.py'}"), end
    assert end.status == 0, end


def test_a_python_with_nothing_installed(command: Command, tmp_path: Path):
    venv.create(tmp_path / "bare", symlinks=True)
    run = tmp_path / "run"
    run.write_text(f'#!/bin/sh\nshift 3\nexec {tmp_path}/bare/bin/python "$@"\n')
    run.chmod(0o755)
    end = command("doctor", mpi=Mpi("none", str(run), {}))
    lines = [line for line in end.out.splitlines() if line.startswith(("error", "warning"))]
    assert lines[:2] == ["error: NumPy is not installed", "error: cloudpickle is not installed"], end
    assert "warning: mpi4py is not installed" in lines, end
    assert end.status == 2, end
