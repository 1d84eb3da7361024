"""Arrays of every kind: each dtype that dpnp has, any shape and order, and views of every sort."""

import numpy as np
from hypothesis import strategies as st

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def filled(dtype, shape, order="C"):
    """Return an array whose elements differ from their neighbours."""
    count = int(np.prod(shape))
    return (np.arange(count) % 251 % (2 if dtype == "?" else 251)).astype(dtype).reshape(shape, order=order)


@st.composite
def views(draw, shape):
    """Return a function that takes a view of an array of this shape, of NumPy's or of a tile."""
    index = []
    for length in shape:
        if draw(st.integers(0, 9)) == 0 and length:
            index.append(draw(st.integers(0, length - 1)))
            continue
        ends = st.none() | st.integers(-length - 1, length + 1)
        index.append(slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, 3, -1, -2]))))
    left = sum(type(item) is slice for item in index)
    axes = draw(st.permutations(range(left)))
    wide = draw(st.booleans())

    def view(array, xp):
        array = array[tuple(index)].transpose(axes)
        return xp.broadcast_to(array, (2, *array.shape)) if wide else array

    return view


@st.composite
def arrays(draw):
    """Return an array of NumPy's, and a function that takes a view of it or of its like."""
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 8]), max_size=4)))
    array = filled(draw(st.sampled_from(DTYPES)), shape, draw(st.sampled_from("CF")))
    return array, draw(views(shape) | st.just(lambda array, xp: array))


def same(found, expected):
    """Whether dtype, shape and every element are the same."""
    return found.dtype == expected.dtype and found.shape == expected.shape and (found == expected).all()
