"""Switches of libraries that PyTorch uses. Facula has kernels of its own: the switches can be set and read, and change nothing."""
import sys as _sys
import types as _types

from .. import _C, _missing


class _Switches(_types.ModuleType):
    """A module of attributes."""

    def __init__(self, name, **attributes):
        super().__init__(f"{__name__}.{name}", "Switches that can be set and read; Facula does not need them.")
        self.__dict__.update(attributes)
        _sys.modules[self.__name__] = self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        _fill()
        if name in self.__dict__:
            return self.__dict__[name]
        raise AttributeError(_missing.message(self.__name__, name, self.__dict__))

    def __dir__(self):
        _fill()
        return super().__dir__()


_filled = []


def _fill():
    """The functions of these modules are made when one is asked for that is not there."""
    if not _filled:
        _filled.append(True)
        from ._switches import add
        add(globals())


cudnn = _Switches("cudnn", enabled=True, benchmark=False, deterministic=False, allow_tf32=True, is_available=lambda: False, version=lambda: None)
cuda = _Switches("cuda", is_built=lambda: True, matmul=_types.SimpleNamespace(allow_tf32=False))
mps = _Switches("mps", is_available=lambda: _C._device_is_available(_C.device("mps")), is_built=lambda: True)
mkl = _Switches("mkl", is_available=lambda: False)
mkldnn = _Switches("mkldnn", is_available=lambda: False, enabled=False)
openmp = _Switches("openmp", is_available=lambda: False)
quantized = _Switches("quantized", engine="none", supported_engines=["none"])
cpu, mha, opt_einsum = _Switches("cpu"), _Switches("mha"), _Switches("opt_einsum")
__getattr__ = _missing.attribute_of(__name__)
