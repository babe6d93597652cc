"""CUDA devices: NVIDIA's, or the simulated ones of FACULA_SIM=cuda:2."""
from .. import _C
from .._C import AcceleratorError, OutOfMemoryError
from .._device_module import make as _make

from .. import _types

globals().update(_make("cuda"))
globals().update(_types.old_types(f"{_C._names}.cuda", "cuda"))
CudaError = AcceleratorError


def is_bf16_supported(including_emulation=True):
    """Whether bfloat16 can be used there: wherever there is a device."""
    return is_available()


def ipc_collect():
    """Nothing is shared between processes, so nothing is to be collected."""


def get_arch_list():
    """The architectures that kernels are compiled for: when a program runs, for the device that is there."""
    return ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


def memory_summary(device=None, abbreviated=False):
    """Allocated and reserved memory as a table."""
    stats = memory_stats(device)
    if not stats:
        raise KeyError("allocated_bytes.all.current")
    rows = "\n".join(f"| {name:<40} | {value:>20} B |" for name, value in stats.items())
    line = "|" + "=" * 68 + "|"
    return f"{line}\n|{'Facula: memory of ' + str(_C.device('cuda', current_device() if device is None else device)):^68}|\n{line}\n{rows}\n{line}\n"


def get_device_module():
    """torch.cuda itself."""
    import sys
    return sys.modules[__name__]


from . import amp
