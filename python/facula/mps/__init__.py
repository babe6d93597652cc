"""Devices of the kind mps: Apple's GPUs."""
from .. import _missing
from .._device_module import make as _make

_made = _make("mps")
globals().update(_made)


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


def synchronize():
    """Waits until all that was started on the device is done; errors that came late are raised here.

    >>> if torch.mps.is_available():
    ...     torch.mps.synchronize()
    """
    _there("deviceSynchronize")
    _made["synchronize"]()


def empty_cache():
    """Gives cached memory that is not in use back to the driver.

    >>> if torch.mps.is_available():
    ...     torch.mps.empty_cache()
    """
    _there("emptyCache")
    _made["empty_cache"]()


def set_per_process_memory_fraction(fraction):
    """Limits this process to a part of the device's memory: what would need more is out of memory. fraction: 0 to 2.

    >>> if torch.mps.is_available():
    ...     torch.mps.set_per_process_memory_fraction(0.5)
    """
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 2:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~2")
    _there("setMemoryFraction")
    _made["set_per_process_memory_fraction"](min(fraction, 1.0))


class Event(Event):
    """Event(enable_timing=False)

    A mark in the device's queue: work that comes later can wait for it, and the time between two of them can be measured.

    >>> event = torch.mps.Event() if torch.mps.is_available() else None
    """

    def __init__(self, enable_timing=False):
        super().__init__(enable_timing)

    def record(self):
        """Puts it behind all work so far."""
        super().record()

    def wait(self):
        """Work that comes later begins after it."""
        super().wait()


__getattr__ = _missing.attribute_of(__name__, ("event", "profiler"))
