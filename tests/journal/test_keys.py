"""Equal keys mean equal work, in every run; other work never has an equal key."""

import copy
import enum
import itertools
import math
import pickle
import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sched.journal.keys import Keys
from sched.journal.sources import Unclear

from .digesting import Input, digest

BEGUN = time.time() + 1000
"""These tests' own files may just have been written; what that does is in `test_sources`."""

KEYS = Keys("host", BEGUN)

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(), st.binary()
)
HASHABLE = st.recursive(
    LEAVES, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4), max_leaves=6
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.sets(HASHABLE, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


def written(value):
    """Write a value such that two are written alike only if they are alike: types, signs, order and all."""
    kind = type(value)
    if kind in (set, frozenset):
        return f"{kind.__name__}{sorted(map(written, value))}"
    if kind in (list, tuple):
        return f"{kind.__name__}[{', '.join(map(written, value))}]"
    if kind is dict:
        return f"dict{[(written(k), written(v)) for k, v in value.items()]}"
    if kind in (float, complex):
        return f"{kind.__name__}{pickle.dumps(value, 5)!r}"
    return f"{kind.__name__}{value!r}"


@settings(max_examples=150, deadline=None)
@given(VALUES, VALUES)
def test_two_values_have_one_digest_if_and_only_if_they_are_alike(one, other):
    assert (digest(KEYS, one) == digest(KEYS, other)) == (written(one) == written(other))


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_what_is_equal_but_made_of_other_objects_has_the_same_digest(value):
    again = pickle.loads(pickle.dumps(value, 5))
    assert digest(KEYS, (value, again)) == digest(KEYS, (value, pickle.loads(pickle.dumps(again, 5))))
    assert digest(KEYS, value) == digest(KEYS, again)


def test_equal_strings_are_one_whether_they_are_one_object_or_two():
    for text in ("some text", b"some bytes"):
        again = text[:4] + text[4:]
        assert again is not text
        assert digest(KEYS, [text, text]) == digest(KEYS, [text, again])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0.0, -0.0),
        (1, 1.0),
        ("a", b"a"),
        ([1, 2], (1, 2)),
        ({1, 2}, frozenset({1, 2})),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (bytearray(b"a"), b"a"),
        (range(3), [0, 1, 2]),
        (math.inf, -math.inf),
        ([[]] * 2, [[], []]),
    ],
    ids=repr,
)
def test_what_is_only_nearly_alike_has_another_digest(one, other):
    assert digest(KEYS, one) != digest(KEYS, other)


def test_what_contains_itself_has_a_digest():
    one, other = [], []
    one.append(one)
    other.append(other)
    assert digest(KEYS, one) == digest(KEYS, other) != digest(KEYS, [[]])


def test_functions_that_call_each_other_are_followed_as_far_as_they_can_be_packed():
    chain = "\n".join(f"def f{n}(x):\n    return f{n + 1}(x)" for n in range(150))
    digests = []
    for last in ("x", "x", "x + 1"):
        space = {"__name__": "__main__"}
        exec(f"{chain}\ndef f150(x):\n    return {last}", space)
        digests.append(digest(KEYS, space["f0"]))
    assert digests[0] == digests[1] != digests[2]


def test_what_is_nested_too_deeply_has_none():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Unclear, match="nested too deeply"):
        digest(KEYS, deep)


ARRAYS = [
    np.arange(12.0),
    np.arange(12),
    np.arange(12.0).reshape(3, 4),
    np.arange(12.0).reshape(4, 3),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(12.0).astype(">f8"),
    np.arange(12.0).view("datetime64[s]"),
    np.arange(13.0),
    np.arange(100_000.0),
    np.arange(100_000.0) + np.eye(1, 100_000, 77_777)[0],
    np.array([[], []]),
    np.array(None),
    np.float64(3),
    np.float32(3),
]


def test_arrays_have_one_digest_if_type_shape_and_content_are_one():
    digests = [digest(KEYS, array) for array in ARRAYS]
    assert len(set(digests)) == len(ARRAYS)
    assert [digest(KEYS, array.copy("K") if array.ndim else array) for array in ARRAYS] == digests


def test_a_strided_view_is_digested_as_what_it_shows():
    whole = np.arange(20.0)
    assert digest(KEYS, whole[::2]) != digest(KEYS, whole[1::2])
    assert digest(KEYS, whole[::2]) == digest(KEYS, np.arange(20.0)[::2])


def test_a_future_is_the_key_of_its_task():
    a, b = Input(b"a" * 32), Input(b"b" * 32)
    calls = [(a, b), (b, a), (a, a), (a, [b]), ([a, b],), (a,), (b"a" * 32,), ({"x": a}, b)]
    digests = [digest(KEYS, (call, {})) for call in calls]
    assert len(set(digests)) == len(calls)
    assert digest(KEYS, ((a, b), {})) == digest(KEYS, ((Input(b"a" * 32), Input(b"b" * 32)), {}))


def test_a_future_inside_a_set_or_an_object_is_seen():
    class Holder:
        def __init__(self, inside):
            self.inside = inside

    one, other = Input(b"a" * 32), Input(b"b" * 32)
    assert digest(KEYS, {one}) != digest(KEYS, {other})
    assert digest(KEYS, Holder(one)) != digest(KEYS, Holder(other))


def test_a_call_with_an_input_that_has_no_key_has_none():
    def refuse(thing):
        if isinstance(thing, Input):
            raise Unclear("no key")

    with pytest.raises(Unclear, match="no key"):
        KEYS.digest([Input(b"")], lambda thing: NotImplemented, {}, refuse)


def test_everything_that_makes_a_task_is_in_its_key():
    def of(keys=("host", BEGUN), function=b"f", arguments=b"a", name="n", version=""):
        return Keys(*keys).key(function, arguments, name, version)

    others = [
        of(),
        of(("sycl", BEGUN)),
        of(function=b"g"),
        of(arguments=b"b"),
        of(name="m"),
        of(version="2"),
        of(function=b"fa", arguments=b""),
        of(name="", version="n"),
    ]
    assert len(set(others)) == len(others)
    assert {len(key) for key in others} == {32}
    assert of() == others[0]


def test_the_same_call_again_has_another_key_and_the_next_run_gives_them_out_alike():
    runs = [Keys("host", BEGUN) for _ in range(2)]
    given = [[keys.key(b"random", b"()", "draw") for _ in range(5)] for keys in runs]
    assert given[0] == given[1]
    assert len(set(given[0])) == 5


def make(number=1, *, scale=2.0, label="x"):
    """Return a function with defaults, a closure and sets in it."""
    known = {"alpha", "beta", label}

    def work(x, factor=scale):
        return [y * factor + number for y in x if y not in {"gamma", "delta"} and y not in known]

    return work


def test_a_functions_digest_is_of_its_code_defaults_and_closure():
    same = [digest(KEYS, make()) for _ in range(2)]
    others = [make(2), make(scale=3.0), make(label="y"), lambda x: x, lambda x: x + 1, lambda y: y + 1]
    assert same[0] == same[1]
    assert len({same[0], *(digest(KEYS, other) for other in others)}) == len(others) + 1


def test_a_global_that_a_function_uses_is_in_its_digest():
    source = "def work(x):\n    return x * {name} + inner(x)\n\ndef inner(x):\n    return x - OTHER\n"
    spaces = [
        {"__name__": "__main__", "SCALE": s, "OTHER": o, "UNUSED": u}
        for s, o, u in itertools.product((1, 2), repeat=3)
    ]
    for space in spaces:
        exec(source.format(name="SCALE"), space)
    digests = [digest(KEYS, space["work"]) for space in spaces]
    assert len(set(digests)) == 4
    assert all(digests[n] == digests[n + 1] for n in range(0, 8, 2))


def test_lines_and_files_are_not_in_it():
    codes = [compile("\n" * n + "def work(x):\n    return x + 1", f"{n}.py", "exec") for n in range(3)]
    found = set()
    for number, code in enumerate(codes):
        space = {"__name__": "__main__", "__file__": f"/{number}/job.py"}
        exec(code, space)
        found.add(digest(KEYS, space["work"]))
    assert len(found) == 1


def classes(value):
    """Return classes of a script, as cloudpickle carries them: by value, with a number of this process."""

    class Plain:
        seen = frozenset({"a", "b", "c"})

        def method(self):
            return value

    class Colour(enum.Enum):
        RED = value

    return Plain, Colour


def test_a_class_of_the_scripts_is_its_code_and_not_its_number():
    assert digest(KEYS, classes(1)) == digest(KEYS, classes(1))
    for one, other in zip(classes(1), classes(2), strict=True):
        assert digest(KEYS, one) != digest(KEYS, other)


def test_an_object_of_such_a_class_is_its_content_and_its_class():
    one = classes(1)[0]()
    one.content = [1]
    same, other = copy.copy(one), copy.copy(one)
    other.content = [2]
    assert digest(KEYS, one) == digest(KEYS, same) != digest(KEYS, other)
    assert digest(KEYS, classes(1)[0]()) != digest(KEYS, classes(2)[0]())
