"""Comparing results in tests."""
from .. import _C
from .._C import Tensor

_TOLERANCE = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}


def _at(index, shape):
    place = []
    for size in reversed(shape):
        place.append(index % size)
        index //= size
    return tuple(reversed(place))


def _tensor(value):
    return value if isinstance(value, Tensor) else _C.tensor(value)


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True, check_dtype=True, check_layout=True,
                 check_stride=False, msg=None):
    """Raises AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere, and dtype, device and sizes are the same.

    >>> torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    """
    if isinstance(expected, dict):
        if set(actual) != set(expected):
            raise AssertionError(f"The keys of the mappings do not match:\n{sorted(set(actual) ^ set(expected))}")
        for key in expected:
            assert_close(actual[key], expected[key], rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device, check_dtype=check_dtype, msg=msg)
        return
    if isinstance(expected, (list, tuple)) and any(isinstance(e, (Tensor, list, tuple)) for e in expected):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for a, e in zip(actual, expected):
            assert_close(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device, check_dtype=check_dtype, msg=msg)
        return
    a, e = _tensor(actual), _tensor(expected)

    def fail(text):
        raise AssertionError(msg(text) if callable(msg) else msg if msg is not None else text)
    if a.shape != e.shape:
        fail(f"The values for attribute 'shape' do not match: {a.shape} != {e.shape}.")
    if check_device and a.device != e.device:
        fail(f"The values for attribute 'device' do not match: {a.device} != {e.device}.")
    if check_dtype and a.dtype != e.dtype:
        fail(f"The values for attribute 'dtype' do not match: {a.dtype} != {e.dtype}.")
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified")
    if rtol is None:
        known = [_TOLERANCE.get(str(t.dtype).rpartition(".")[2], (0.0, 0.0)) for t in (a, e)]
        rtol, atol = max(k[0] for k in known), max(k[1] for k in known)
    a, e = a.detach().cpu().double(), e.detach().cpu().double()
    wrong = ~_C.isclose(a, e, rtol, atol, equal_nan)
    count = int(wrong.sum())
    if not count:
        return
    difference = (a - e).abs().reshape(-1)
    relative = difference / e.abs().reshape(-1)
    worst, worst_relative = int(difference.argmax()), int(relative.argmax())
    if a.ndim == 0:
        fail(f"Scalars are not close!\n\nExpected {e.item()} but got {a.item()}.\nAbsolute difference: {difference[0].item()} (up to {atol} allowed)\n"
             f"Relative difference: {relative[0].item()} (up to {rtol} allowed)")
    fail(f"Tensor-likes are not close!\n\nMismatched elements: {count} / {a.numel()} ({100 * count / a.numel():.1f}%)\n"
         f"Greatest absolute difference: {difference[worst].item()} at index {_at(worst, a.shape)} (up to {atol} allowed)\n"
         f"Greatest relative difference: {relative[worst_relative].item()} at index {_at(worst_relative, a.shape)} (up to {rtol} allowed)")


assert_allclose = assert_close
