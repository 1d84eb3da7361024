"""What dpnp has, sorted by hand: what makes arrays of plain arguments, and what does not.

Seen in dpnp 0.19 and 0.20. `test_creation` compares it with the dpnp that is there.
"""

import numpy

MAKES = """
array(5)
array([[1, 2], [3, 4]])
array(numpy.arange(3))
asarray([1, 2])
asarray(numpy.arange(3))
asanyarray([1, 2])
asarray_chkfinite([1, 2])
ascontiguousarray([1, 2])
asfarray([1, 2])
asfortranarray([[1, 2], [3, 4]])
as_usm_ndarray([1, 2])
copy([1, 2])
copy(numpy.arange(3))
ndarray((3,))
empty(3)
zeros((2, 3))
ones(3)
full(3, 7)
full((2, 2), [1, 2])
arange(3)
linspace(0, 1, 5)
logspace(0, 1, 5)
geomspace(1, 2, 5)
eye(3)
identity(3)
tri(3)
vander([1, 2, 3])
diag([1, 2])
diagflat([1, 2])
indices((2, 3))
mgrid[0:2, 0:3]
ogrid[0:2, 0:3]
diag_indices(3)
tril_indices(3)
triu_indices(3)
mask_indices(3, xp.tril)
frombuffer(bytes(16))
fromfile(file)
fromfunction(lambda i, j: i + j, (2, 3))
fromiter(range(3), dtype=int)
fromstring("1 2", sep=" ")
loadtxt(["1 2", "3 4"])
bartlett(5)
blackman(5)
hamming(5)
hanning(5)
kaiser(5, 14.0)
fft.fftfreq(5)
fft.rfftfreq(5)
random.RandomState(1).normal(size=3)
random.RandomState(1).rand(3)
random.RandomState(1).randint(5, size=3)
random.RandomState(1).randn(3)
random.RandomState(1).random_sample(3)
random.RandomState(1).standard_normal(3)
random.RandomState(1).uniform(size=3)
random.beta(1.0, 2.0, 3)
random.binomial(5, 0.5, 3)
random.chisquare(2, 3)
random.exponential(1.0, 3)
random.f(5.0, 2.0, 3)
random.gamma(2.0, 1.0, 3)
random.geometric(0.5, 3)
random.gumbel(0.0, 1.0, 3)
random.hypergeometric(3, 4, 5, 3)
random.laplace(0.0, 1.0, 3)
random.logistic(0.0, 1.0, 3)
random.lognormal(0.0, 1.0, 3)
random.multinomial(5, [0.5, 0.5])
random.multivariate_normal([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 3)
random.negative_binomial(5, 0.5, 3)
random.noncentral_chisquare(3.0, 1.0, 3)
random.normal(size=3)
random.pareto(2.0, 3)
random.permutation(5)
random.poisson(4.0, 3)
random.power(2.0, 3)
random.rand(3)
random.randint(5, size=3)
random.randn(3)
random.random(3)
random.random_integers(5, size=3)
random.random_sample(3)
random.ranf(3)
random.rayleigh(1.0, 3)
random.sample(3)
random.standard_cauchy(3)
random.standard_exponential(3)
random.standard_gamma(2.0, 3)
random.standard_normal(3)
random.standard_t(5.0, 3)
random.triangular(0.0, 1.0, 2.0, 3)
random.uniform(size=3)
random.vonmises(0.0, 1.0, 3)
random.wald(1.0, 1.0, 3)
random.weibull(2.0, 3)
random.zipf(2.0, 3)
tensor.arange(3)
tensor.asarray([1, 2])
tensor.empty(3)
tensor.eye(3)
tensor.from_numpy(numpy.arange(3))
tensor.full(3, 7)
tensor.linspace(0, 1, 5)
tensor.ones(3)
tensor.usm_ndarray((3,))
tensor.zeros(3)
"""
"""Calls that make arrays of plain arguments; `tensor` is dpnp's, or else dpctl's."""

OTHERS = """
abs absolute acos acosh add all allclose amax amin angle any append apply_along_axis apply_over_axes arccos
arccosh arcsin arcsinh arctan arctan2 arctanh are_same_logical_tensors argmax argmin argsort argwhere around
array_equal array_equiv array_split asin asinh asnumpy astype atan atan2 atanh atleast_1d atleast_2d
atleast_3d average binary_repr bincount bitwise_and bitwise_count bitwise_invert bitwise_left_shift
bitwise_not bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_shapes broadcast_to
byte_bounds can_cast cbrt ceil check_limitations check_supported_arrays_type choose clip column_stack
common_type compress concat concatenate conj conjugate convolve copysign copyto corrcoef correlate cos cosh
count_nonzero cov cross cumlogsumexp cumprod cumsum cumulative_prod cumulative_sum default_float_type deg2rad
degrees delete diag_indices_from diagonal diff digitize divide divmod dot dsplit dstack dtype ediff1d einsum
einsum_path empty_like equal exp exp2 expand_dims expm1 extract fabs fill_diagonal finfo fix flatiter
flatnonzero flip fliplr flipud float_power floor floor_divide fmax fmin fmod frexp from_dlpack full_like gcd
get_dpnp_descriptor get_include get_normalized_queue_device get_result_array get_usm_ndarray
get_usm_ndarray_or_scalar gradient greater greater_equal heaviside histogram histogram2d histogram_bin_edges
histogramdd hsplit hstack hypot i0 iinfo imag inner insert interp invert is_cuda_backend
is_supported_array_or_scalar is_supported_array_type is_type_supported isclose iscomplex iscomplexobj isdtype
isfinite isfortran isin isinf isnan isneginf isposinf isreal isrealobj isscalar issubdtype iterable ix_ kron
lcm ldexp left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not
logical_or logical_xor logsumexp matmul matrix_transpose matvec max maximum mean median meshgrid min minimum
mod modf moveaxis multiply nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin
nanprod nanstd nansum nanvar ndim ndindex negative nextafter nonzero not_equal ones_like outer pad partition
permute_dims piecewise place positive pow power prod proj ptp put put_along_axis putmask rad2deg radians ravel
ravel_multi_index real real_if_close reciprocal reduce_hypot remainder repeat require reshape resize
result_type right_shift rint roll rollaxis rot90 round row_stack rsqrt searchsorted select shape sign signbit
sin sinc sinh size sort sort_complex spacing split sqrt square squeeze stack std subtract sum swapaxes
synchronize_array_data take take_along_axis tan tanh tensordot tile trace transpose trapezoid tril
tril_indices_from trim_zeros triu triu_indices_from true_divide trunc unique unique_all unique_counts
unique_inverse unique_values unravel_index unstack unwrap var vdot vecdot vecmat vsplit vstack where
zeros_like fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ifftshift
fft.ihfft fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn linalg.cholesky linalg.cond
linalg.cross linalg.det linalg.diagonal linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv
linalg.lstsq linalg.matmul linalg.matrix_norm linalg.matrix_power linalg.matrix_rank linalg.matrix_transpose
linalg.multi_dot linalg.norm linalg.outer linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.svd
linalg.svdvals linalg.tensordot linalg.tensorinv linalg.tensorsolve linalg.trace linalg.vecdot
linalg.vector_norm random.RandomState.get_state random.RandomState.get_sycl_device
random.RandomState.get_sycl_queue random.bytes random.choice random.dirichlet random.logseries
random.noncentral_f random.seed random.shuffle scipy.linalg.lu scipy.linalg.lu_factor scipy.linalg.lu_solve
scipy.special.erf scipy.special.erfc scipy.special.erfcinv scipy.special.erfcx scipy.special.erfinv
tensor.Device tensor.copy tensor.cumulative_logsumexp tensor.dldevice_to_sycl_device
tensor.get_coerced_usm_type tensor.get_execution_queue tensor.get_print_options tensor.print_options
tensor.set_print_options tensor.sycl_device_to_dldevice tensor.to_numpy tensor.top_k tensor.usm_ndarray_repr
tensor.usm_ndarray_str tensor.validate_usm_type
"""
"""Names that take arrays, make none, or are not implemented; those that `tensor` also has are meant too."""

DISOBEY = {
    "random.multinomial": "dpnp puts it on a new queue of the default device, with or without sched",
    "random.multivariate_normal": "dpnp puts its arguments on two new queues, and then they do not mix",
    "tensor.usm_ndarray": "with a shape alone, its memory is that of the default device's own queue",
}
"""What cannot be made on a tile, and why."""

PLAIN = [
    *[(), (3,), (0.5,), ([1.0, 2.0],), ((2, 3),), (b"1234567",), ("1 2",), ([[2.0, 0.0], [0.0, 3.0]],)],
    *[(numpy.eye(2),), (3, 3), (0.5, 3), ([1, 0], 2), ([1.0, 2.0], 3), ([1.0, 2.0], [1.0, 2.0])],
    *[(numpy.eye(2), numpy.eye(2)), (3, [0.5, 0.5]), (0, 5, 3), (3, 0.5, 4), (3.0, 20.0, 2.0, 3)],
]
"""Arguments without an array of dpnp, to be tried on `OTHERS`."""
