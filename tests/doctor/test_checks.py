"""Each trap that `sched doctor` knows, from recorded facts; and what it makes of what it has found."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sched.doctor import checks, hardware, probe
from sched.doctor.facts import Device, Directory, Facts, Finding, Probed, Severity
from sched.doctor.look import ask
from sched.siblings import ranks

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

CPU = Device("opencl:cpu:0", "Intel(R) Xeon(R) CPU Max 9470C")
POCL = Device("opencl:cpu:0", "pthread-Intel(R) Xeon(R)", usm=False)
TILES = [Device(f"level_zero:gpu:{n}", "Intel(R) Data Center GPU Max 1550") for n in range(12)]
AGAIN = [Device(f"opencl:gpu:{n}", "Intel(R) Data Center GPU Max 1550") for n in range(12)]
CARDS = [f"000{domain}:{bus}:00.0" for domain in (0, 1) for bus in ("18", "42", "6c")]
VERSIONS = {
    "numpy": "2.4.6",
    "cloudpickle": "3.1.3",
    "dpctl": "0.22.1",
    "dpnp": "0.20.0",
    "mpi4py": "4.1.2",
    "intel-sycl-rt": "2026.2.0",
    "intel-opencl-rt": "2026.2.0",
}
MPICH, OPEN_MPI = "MPICH Version: 5.0.2", "Open MPI v5.0.11, package: Open MPI user@localhost Distribution"


def sycl(*devices: Device, **answers: object) -> Probed:
    """Return what a child says of devices."""
    listed = [[device.filter, device.name, device.usm] for device in devices]
    return Probed({"devices": listed, "kernel": "", "adapter": True, **answers})


def hydra(rank: int = 0, size: int = 12) -> ranks.World:
    return ranks.World("Hydra", rank, size, rank, size)


LAPTOP = Facts(
    versions=VERSIONS,
    sycl=sycl(CPU),
    mpi=Probed({"library": MPICH}),
    mpiexec="/usr/bin/mpiexec",
    mpiexec_says="HYDRA build details: Version: 5.0.2",
    cores=8,
    files=(("here", "/site/sched/__init__.py"),),
    own="/site/sched/__init__.py",
)
AURORA = replace(
    LAPTOP,
    env={"ZE_FLAT_DEVICE_HIERARCHY": "FLAT", "PBS_JOBID": "1.aurora-pbs-0001"},
    world=ranks.World("PALS", 0, 24, 0, 12),
    cores=8,
    bound=True,
    cards=CARDS,
    render={f"/dev/dri/renderD{128 + n}": True for n in range(6)},
    sycl=sycl(*TILES),
)


def first(facts: Facts) -> Finding:
    found = checks.find(facts)
    assert found, "nothing was found"
    return found[0]


def with_env(facts: Facts, **env: str) -> Facts:
    return replace(facts, env={**facts.env, **env})


# --- machines in good order ---


@pytest.mark.parametrize("facts", [LAPTOP, AURORA], ids=["laptop", "aurora"])
def test_a_machine_in_good_order_has_no_finding(facts):
    assert checks.find(facts) == []


def test_numpy_alone_is_enough_for_host_tiles():
    bare = Facts(
        device="host",
        versions={"numpy": "1.26.4", "cloudpickle": "3.0.0"},
        mpi=Probed({"problem": "ModuleNotFoundError: No module named 'mpi4py'", "missing": True}),
    )
    assert [finding.severity for finding in checks.find(bare)] == [WARNING]


# --- each trap, from recorded facts: what it is told by, how bad it is, and what mends it ---

NOTHING = sycl()
LOST = replace(AURORA, sycl=NOTHING)
MISSING = Probed({"problem": "ModuleNotFoundError: No module named 'mpi4py'", "missing": True})
DEEP = "/var/tmp/pbs." + "1" * 80

TRAPS = {
    "selector in dpctl's grammar": (
        replace(
            with_env(LAPTOP, ONEAPI_DEVICE_SELECTOR="opencl:cpu:0"),
            sycl=NOTHING,
            without={"ONEAPI_DEVICE_SELECTOR": [CPU]},
        ),
        (ERROR, "ONEAPI_DEVICE_SELECTOR='opencl:cpu:0'", "opencl:cpu"),
    ),
    "selector without a backend": (
        with_env(LAPTOP, ONEAPI_DEVICE_SELECTOR="gpu"),
        (WARNING, "ONEAPI_DEVICE_SELECTOR='gpu'", "export ONEAPI_DEVICE_SELECTOR"),
    ),
    "selector that excludes all": (
        replace(
            with_env(AURORA, ONEAPI_DEVICE_SELECTOR="!*:gpu"),
            sycl=NOTHING,
            without={"ONEAPI_DEVICE_SELECTOR": TILES},
        ),
        (ERROR, "ONEAPI_DEVICE_SELECTOR='!*:gpu'", "unset ONEAPI_DEVICE_SELECTOR"),
    ),
    "mask of gpu_tile_compact.sh in FLAT mode": (
        with_env(LOST, ZE_AFFINITY_MASK="3.1"),
        (ERROR, "ZE_AFFINITY_MASK='3.1'", "unset ZE_AFFINITY_MASK"),
    ),
    "mask of words": (
        with_env(LOST, ZE_AFFINITY_MASK="GPU0"),
        (ERROR, "ZE_AFFINITY_MASK='GPU0'", "unset ZE_AFFINITY_MASK"),
    ),
    "mask beyond the last card": (
        with_env(LOST, ZE_AFFINITY_MASK="11", ZE_FLAT_DEVICE_HIERARCHY="COMPOSITE"),
        (ERROR, "ZE_AFFINITY_MASK='11'", "unset ZE_AFFINITY_MASK"),
    ),
    "hierarchy against the loaded module": (
        replace(
            with_env(
                AURORA, ZE_FLAT_DEVICE_HIERARCHY="COMPOSITE", LOADEDMODULES="gcc/13:frameworks/2025.3.1"
            ),
            sycl=sycl(*TILES[:6]),
        ),
        (WARNING, "ZE_FLAT_DEVICE_HIERARCHY='COMPOSITE'", "export ZE_FLAT_DEVICE_HIERARCHY=FLAT"),
    ),
    "cards for twelve ranks": (
        replace(with_env(AURORA, ZE_FLAT_DEVICE_HIERARCHY="COMPOSITE"), sycl=sycl(*TILES[:6])),
        (WARNING, "ZE_FLAT_DEVICE_HIERARCHY='COMPOSITE'", "export ZE_FLAT_DEVICE_HIERARCHY=FLAT"),
    ),
    "hierarchy that is none": (
        with_env(AURORA, ZE_FLAT_DEVICE_HIERARCHY="flat"),
        (WARNING, "ZE_FLAT_DEVICE_HIERARCHY='flat'", "export ZE_FLAT_DEVICE_HIERARCHY=FLAT"),
    ),
    "OpenCL driver that is not there": (
        replace(with_env(LAPTOP, OCL_ICD_FILENAMES="/nowhere/libintelocl.so"), sycl=NOTHING),
        (ERROR, "OCL_ICD_FILENAMES='/nowhere/libintelocl.so'", "unset OCL_ICD_FILENAMES"),
    ),
    "OpenCL driver by a bare name": (
        replace(with_env(LAPTOP, OCL_ICD_FILENAMES="libintelocl.so"), sycl=NOTHING),
        (ERROR, "OCL_ICD_FILENAMES='libintelocl.so'", "absolute path"),
    ),
    "vendors' directory that is not there": (
        replace(with_env(LAPTOP, OCL_ICD_VENDORS="/nowhere"), sycl=NOTHING),
        (ERROR, "OCL_ICD_VENDORS='/nowhere'", "unset OCL_ICD_VENDORS"),
    ),
    "vendors' directory that is a file": (
        replace(with_env(LAPTOP, OCL_ICD_VENDORS=__file__), sycl=NOTHING),
        (ERROR, f"OCL_ICD_VENDORS={__file__!r}", "unset OCL_ICD_VENDORS"),
    ),
    "another variable that hides": (
        replace(
            with_env(LAPTOP, SYCL_CONFIG_FILE_NAME="/etc/sycl.conf"),
            sycl=NOTHING,
            without={"SYCL_CONFIG_FILE_NAME": [CPU]},
        ),
        (ERROR, "SYCL_CONFIG_FILE_NAME='/etc/sycl.conf'", "unset SYCL_CONFIG_FILE_NAME"),
    ),
    "Level Zero loader missing": (
        replace(LOST, sycl=sycl(loader="libze_loader.so.1: cannot open shared object file")),
        (ERROR, "6 GPUs", "apt install libze1"),
    ),
    "Level Zero driver missing": (
        replace(LOST, sycl=sycl(driver="libze_intel_gpu.so.1: cannot open shared object file")),
        (ERROR, "6 GPUs", "libze-intel-gpu1"),
    ),
    "Level Zero adapter missing": (
        replace(LOST, sycl=sycl(adapter=False)),
        (ERROR, "6 GPUs", "intel-cmplr-lib-ur"),
    ),
    "GPUs that may not be opened": (
        replace(LOST, render={"/dev/dri/renderD128": False}),
        (ERROR, "6 GPUs", "render"),
    ),
    "GPUs, and only the CPU device listed": (
        replace(AURORA, sycl=sycl(CPU)),
        (ERROR, "SYCL lists none of them", "sycl-ls"),
    ),
    "no device and no driver": (
        replace(LAPTOP, sycl=NOTHING, versions={n: v for n, v in VERSIONS.items() if n != "intel-opencl-rt"}),
        (ERROR, "there is no device", "pip install intel-opencl-rt"),
    ),
    "devices seen twice": (
        replace(
            with_env(AURORA, ONEAPI_DEVICE_SELECTOR="opencl:gpu;level_zero:gpu"), sycl=sycl(*AGAIN, *TILES)
        ),
        (WARNING, "ONEAPI_DEVICE_SELECTOR='opencl:gpu;level_zero:gpu'", "=level_zero:gpu"),
    ),
    "pocl alone": (replace(LAPTOP, sycl=sycl(POCL)), (ERROR, "opencl:cpu:0 (pthread", "intel-opencl-rt")),
    "pocl first": (
        replace(LAPTOP, sycl=sycl(POCL, replace(CPU, filter="opencl:cpu:1"))),
        (WARNING, "opencl:cpu:0 (pthread", "pocl-opencl-icd"),
    ),
    "pocl that kills": (
        replace(LAPTOP, sycl=replace(sycl(POCL), stage="computing", ended="was ended by SIGABRT")),
        (ERROR, "opencl:cpu:0 (pthread", "pocl-opencl-icd"),
    ),
    "a driver that kills": (
        replace(LAPTOP, sycl=Probed({}, "listing the devices", "was ended by SIGABRT")),
        (ERROR, "listing the devices was ended by SIGABRT", "ONEAPI_DEVICE_SELECTOR"),
    ),
    "dpctl that cannot be loaded": (
        replace(LAPTOP, sycl=Probed({"problem": "ImportError: libsycl.so.9", "missing": False})),
        (ERROR, "dpctl does not work: ImportError: libsycl.so.9", "import dpctl"),
    ),
    "kernels that fail": (
        replace(
            LAPTOP,
            sycl=sycl(
                CPU, on=CPU.filter, kernel="RuntimeError: UR_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE"
            ),
        ),
        (ERROR, "opencl:cpu:0 is listed, and cannot compute", "one release"),
    ),
    "dpnp missing": (
        replace(LAPTOP, sycl=Probed({"missing": True}), versions={"numpy": "2.0", "cloudpickle": "3.1"}),
        (WARNING, "dpctl and dpnp are not installed", "tilesched[sycl]"),
    ),
    "dpnp missing where it was asked for": (
        replace(
            LAPTOP,
            device="cpu",
            sycl=Probed({"missing": True}),
            versions={"numpy": "2.0", "cloudpickle": "3.1"},
        ),
        (ERROR, "dpctl and dpnp are not installed", "tilesched[sycl]"),
    ),
    "old dpctl and dpnp": (
        replace(
            LAPTOP,
            versions={**VERSIONS, "dpctl": "0.20.2", "dpnp": "0.18.1", "intel-sycl-rt": "2025.2.0"},
        ),
        (WARNING, "dpctl 0.20.2 and dpnp 0.18.1", "dpctl>=0.21"),
    ),
    "dpctl and dpnp of two releases": (
        replace(LAPTOP, versions={**VERSIONS, "dpnp": "0.19.1"}),
        (ERROR, "dpctl 0.22.1 with dpnp 0.19.1", "pip install"),
    ),
    "a runtime of another release": (
        replace(LAPTOP, versions={**VERSIONS, "intel-sycl-rt": "2025.3.3"}),
        (ERROR, "dpctl 0.22.1 with intel-sycl-rt 2025.3.3", "pip install"),
    ),
    "NumPy missing": (
        replace(LAPTOP, versions={n: v for n, v in VERSIONS.items() if n != "numpy"}),
        (ERROR, "NumPy is not installed", "pip install 'numpy>=1.26'"),
    ),
    "old NumPy": (
        replace(LAPTOP, versions={**VERSIONS, "numpy": "1.25.2"}),
        (WARNING, "NumPy 1.25.2", "pip install 'numpy>=1.26'"),
    ),
    "cloudpickle missing": (
        replace(LAPTOP, versions={n: v for n, v in VERSIONS.items() if n != "cloudpickle"}),
        (ERROR, "cloudpickle is not installed", "pip install 'cloudpickle>=3.0'"),
    ),
    "old cloudpickle": (
        replace(LAPTOP, versions={**VERSIONS, "cloudpickle": "2.2.1"}),
        (WARNING, "cloudpickle 2.2.1", "pip install 'cloudpickle>=3.0'"),
    ),
    "somebody's sched.py": (
        replace(LAPTOP, files=(("this directory", "/home/me/sched.py"),)),
        (WARNING, "`import sched` finds /home/me/sched.py", "rename /home/me/sched.py"),
    ),
    "CPython's sched": (
        replace(LAPTOP, files=(("another directory", "/usr/lib/python3.12/sched.py"),)),
        (WARNING, "CPython's own module", "pip install"),
    ),
    "fork": (replace(LAPTOP, start_method="fork"), (NOTE, "by fork", "set_start_method('spawn')")),
    "mpi4py missing under a launcher": (
        replace(LAPTOP, world=hydra(), cores=12, mpi=MISSING),
        (ERROR, "mpi4py is not installed", "tilesched[mpich]"),
    ),
    "mpi4py missing": (
        replace(LAPTOP, mpi=MISSING),
        (WARNING, "mpi4py is not installed", "tilesched[mpich]"),
    ),
    "no libmpi": (
        with_env(
            replace(LAPTOP, mpi=Probed({"problem": "cannot load MPI library"})), MPI4PY_LIBMPI="/nowhere"
        ),
        (WARNING, "MPI4PY_LIBMPI='/nowhere'", "unset MPI4PY_LIBMPI"),
    ),
    "a libmpi that kills": (
        replace(LAPTOP, world=hydra(), cores=12, mpi=Probed({}, "loading MPI", "was ended by SIGSEGV")),
        (ERROR, "loading MPI was ended by SIGSEGV", "MPI4PY_LIBMPI"),
    ),
    "two MPIs": (
        replace(LAPTOP, world=hydra(), cores=12, mpi=Probed({"library": OPEN_MPI})),
        (ERROR, "Hydra has started this process, and mpi4py uses Open MPI v5.0.11", "type -a mpiexec"),
    ),
    "two MPIs the other way round": (
        replace(LAPTOP, world=ranks.World("Open MPI", 0, 2, 0, 2)),
        (ERROR, "Open MPI has started this process, and mpi4py uses MPICH", "type -a mpiexec"),
    ),
    "two MPIs on PATH": (
        replace(LAPTOP, mpiexec_says="mpiexec (Open MPI) 5.0.11"),
        (WARNING, "/usr/bin/mpiexec is that of Open MPI, and mpi4py uses MPICH", "type -a mpiexec"),
    ),
    "no mpiexec": (
        replace(LAPTOP, mpiexec="", mpiexec_says=""),
        (WARNING, "there is no mpiexec", "pip install mpich"),
    ),
    "ranks that do not know it": (
        replace(LAPTOP, parent="hydra_pmi_proxy"),
        (ERROR, "none of its variables", "env | grep"),
    ),
    "not PALS under PBS": (
        with_env(
            replace(AURORA, world=hydra()), PBS_JOBID="1.aurora", LOADEDMODULES="cray-pals/1.8:frameworks/1"
        ),
        (WARNING, "PALS_LOCAL_RANKID is not", "type -a mpiexec"),
    ),
    "no local rank under PBS": (
        replace(AURORA, world=ranks.World("PMIx", 0, None, None, None)),
        (WARNING, "PALS_LOCAL_RANKID is not", "type -a mpiexec"),
    ),
    "more threads than cores": (
        with_env(LAPTOP, OMP_NUM_THREADS="64"),
        (WARNING, "OMP_NUM_THREADS='64'", "unset OMP_NUM_THREADS"),
    ),
    "ranks times threads beyond the cores": (
        with_env(replace(LAPTOP, world=hydra(size=4)), MKL_NUM_THREADS="4"),
        (WARNING, "MKL_NUM_THREADS='4'", "export MKL_NUM_THREADS=2"),
    ),
    "more ranks than cores": (
        replace(LAPTOP, world=hydra(size=12)),
        (WARNING, "12 ranks share 8 cores", "at most 8 ranks"),
    ),
    "TMPDIR missing": (
        with_env(replace(LAPTOP, tmp=Directory("/nonexistent", exists=False)), TMPDIR="/nonexistent"),
        (WARNING, "TMPDIR='/nonexistent'", "export TMPDIR=/tmp"),
    ),
    "TMPDIR too long": (
        with_env(replace(LAPTOP, tmp=Directory(DEEP)), TMPDIR=DEEP),
        (WARNING, f"TMPDIR={DEEP!r}", "export TMPDIR=/tmp"),
    ),
    "/dev/shm full": (
        replace(AURORA, shm=Directory("/dev/shm", total=64 << 20, free=8 << 20)),
        (WARNING, "/dev/shm has 8 MiB free of 64 MiB", "mpich_shm_*"),
    ),
    "/dev/shm missing": (
        replace(AURORA, shm=Directory("/dev/shm", exists=False)),
        (ERROR, "/dev/shm cannot be written", "mount"),
    ),
}


@pytest.mark.parametrize(("facts", "expected"), TRAPS.values(), ids=TRAPS)
def test_a_trap_is_named_first(facts, expected):
    severity, seen, remedy = expected
    finding = first(facts)
    assert seen in finding.seen
    assert remedy in finding.remedy
    assert severity is finding.severity
    assert finding.why.endswith(".")


@pytest.mark.parametrize(("facts", "expected"), TRAPS.values(), ids=TRAPS)
def test_a_trap_is_said_once(facts, expected):
    seen = [finding.seen for finding in checks.find(facts) if finding.severity is expected[0]]
    assert len(seen) == len(set(seen))
    assert not any("has failed" in words for words in seen)


def test_every_check_has_a_trap():
    from sched.doctor import devices, machine, mpi, software

    every = [*software.CHECKS, *software.LATE, *devices.CHECKS, *mpi.CHECKS, *machine.CHECKS]
    caught = {check for facts, _ in TRAPS.values() for check in every if check(facts) is not None}
    assert caught == set(every)


def test_a_harmless_mask_is_no_trap():
    narrowed = with_env(replace(AURORA, sycl=sycl(TILES[0])), ZE_AFFINITY_MASK="3")
    assert checks.find(narrowed) == []


def test_the_threads_that_pbs_sets_are_no_trap():
    assert checks.find(with_env(AURORA, OMP_NUM_THREADS="208", NCPUS="208")) == []


def test_level_zero_is_not_looked_for_on_the_cpu():
    finding = first(replace(LAPTOP, device="level_zero", sycl=NOTHING))
    assert (finding.severity, "OpenCL" in finding.why + finding.remedy) == (ERROR, False)


def test_what_is_hidden_is_shown():
    facts, _ = TRAPS["selector in dpctl's grammar"]
    assert "Without it there is opencl:cpu:0 (Intel(R) Xeon(R) CPU Max 9470C)." in first(facts).why


def test_a_driver_file_that_names_nothing(tmp_path: Path):
    (tmp_path / "intel.icd").write_text("/opt/nowhere/libintelocl.so\n")
    facts = replace(with_env(LAPTOP, OCL_ICD_VENDORS=str(tmp_path)), sycl=NOTHING)
    assert "intel.icd names /opt/nowhere/libintelocl.so, which does not exist" in first(facts).why


def test_a_check_that_raises_hides_no_other():
    facts = replace(LAPTOP, versions=None, sycl=sycl(POCL))  # type: ignore[arg-type]
    seen = [finding.seen for finding in checks.find(facts)]
    assert any("the check 'numpy' has failed: AttributeError" in words for words in seen)
    assert any("opencl:cpu:0 (pthread" in words for words in seen)


# --- what many ranks have found ---

SLOW = Finding(WARNING, "slow", "It is slow.", "hurry")
FATAL = Finding(ERROR, "fatal", "It is fatal.", "mend")


def test_equal_findings_of_many_ranks_are_one():
    shared = checks.merge([[SLOW], [SLOW, FATAL], [SLOW], [SLOW]])
    assert [(each.finding, each.ranks) for each in shared] == [(FATAL, (1,)), (SLOW, (0, 1, 2, 3))]
    assert [checks.show(each, 4).splitlines()[0] for each in shared] == [
        "error: fatal [rank 1]",
        "warning: slow [all 4 ranks]",
    ]


def test_many_ranks_are_listed_shortly():
    (shared,) = checks.merge([[SLOW] if rank % 2 else [] for rank in range(10_000)])
    line = checks.show(shared, 10_000).splitlines()[0]
    assert line.startswith("warning: slow [ranks 1,3,5,")
    assert line.endswith("5000 in all]")
    assert len(line) < 110


def test_a_finding_says_what_it_is_why_it_hurts_and_what_to_do():
    (shared,) = checks.alone([FATAL])
    assert checks.show(shared) == "error: fatal\n    It is fatal.\n    -> mend"


# --- what Linux says ---


def test_cards_are_found_in_the_order_of_their_addresses(tmp_path: Path):
    devices = {
        "0001:18:00.0": ("0x8086", "0x038000", "1", "52-103,156-207"),
        "0000:42:00.0": ("0x8086", "0x038000", "0", "0-51,104-155"),
        "0000:00:02.0": ("0x8086", "0x030000", "-1", "0-207"),  # a screen's
        "0000:03:00.0": ("0x1a03", "0x030000", "0", "0-51"),  # not Intel's
        "0000:04:00.0": ("0x8086", "0x020000", "0", "0-51"),  # a network card
    }
    for address, values in devices.items():
        device = tmp_path / "bus/pci/devices" / address
        device.mkdir(parents=True)
        for name, value in zip(("vendor", "class", "numa_node", "local_cpulist"), values, strict=True):
            (device / name).write_text(f"{value}\n")
    for tile in ("drm/card1/gt/gt0", "drm/card1/gt/gt1"):  # i915
        (tmp_path / "bus/pci/devices/0000:42:00.0" / tile).mkdir(parents=True)
    for tile in ("tile0", "tile1"):  # xe
        (tmp_path / "bus/pci/devices/0001:18:00.0" / tile).mkdir()
    found = hardware.cards(tmp_path)
    assert [(card.address, card.discrete, len(card.cores), card.tiles) for card in found] == [
        ("0000:00:02.0", False, 0, 0),
        ("0000:42:00.0", True, 104, 2),
        ("0001:18:00.0", True, 104, 2),
    ]
    assert max(found[1].cores) == 155


CARDS_OF_TWO = [hardware.Card(address, True, frozenset(), 2) for address in CARDS]
CARDS_OF_ONE = [hardware.Card(address, True, frozenset(), 1) for address in CARDS]
UNKNOWN = [hardware.Card(address, True, frozenset()) for address in CARDS]


@pytest.mark.parametrize(
    ("number", "cards", "expected"),
    [
        ("0", CARDS_OF_TWO, (0, 0)),
        ("7", CARDS_OF_TWO, (3, 1)),
        ("3.1", CARDS_OF_TWO, (3, 1)),
        ("3", CARDS_OF_ONE, (3, 0)),
        ("12", CARDS_OF_TWO, None),
        ("3", UNKNOWN, None),
        ("3 (ZE_AFFINITY_MASK=9)", CARDS_OF_TWO, None),
    ],
)
def test_a_tile_is_found_on_its_card(number, cards, expected):
    assert hardware.place(number, cards) == expected


def test_numa_nodes_without_cores_are_left_out(tmp_path: Path):
    for node, cores in {"node0": "0-3", "node1": "4-7", "node2": "", "online": "0-2"}.items():
        directory = tmp_path / "devices/system/node" / node
        directory.mkdir(parents=True)
        (directory / "cpulist").write_text(f"{cores}\n")
    assert hardware.numa(tmp_path) == {0: {0, 1, 2, 3}, 1: {4, 5, 6, 7}}


def test_a_machine_that_tells_nothing_has_nothing(tmp_path: Path):
    assert (hardware.cards(tmp_path), hardware.numa(tmp_path)) == ([], {})


# --- children ---


def test_a_child_that_does_not_answer_is_given_up(monkeypatch):
    monkeypatch.setattr(probe, "command", lambda *_: ["/bin/cat", "/dev/zero"])
    assert ask("sycl", limit=0.2).ended == "had not answered after 0 s"


def test_a_child_that_dies_leaves_what_it_had_said(monkeypatch):
    code = 'import os; print(\'{"stage": "listing", "devices": []}\', flush=True); os.abort()'
    monkeypatch.setattr(probe, "command", lambda *_: [sys.executable, "-c", code])
    said = ask("sycl")
    assert (said.answers, said.stage, said.ended[:20]) == ({"devices": []}, "listing", "was ended by SIGABRT")
