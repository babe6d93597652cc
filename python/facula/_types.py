"""Limits of number types, and torch's old names of tensor classes."""
from . import _C
from ._C import Tensor

_FLOATS = {  # bits of the exponent range and of the fraction
    "float16": (-14, 15, 10), "bfloat16": (-126, 127, 7), "float32": (-126, 127, 23), "float64": (-1022, 1023, 52)}


class finfo:
    """finfo(dtype): eps, max, min, tiny, resolution of a floating-point type.

    >>> torch.finfo(torch.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, dtype=None):
        dtype = _C.get_default_dtype() if dtype is None else dtype
        name = str(dtype).rpartition(".")[2]
        if name not in _FLOATS:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{name}'")
        low, high, fraction = _FLOATS[name]
        self.dtype, self.bits = name, dtype.itemsize * 8
        self.eps, self.tiny = 2.0 ** -fraction, 2.0 ** low
        self.smallest_normal, self.max = self.tiny, (2 - self.eps) * 2.0 ** high
        self.min = -self.max
        self.resolution = 10.0 ** -int(fraction * 0.30102999566398)

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, "
                f"tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """iinfo(dtype): min and max of an integer type.

    >>> torch.iinfo(torch.int16).max
    32767
    """

    def __init__(self, dtype):
        name = str(dtype).rpartition(".")[2]
        if dtype.is_floating_point or name == "bool":
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{name}'")
        self.dtype, self.bits = name, dtype.itemsize * 8
        self.min, self.max = (0, 255) if name == "uint8" else (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1)

    def __repr__(self):
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


class _OldType(type):
    """The class of torch.FloatTensor and its kind: isinstance looks at dtype and device."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype and instance.device.type == cls._device

    def __call__(cls, *args):
        if len(args) == 1 and not isinstance(args[0], int):
            data = args[0]
            made = data.to(cls.dtype) if isinstance(data, Tensor) else _C.empty(data, dtype=cls.dtype) if isinstance(data, _C.Size) else _C.tensor(data, dtype=cls.dtype)
        else:
            made = _C.empty(*args, dtype=cls.dtype) if args else _C.empty(0, dtype=cls.dtype)
        return made.to(cls._device)

    def __repr__(cls):
        return f"<class '{cls.__module__}.{cls.__name__}'>"


NAMES = {"Float": _C.float32, "Double": _C.float64, "Half": _C.float16, "BFloat16": _C.bfloat16, "Long": _C.int64, "Int": _C.int32, "Short": _C.int16,
         "Char": _C.int8, "Byte": _C.uint8, "Bool": _C.bool}


_OLD_DOC = """Old name of {2} tensors.

>>> {0}.{1}Tensor(2).shape
torch.Size([2])
"""


def old_types(module, device):
    """{"FloatTensor": ..., ...} for a module and a kind of device."""
    return {f"{name}Tensor": _OldType(f"{name}Tensor", (), {"dtype": dtype, "_device": device, "__module__": module, "__doc__": _OLD_DOC.format(module.replace("facula", "torch"), name, dtype)})
            for name, dtype in NAMES.items()}
