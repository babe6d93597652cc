"""CUDA devices: NVIDIA's, or the simulated ones of FACULA_SIM=cuda:2."""
from .. import _C
from .._C import AcceleratorError, OutOfMemoryError
from .._device_module import make as _make

from .. import _types

globals().update(_make("cuda"))
globals().update(_types.old_types(f"{_C._names}.cuda", "cuda"))
CudaError = AcceleratorError


def is_bf16_supported(including_emulation=True):
    """Whether bfloat16 can be used there: wherever there is a device.

    >>> torch.cuda.is_bf16_supported()
    True
    """
    return is_available()


def ipc_collect():
    """Nothing is shared between processes, so nothing is to be collected.

    >>> torch.cuda.ipc_collect()
    """


def get_arch_list():
    """The architectures that kernels are compiled for: when a program runs, for the device that is there.

    >>> 'sm_90' in torch.cuda.get_arch_list()
    True
    """
    return ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


def get_device_module():
    """The module torch.cuda itself.

    >>> torch.cuda.get_device_module().is_available()
    True
    """
    import sys
    return sys.modules[__name__]


from . import amp, memory
