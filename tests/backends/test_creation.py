"""Whatever dpnp makes without being given an array, it makes on the ambient tile.

Every public callable of dpnp is found by looking, so that a routine which a new version brings is noticed: it
is called in `routines.MAKES`, or somebody has put it into `routines.OTHERS`, or a test says what to do.
"""

import asyncio
import contextvars
import enum
import functools
import importlib
import re
import threading
from types import ModuleType, SimpleNamespace

import numpy
import pytest

import sched
from sched.backends import sycl
from sched.errors import DeviceError
from sched.runtime import session
from tests.backends.routines import DISOBEY, MAKES, OTHERS, PLAIN
from tests.gates import PATIENCE

pytestmark = [
    pytest.mark.sycl,
    pytest.mark.filterwarnings("ignore:dpctl.tensor is deprecated:DeprecationWarning"),  # dpnp 0.19 uses it
]


@pytest.fixture(scope="module")
def tiles():
    """Two tiles of one device. Emulated or not, their queues are different places for dpnp."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCHED_DEVICE", "cpu")
        patch.setenv("SCHED_TILES", "2")
        session.use(None)
        yield sched.tiles()
        session.engine().close(0)
        session.use(None)


@pytest.fixture
def xp(tiles):
    return sched.xp


def tensor_module():
    """Return the lower of the two array modules: dpctl's until 0.21, then dpnp's."""
    for name in ("dpnp.tensor", "dpctl.tensor"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise AssertionError("neither dpnp nor dpctl has a module `tensor`")


def spaces(xp):
    """Return all places where dpnp has public names, by the prefix that the tables give them."""
    found = {"": xp, "tensor.": tensor_module(), "random.RandomState.": xp.random.RandomState}
    for name in ("random", "linalg", "fft", "scipy.linalg", "scipy.special"):
        try:
            found[name + "."] = importlib.import_module(f"dpnp.{name}")
        except ImportError:  # dpnp.scipy is young
            assert name.startswith("scipy")
    return found


def public(xp):
    """Yield the name of every public callable, and the callable."""
    for prefix, space in spaces(xp).items():
        for name in dir(space):
            value = getattr(space, name)
            plain = isinstance(value, type) and issubclass(value, numpy.generic | Exception | enum.Enum)
            if callable(value) and not (name.startswith("_") or plain or isinstance(value, ModuleType)):
                yield prefix + name, value


def name_of(call):
    """Return the name of what a line of `MAKES` calls."""
    return re.match(r"[\w.]+", call.replace("RandomState(1)", "RandomState"))[0]


def make(call, xp, **names):
    """Carry out a line of `MAKES`, and return the arrays that come of it."""
    head, _, tail = call.partition("tensor.")
    owner, call = (tensor_module(), tail) if not head else (xp, call)
    return arrays(eval(f"owner.{call}", {"owner": owner, "xp": xp, "numpy": numpy, **names}))


def arrays(value):
    """List the arrays in a value, which may be a tuple of them."""
    if isinstance(value, tuple | list):
        return [array for item in value for array in arrays(item)]
    return [value] if hasattr(value, "sycl_queue") and hasattr(value, "dtype") else []


def tile_of(array, tiles):
    """Return the position of the tile that an array lies on, or None if it lies on none."""
    return next((i for i, tile in enumerate(tiles) if tile.queue == array.sycl_queue), None)


# -- what dpnp has ---------------------------------------------------------------------------------------


def test_every_routine_of_dpnp_was_looked_at(xp):
    seen = {name_of(call) for call in calls()} | set(OTHERS.split()) | {"random.RandomState"}
    new = [
        name
        for name, _ in public(xp)
        if name not in seen and name.removeprefix("tensor.") not in OTHERS.split()
    ]
    assert not new, (
        f"dpnp {xp.__version__} has {', '.join(new)}, which nobody has looked at: add a call to MAKES if it "
        "makes arrays of numbers, lists or NumPy, else its name to OTHERS, both in routines.py"
    )


def test_no_routine_is_in_both_tables():
    assert not {name_of(call) for call in calls()} & set(OTHERS.split())


def calls():
    return MAKES.strip().splitlines()


@pytest.mark.parametrize("call", calls())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_is_made_on_the_ambient_tile(call, xp, tiles, tmp_path, request):
    name = name_of(call)
    if name not in dict(public(xp)):
        pytest.skip(f"dpnp {xp.__version__} has no {name}")
    if name in DISOBEY:
        request.applymarker(pytest.mark.xfail(reason=DISOBEY[name], strict=True))
    file = tmp_path / "numbers"
    numpy.arange(3.0).tofile(file)
    with sched.tile(1):
        made = make(call, xp, file=file)
    assert made
    assert [tile_of(array, tiles) for array in made] == [1] * len(made)


@pytest.mark.filterwarnings("ignore")
def test_no_other_routine_makes_anything_elsewhere(xp, tiles):
    astray = []
    with sched.tile(1):
        for name, routine in public(xp):
            if name in OTHERS.split() and "RandomState" not in name:
                made = [array for arguments in PLAIN for array in arrays(attempt(routine, arguments))]
                astray += [name] * any(tile_of(array, tiles) != 1 for array in made)
    assert not astray, f"{', '.join(astray)} can make arrays, and not on the ambient tile"


def attempt(routine, arguments):
    try:
        return routine(*arguments)
    except Exception:  # most of them take arrays, and say so
        return None


# -- where it is made ------------------------------------------------------------------------------------


def test_outside_any_with_it_is_made_on_the_first_tile(xp, tiles):
    assert tile_of(xp.zeros(3), tiles) == 0


def test_the_innermost_with_counts(xp, tiles):
    found = []
    with sched.tile(1):
        found.append(xp.zeros(1))
        with sched.tile(0):
            found.append(xp.zeros(1))
        found.append(xp.zeros(1))
    found.append(xp.zeros(1))
    assert [tile_of(array, tiles) for array in found] == [1, 0, 1, 0]


def test_an_exception_leaves_the_with_like_anything_else(xp, tiles):
    with sched.tile(1):
        with pytest.raises(ZeroDivisionError), sched.tile(0):
            raise ZeroDivisionError
        assert tile_of(xp.zeros(1), tiles) == 1
    assert tile_of(xp.zeros(1), tiles) == 0


def test_what_is_said_explicitly_wins(xp, tiles):
    with sched.tile(1):
        assert tile_of(xp.zeros(1, sycl_queue=tiles[0].queue), tiles) == 0
        assert tile_of(xp.zeros(1, device=tiles[0].queue), tiles) == 0
        assert tile_of(xp.zeros(1, device=xp.zeros(1, sycl_queue=tiles[0].queue).device), tiles) == 0
        # By its name a device is meant with dpnp's own queue for it, and that is its first tile's.
        assert tile_of(xp.zeros(1, device=tiles[1].filter), tiles) == 0


@pytest.mark.parametrize(
    "compute",
    [
        pytest.param(lambda xp, x: xp.zeros_like(x), id="zeros_like"),
        pytest.param(lambda xp, x: xp.ones_like(x), id="ones_like"),
        pytest.param(lambda xp, x: xp.empty_like(x), id="empty_like"),
        pytest.param(lambda xp, x: xp.full_like(x, 3), id="full_like"),
        pytest.param(lambda xp, x: xp.asarray(x), id="asarray"),
        pytest.param(lambda xp, x: xp.array(x), id="array"),
        pytest.param(lambda xp, x: xp.asarray([x, x]), id="asarray of a list"),
        pytest.param(lambda xp, x: x + 1, id="add a number"),
        pytest.param(lambda xp, x: 2 - x, id="subtract from a number"),
        pytest.param(lambda xp, x: x[1:], id="slice"),
        pytest.param(lambda xp, x: x[xp.argsort(x)], id="index by an array"),
        pytest.param(lambda xp, x: x[x > 1], id="index by a mask"),
        pytest.param(lambda xp, x: xp.where(x > 1, x, 0), id="where"),
        pytest.param(lambda xp, x: xp.concatenate([x, x]), id="concatenate"),
        pytest.param(lambda xp, x: xp.linspace(x, 9, 4), id="linspace from an array"),
        pytest.param(lambda xp, x: xp.clip(x, 1, 2), id="clip"),
        pytest.param(lambda xp, x: xp.cumsum(x), id="cumsum"),
        pytest.param(lambda xp, x: x @ x, id="matmul"),
        pytest.param(lambda xp, x: xp.fft.fft(x), id="fft"),
    ],
)
def test_computation_follows_data(compute, xp, tiles):
    with sched.tile(1):
        x = xp.arange(3.0)
    assert tile_of(compute(xp, x), tiles) == 1


def test_arrays_of_two_tiles_do_not_mix(xp, tiles):
    here, there = xp.zeros(1), xp.zeros(1, sycl_queue=tiles[1].queue)
    with sched.tile(1), pytest.raises(Exception, match="Execution placement"):
        here + there


def test_a_seed_is_that_of_one_tile(xp, tiles):
    def draw(tile, *, seed=None):
        with sched.tile(tile):
            if seed is not None:
                xp.random.seed(seed)
            return xp.asnumpy(xp.random.normal(size=4)).tolist()

    first = draw(0, seed=1), draw(1, seed=1)
    again = draw(0, seed=1), draw(1)
    assert first[0] == again[0] == first[1]
    assert first[1] != again[1]


# -- threads and coroutines ------------------------------------------------------------------------------


def test_each_of_two_threads_has_its_own(xp, tiles):
    """They take turns, for dpnp may freeze a process in which two threads use it at the same moment."""
    turn, found = threading.Barrier(2), ([], [])

    def work(own):
        with sched.tile(own):
            for step in range(20):
                if step % 2 == own:
                    found[own].append(tile_of(xp.zeros(step), tiles))
                turn.wait(PATIENCE)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == ([0] * 10, [1] * 10)


@pytest.mark.parametrize(
    ("carried", "tile"), [(False, 0), (True, 1)], ids=["alone", "with a copy of its context"]
)
def test_a_thread_takes_the_tile_of_its_starter_only_with_its_context(carried, tile, xp, tiles):
    found = []

    def work():
        found.append(tile_of(xp.zeros(1), tiles))

    with sched.tile(1):
        run = functools.partial(contextvars.copy_context().run, work) if carried else work
        # Not `Thread(target=run)` alone: newer Pythons can be told to let threads inherit.
        thread = threading.Thread(
            target=run if carried else functools.partial(contextvars.Context().run, work)
        )
        thread.start()
        thread.join(PATIENCE)
    assert found == [tile]


def test_each_of_two_coroutines_has_its_own(xp, tiles):
    order = []

    async def work(own):
        with sched.tile(own):
            for step in range(5):
                await asyncio.sleep(0)  # the other one's turn
                order.append((step, own, tile_of(xp.zeros(step), tiles)))

    async def main():
        await asyncio.gather(work(0), work(1))

    asyncio.run(main())
    assert order == [(step, own, own) for step in range(5) for own in range(2)]
    assert tile_of(xp.zeros(1), tiles) == 0


# -- a dpnp that makes its arrays in another way ---------------------------------------------------------


def test_a_dpnp_that_cannot_be_told_is_refused_and_left_as_it_was(tiles):
    class Device:
        @classmethod
        def create_device(cls, device=None):
            return "asked"

    def empty(shape, sycl_queue=None):  # without a look at Device.create_device
        return SimpleNamespace(device=Device(), sycl_queue=sycl_queue or tiles[0].queue)

    other = SimpleNamespace(empty=empty, __version__="99")
    with pytest.raises(DeviceError, match="dpnp 99 does not make arrays where sched tells it to"):
        sycl._follow_ambient_tile(other, tiles[0].queue)
    assert Device.create_device() == "asked"
    assert not hasattr(Device, "follows_sched")


def test_it_is_told_once_however_many_runs_there_are(xp, tiles):
    device = type(xp.empty(0).device)
    before = device.create_device.__func__
    with sched.local(tiles=2, device="cpu"):
        assert device.create_device.__func__ is before
