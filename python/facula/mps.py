"""Devices of the kind mps."""
from ._device_module import make as _make

globals().update(_make("mps"))


def _there(function):
    if not is_available():
        raise RuntimeError(f"Cannot execute {function}() without MPS backend.")


def current_allocated_memory():
    """Bytes in tensors that live.

    >>> torch.mps.current_allocated_memory() if torch.mps.is_available() else 0
    0
    """
    _there("getCurrentAllocatedMemory")
    return memory_allocated()


def driver_allocated_memory():
    """Bytes taken from the driver, in use or cached.

    >>> torch.mps.driver_allocated_memory() if torch.mps.is_available() else 0
    0
    """
    _there("getDriverAllocatedMemory")
    return memory_reserved()


def recommended_max_memory():
    """Bytes that this process should not go beyond: what the device has.

    >>> torch.mps.recommended_max_memory() if torch.mps.is_available() else 0
    0
    """
    _there("getRecommendedMaxMemory")
    return mem_get_info()[1]
