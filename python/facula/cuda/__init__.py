"""CUDA devices: NVIDIA's, or the simulated ones of FACULA_SIM=cuda:2."""
from .. import _C
from .._C import AcceleratorError, OutOfMemoryError
from .._device_module import make as _make

from .. import _types

globals().update(_make("cuda"))
globals().update(_types.old_types(f"{_C._names}.cuda", "cuda"))
has_half, has_magma = True, False


def ipc_collect():
    """Nothing is shared between processes, so nothing is to be collected.

    >>> torch.cuda.ipc_collect()
    """
    init()


def get_arch_list():
    """The architectures that kernels are compiled for: when a program runs, for the device that is there.

    >>> 'sm_90' in torch.cuda.get_arch_list()
    True
    """
    return ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


def get_gencode_flags():
    """get_arch_list as flags of NVIDIA's compiler.

    >>> torch.cuda.get_gencode_flags().split()[:2]
    ['-gencode', 'compute=compute_75,code=sm_75']
    """
    return " ".join(f"-gencode compute=compute_{a[3:]},code={a}" for a in get_arch_list())


class CudaError(RuntimeError):
    """CudaError(code): an error of the CUDA runtime, by its number.

    >>> str(torch.cuda.CudaError(2))
    'out of memory (2)'
    """

    def __init__(self, code):
        from ._runtime import cudaGetErrorString
        super().__init__(f"{cudaGetErrorString(code)} ({code})")


class DeferredCudaCallError(Exception):
    """In PyTorch: a call that waited for the first use of a device failed. Facula puts no calls off, so it is never raised.

    >>> issubclass(torch.cuda.DeferredCudaCallError, Exception)
    True
    """


class cudaStatus:
    """Numbers of the CUDA runtime's errors; cudart().cudaError has more.

    >>> torch.cuda.cudaStatus.SUCCESS
    0
    """

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


def check_error(res):
    """Raises CudaError for the number of an error; 0 is none.

    >>> torch.cuda.check_error(0)
    """
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def cudart():
    """A few functions of the CUDA runtime: cudaMemGetInfo, cudaGetErrorString, cudaProfilerStart, and cudaError, its errors by name.

    >>> free, total = torch.cuda.cudart().cudaMemGetInfo(0)
    >>> free <= total
    True
    """
    init()
    from . import _runtime
    return _runtime


def current_blas_handle():
    """The handle of cuBLAS: a NotImplementedError.

    >>> torch.cuda.current_blas_handle()
    NotImplementedError: current_blas_handle(): matrix products do not go through cuBLAS handles that others could use
    """
    init()
    raise NotImplementedError("current_blas_handle(): matrix products do not go through cuBLAS handles that others could use")


def current_solver_handle():
    """The handle of cuSOLVER: a NotImplementedError.

    >>> torch.cuda.current_solver_handle()
    NotImplementedError: current_solver_handle(): linear algebra is LAPACK's, on the host; cuSOLVER is not used
    """
    init()
    raise NotImplementedError("current_solver_handle(): linear algebra is LAPACK's, on the host; cuSOLVER is not used")


def libraries():
    """NVIDIA's libraries that are used in place of Facula's own kernels, each as a dict: name, file, version, usable, why (it is not usable, or
    what it declined last), calls (how often it did the work), declined (how often it left it to Facula's own kernel).

    >>> [library['name'] for library in torch.cuda.libraries()]
    ['cublaslt', 'cudnn']
    """
    return _C._libraries(_C.device("cuda"))


def set_sync_debug_mode(debug_mode):
    """What comes of waits that nobody asked for, as item() makes them: "default" (0) nothing, "warn" (1) a warning, "error" (2) a RuntimeError.
    Both name the operation and the line.

    >>> torch.cuda.set_sync_debug_mode("error")
    >>> try:
    ...     torch.ones(1, device="cuda").item()
    ... except RuntimeError as error:
    ...     print(str(error)[:40])
    called a synchronizing CUDA operation: '
    >>> torch.cuda.set_sync_debug_mode("default")
    """
    init()
    names = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str) and debug_mode not in names:
        raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
    _C._sync_debug_mode(names.get(debug_mode, debug_mode))


def get_sync_debug_mode():
    """What comes of waits that nobody asked for: 0, 1 or 2.

    >>> torch.cuda.get_sync_debug_mode()
    0
    """
    init()
    return _C._sync_debug_mode()


def get_device_module():
    """The module torch.cuda itself.

    >>> torch.cuda.get_device_module().is_available()
    True
    """
    import sys
    return sys.modules[__name__]


from . import amp, memory
from .. import _missing

__getattr__ = _missing.attribute_of(__name__, ("comm", "graphs", "nccl", "nvtx", "profiler", "random", "streams"))
