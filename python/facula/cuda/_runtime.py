"""What torch.cuda.cudart() gives: a few functions of the CUDA runtime, and its errors' names and texts."""
import enum

from .. import _C

# number | name | text, as the CUDA runtime has them
_ERRORS = """
0 | success | no error
1 | invalidValue | invalid argument
2 | memoryAllocation | out of memory
3 | initializationError | initialization error
4 | cudartUnloading | driver shutting down
34 | stubLibrary | CUDA driver is a stub library
35 | insufficientDriver | CUDA driver version is insufficient for CUDA runtime version
46 | devicesUnavailable | CUDA-capable device(s) is/are busy or unavailable
98 | invalidDeviceFunction | invalid device function
100 | noDevice | no CUDA-capable device is detected
101 | invalidDevice | invalid device ordinal
200 | invalidKernelImage | device kernel image is invalid
201 | deviceUninitialized | invalid device context
209 | noKernelImageForDevice | no kernel image is available for execution on the device
214 | eccUncorrectable | uncorrectable ECC error encountered
218 | invalidPtx | a PTX JIT compilation failed
304 | operatingSystem | OS call failed or operation not supported on this OS
400 | invalidResourceHandle | invalid resource handle
600 | notReady | device not ready
700 | illegalAddress | an illegal memory access was encountered
701 | launchOutOfResources | too many resources requested for launch
702 | launchTimeout | the launch timed out and was terminated
704 | peerAccessAlreadyEnabled | peer access is already enabled
710 | assert | device-side assert triggered
719 | launchFailure | unspecified launch failure
801 | notSupported | operation not supported
804 | compatNotSupportedOnDevice | forward compatibility was attempted on non supported HW
999 | unknown | unknown error
"""
_ROWS = [[part.strip() for part in line.split("|")] for line in _ERRORS.strip().split("\n")]
_TEXTS = {int(number): text for number, _, text in _ROWS}

cudaError = enum.IntEnum("cudaError", {name: int(number) for number, name, _ in _ROWS}, module=__name__)


def cudaGetErrorString(error):
    """What the number of an error says."""
    return _TEXTS.get(int(error), "unrecognized error code")


def cudaMemGetInfo(device):
    """(free, total) bytes of the device with that index."""
    return _C._mem_get_info(_C.device("cuda", device))


def _profiler(function):
    """Calls a function of the driver that NVIDIA's profilers listen to; simulated devices have none."""
    if _C._device_properties(_C.device("cuda"))["simulated"]:
        return cudaError.success
    import ctypes
    return cudaError(getattr(ctypes.CDLL("libcuda.so.1"), function)())


def cudaProfilerStart():
    """A profiler that waits for it collects from here on; where none listens, nothing happens."""
    return _profiler("cuProfilerStart")


def cudaProfilerStop():
    """A profiler stops collecting."""
    return _profiler("cuProfilerStop")


def _not_there(name, instead):
    def missing(*args):
        raise NotImplementedError(f"cudart().{name} is not planned. {instead}")
    missing.__name__, missing.__doc__ = name, f"Not planned: {instead}"
    return missing


_PIN = "Pinned memory: torch.empty(n, pin_memory=True) or tensor.pin_memory()."
_STREAM = "Streams: torch.cuda.Stream(); those of other libraries: torch.cuda.ExternalStream(handle)."
cudaHostRegister, cudaHostUnregister = _not_there("cudaHostRegister", _PIN), _not_there("cudaHostUnregister", _PIN)
cudaStreamCreate, cudaStreamDestroy = _not_there("cudaStreamCreate", _STREAM), _not_there("cudaStreamDestroy", _STREAM)
