"""Facula: PyTorch's tensors, autograd, training and devices as a small library. `import facula as torch`."""
from . import _names

_names.settle(globals())

import builtins as _builtins
import math as _math

from . import _C
from ._C import *
from ._C import __version__, _nn

_C._package(__path__[0])
from . import _types
from . import return_types
from ._types import finfo, iinfo

inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
newaxis = None
globals().update(_types.old_types(_C._names, "cpu"))

# torch.sin_(x) is x.sin_(): these methods are functions too.
_IN_PLACE = """
    abs_ acos_ acosh_ arccos_ arcsin_ arctan_ asin_ asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ cos_
    cosh_ deg2rad_ detach_ erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ index_put_ lcm_ ldexp_ log10_ log1p_
    log2_ log_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ resize_as_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_
    sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_
"""
globals().update({_name: getattr(Tensor, _name) for _name in _IN_PLACE.split()})
del _IN_PLACE

TYPE_CHECKING = False
if TYPE_CHECKING:  # what comes when it is asked for, told to editors
    from . import distributions, io, nn, optim, random, utils
    FloatTensor = DoubleTensor = HalfTensor = LongTensor = IntTensor = ShortTensor = CharTensor = ByteTensor = BoolTensor = Tensor
del TYPE_CHECKING


def manual_seed(seed):
    """manual_seed(seed) -> Generator

    Starts the random numbers of every device anew; returns the CPU's generator.

    >>> generator = torch.manual_seed(0)
    >>> torch.rand(2)
    tensor([0.4963, 0.7682])
    """
    _C._manual_seed(seed)
    return _C._default_generator(None)


def seed():
    """seed() -> int

    Seeds the CPU's random numbers from the system's randomness.

    >>> torch.seed() == torch.initial_seed()
    True
    """
    return _C._default_generator(None).seed()


def initial_seed():
    """initial_seed() -> int

    The seed that the CPU's random numbers started from.

    >>> torch.manual_seed(3) is not None
    True
    >>> torch.initial_seed()
    3
    """
    return _C._default_generator(None).initial_seed()


def get_rng_state():
    """get_rng_state() -> Tensor

    All that further random numbers of the CPU depend on.

    >>> torch.get_rng_state().shape
    torch.Size([5056])
    """
    return _C._default_generator(None).get_state()


def set_rng_state(new_state):
    """set_rng_state(new_state)

    Goes on from what get_rng_state gave.

    >>> state = torch.get_rng_state()
    >>> first = torch.rand(2)
    >>> torch.set_rng_state(state)
    >>> torch.equal(first, torch.rand(2))
    True
    """
    _C._default_generator(None).set_state(new_state)


def is_tensor(obj):
    """is_tensor(obj) -> bool

    Whether obj is a Tensor.

    >>> torch.is_tensor([1.])
    False
    """
    return isinstance(obj, Tensor)


def _tensor(name, input):
    """input, which must be a Tensor."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input


def is_floating_point(input):
    """is_floating_point(input) -> bool

    Whether the elements are floating-point numbers.

    >>> torch.is_floating_point(torch.tensor([1]))
    False
    """
    return _tensor("is_floating_point", input).is_floating_point()


def is_complex(input):
    """is_complex(input) -> bool

    False: Facula has no complex numbers.

    >>> torch.is_complex(torch.ones(2))
    False
    """
    return _tensor("is_complex", input).is_complex()


def is_nonzero(input):
    """is_nonzero(input) -> bool

    Whether the only element is not zero.

    >>> torch.is_nonzero(torch.tensor([2.]))
    True
    """
    return _builtins.bool(_tensor("is_nonzero", input))


def numel(input):
    """numel(input) -> int

    The number of elements.

    >>> torch.numel(torch.ones(2, 3))
    6
    """
    return _tensor("numel", input).numel()


def typename(obj):
    """typename(obj) -> str

    The name of a tensor's type, or of an object's class.

    >>> torch.typename(torch.ones(2))
    'torch.FloatTensor'
    """
    return obj.type() if isinstance(obj, Tensor) else f"{type(obj).__module__}.{type(obj).__qualname__}"


def get_device(input):
    """get_device(input) -> int

    The number of the tensor's device, -1 for the CPU.

    >>> torch.get_device(torch.ones(2))
    -1
    """
    return _tensor("get_device", input).get_device()


def scalar_tensor(value, **options):
    """scalar_tensor(value, *, dtype=None, device=None, requires_grad=False) -> Tensor

    A 0-dimensional tensor; a float by default.

    >>> torch.scalar_tensor(2)
    tensor(2.)
    """
    options.setdefault("dtype", get_default_dtype())
    return full((), value, **options)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False) -> Tensor

    A tensor of obj, sharing its memory where that is possible and copy is not True.

    >>> torch.asarray([1., 2.])
    tensor([1., 2.])
    """
    result = tensor(obj, dtype=dtype, device=device) if copy and not is_tensor(obj) else as_tensor(obj, dtype=dtype, device=device)
    if copy and result is obj:
        result = result.clone()
    return result.requires_grad_() if requires_grad else result


def set_default_tensor_type(t, /):
    """set_default_tensor_type(t, /)

    The old way to set the default dtype and device.

    >>> torch.set_default_tensor_type('torch.FloatTensor')
    """
    import warnings
    warnings.warn("torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and torch.set_default_device() "
                  "as alternatives.", stacklevel=2)
    kind, _, name = (t if isinstance(t, str) else f"torch.{t._device}.{t.__name__}").rpartition(".")
    dtype = _types.NAMES.get(name.removesuffix("Tensor")) if kind.partition(".")[0] == "torch" else None
    if dtype is None:
        raise TypeError(f"invalid type object: {t} is no tensor type, as 'torch.FloatTensor' or 'torch.cuda.FloatTensor' are")
    set_default_dtype(dtype)
    set_default_device(kind.partition(".")[2] or "cpu")


_print_options = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_print_profiles = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, inf, 3, 80)}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None)

    How tensors are printed: digits, from how many elements on they are shortened, how many are shown at each edge, width of a line;
    profile "default", "short" or "full"; sci_mode True or False instead of by need.

    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([1.23456])
    tensor([1.23])
    >>> torch.set_printoptions(profile='default')
    """
    options = _print_options
    if profile in _print_profiles:
        options.update(zip(("precision", "threshold", "edgeitems", "linewidth"), _print_profiles[profile]), sci_mode=None)
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options.update({name: value for name, value in given.items() if value is not None})
    options["sci_mode"] = sci_mode
    threshold = 2 ** 62 if options["threshold"] == inf else _builtins.int(options["threshold"])
    _C._set_print(options["precision"], threshold, options["edgeitems"], options["linewidth"], -1 if sci_mode is None else _builtins.int(_builtins.bool(sci_mode)))


def get_float32_matmul_precision():
    """get_float32_matmul_precision() -> str

    "highest": float32 products are computed in float32. "high", "medium": NVIDIA's library may round to TF32 first.

    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    if not backends.cuda.matmul.allow_tf32:
        return "highest"
    return "medium" if _matmul_precision == "medium" else "high"


_matmul_precision = "highest"


def set_float32_matmul_precision(precision):
    """set_float32_matmul_precision(precision)

    "highest": float32 products are computed in float32. "high" or "medium": on cuda devices cuBLASLt may round float32 to TF32 (10 bits) first,
    as after torch.backends.cuda.matmul.allow_tf32 = True.

    >>> torch.set_float32_matmul_precision('highest')
    """
    global _matmul_precision
    if precision not in ("highest", "high", "medium"):
        import warnings
        warnings.warn(f"{precision} is not one of 'highest', 'high', or 'medium'; the current setFloat32MatmulPrecision call has no effect.", stacklevel=2)
        return
    _matmul_precision = precision
    backends.cuda.matmul.allow_tf32 = precision != "highest"


_warn_only = False


def use_deterministic_algorithms(mode, *, warn_only=False):
    """use_deterministic_algorithms(mode, *, warn_only=False)

    Facula's own kernels give the same bits in every run; with True, cuDNN, where it is used, takes only algorithms that do so too.

    >>> torch.use_deterministic_algorithms(False)
    """
    global _warn_only
    _warn_only = warn_only
    _C._math_modes(64 if mode else 0, 64)


def are_deterministic_algorithms_enabled():
    """are_deterministic_algorithms_enabled() -> bool

    What use_deterministic_algorithms was given.

    >>> torch.are_deterministic_algorithms_enabled()
    False
    """
    return _builtins.bool(_C._math_modes(0, 0) & 64)


def is_deterministic_algorithms_warn_only_enabled():
    """is_deterministic_algorithms_warn_only_enabled() -> bool

    The warn_only that use_deterministic_algorithms was given.

    >>> torch.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _warn_only


def set_deterministic_debug_mode(debug_mode):
    """set_deterministic_debug_mode(debug_mode)

    use_deterministic_algorithms by a word or a number: "default" (0), "warn" (1) or "error" (2).

    >>> torch.set_deterministic_debug_mode('default')
    """
    words = {"default": 0, "warn": 1, "error": 2}
    if not isinstance(debug_mode, (_builtins.int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    number = words.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if number not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected " + ("one of `default`, `warn`, `error`, but got " if isinstance(debug_mode, str) else
                                                                       "0, 1, or 2, but got ") + f"{debug_mode}")
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


def get_deterministic_debug_mode():
    """get_deterministic_debug_mode() -> int

    0, 1 or 2, as set_deterministic_debug_mode takes it.

    >>> torch.get_deterministic_debug_mode()
    0
    """
    return (1 if _warn_only else 2) if are_deterministic_algorithms_enabled() else 0


def get_num_interop_threads():
    """get_num_interop_threads() -> int

    1: operations are not run beside one another.

    >>> torch.get_num_interop_threads() > 0
    True
    """
    return 1


def set_num_interop_threads(n):
    """set_num_interop_threads(n)

    Noted: operations are not run beside one another.

    >>> torch.get_num_interop_threads() > 0
    True
    """


def broadcast_shapes(*shapes):
    """broadcast_shapes(*shapes) -> Size

    The shape that tensors of these shapes broadcast to.

    >>> torch.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    shapes = [(s,) if isinstance(s, _builtins.int) else tuple(s) for s in shapes]
    result = [1] * _builtins.max(_builtins.map(len, shapes), default=0)
    for i, shape in enumerate(shapes):
        for k in _builtins.range(-1, -1 - len(shape), -1):
            if shape[k] == 1 or shape[k] == result[k]:
                continue
            if result[k] != 1:
                raise RuntimeError(f"Attempting to broadcast a dimension of length {shape[k]} at {k}! Mismatching argument at index {i} had {shape}; but expected "
                                   f"shape should be broadcastable to {result}")
            result[k] = shape[k]
    return Size(result)


def get_device_module(device=None):
    """get_device_module(device=None) -> module

    torch.cuda for a CUDA device, and so on.

    >>> torch.get_device_module('cpu').__name__
    'torch.cpu'
    """
    from importlib import import_module
    kind = (_C._accelerator() or _C.device("cpu")).type if device is None else _C.device(device).type
    return import_module(f"{__name__}.{kind}")


default_generator = _C._default_generator(None)

from ._streams import Event, Stream
from . import accelerator, amp, autograd, backends, cpu, cuda, mps, npu, opencl, testing, version, xpu
from .serialization import load, save
from ._helpers import check, device_of, doctor, fallbacks, move, pick_device, selftest, to_device
from .amp import GradScaler, autocast
from . import _missing
from ._missing import compile


def load_ipython_extension(shell):
    """%load_ext facula: `import torch` gives Facula from now on."""
    _names.become_torch()
    _missing.say_neighbours()


__getattr__ = _missing.attribute_of(__name__, ("nn", "optim", "utils", "io", "random", "storage", "distributions", "functional", "onnx", "linalg", "fft", "special", "multiprocessing", "jit", "serialization", "func"))
_missing.install()
