"""Switches of libraries. cudnn and cuda.matmul steer NVIDIA's cuDNN and cuBLASLt, which are used where they are there (docs/cuda.md); Facula
has kernels of its own for all else, so the other switches can be set and read, and change nothing."""
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


# bits of fa_set_math_modes
_MATMUL_TF32, _CONV_TF32, _BENCHMARK, _DETERMINISTIC, _MATMUL_LIBRARY, _CONV_LIBRARY = 1, 2, 4, 8, 16, 32


def _switch(bit, setter, doc):
    """A property that is one bit of the library's modes."""

    def get(self):
        return bool(_C._math_modes(0, 0) & bit)

    def set_(self, on):
        if not isinstance(on, bool):
            raise RuntimeError(f"{setter} expects a bool, but got {type(on).__name__}")
        _C._math_modes(bit if on else 0, bit)

    return property(get, set_, doc=doc)


def _library(name):
    for library in _C._libraries(_C.device("cuda")):
        if library["name"] == name:
            return library
    return None


class _Cudnn(_Switches):
    """Convolutions of cuda devices by NVIDIA's cuDNN, where it is there; else, and with enabled = False, by Facula's own kernels."""

    enabled = _switch(_CONV_LIBRARY, "set_enabled_cudnn", "False: Facula's own kernels compute convolutions.")
    benchmark = _switch(_BENCHMARK, "set_benchmark_cudnn", "True: the first convolution of each shape measures all algorithms and keeps the fastest.")
    deterministic = _switch(_DETERMINISTIC, "set_deterministic_cudnn", "True: only algorithms that give the same bits each time.")
    allow_tf32 = _switch(_CONV_TF32, "set_allow_tf32_cublas", "False: float32 is never rounded to TF32 (10 bits) before it is multiplied.")

    def __dir__(self):
        return sorted({*super().__dir__(), *(name for name in vars(type(self)) if not name.startswith("_"))})

    def is_available(self):
        """Whether cuDNN is there, and a device that it serves."""
        library = _library("cudnn")
        return library is not None and library["usable"]

    def version(self):
        """cuDNN's version, as 90300 for 9.3.0; None where it is not used."""
        library = _library("cudnn")
        return library["version"] if library and library["usable"] else None


class _Matmul:
    """Matrix products of cuda devices by cuBLASLt, where it is there."""

    allow_tf32 = _switch(_MATMUL_TF32, "set_allow_tf32_cublas", "True: float32 may be rounded to TF32 (10 bits) before it is multiplied.")
    #: Sums of 16-bit numbers are float32 throughout: these two can be set and change nothing.
    allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = False


_BLAS = {"cublaslt": True, "cublas": True, "default": True, "facula": False}


def _preferred_blas_library(backend=None):
    """Which library multiplies matrices on cuda devices: 'cublaslt', where it is there, or 'facula', the own kernels. Returns the one that
    is preferred; None changes nothing."""
    if backend is not None:
        if backend not in _BLAS:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(_BLAS)}. Found {backend!r}")
        _C._math_modes(_MATMUL_LIBRARY if _BLAS[backend] else 0, _MATMUL_LIBRARY)
    return "cublaslt" if _C._math_modes(0, 0) & _MATMUL_LIBRARY else "facula"


cudnn = _Cudnn("cudnn")
cudnn.__doc__ = _Cudnn.__doc__
cuda = _Switches("cuda", is_built=lambda: True, matmul=_Matmul(), preferred_blas_library=_preferred_blas_library)
mps = _Switches("mps", is_available=lambda: _C._device_is_available(_C.device("mps")), is_built=lambda: True)
mkl = _Switches("mkl", is_available=lambda: False)
mkldnn = _Switches("mkldnn", is_available=lambda: False, enabled=False)
openmp = _Switches("openmp", is_available=lambda: False)
quantized = _Switches("quantized", engine="none", supported_engines=["none"])
cpu, mha, opt_einsum = _Switches("cpu"), _Switches("mha"), _Switches("opt_einsum")
__getattr__ = _missing.attribute_of(__name__)
