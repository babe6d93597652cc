"""Whichever accelerator is there: cuda, xpu, mps, ..."""
from .. import _C, _missing
from .._device_module import make as _make
from .._graphs import AcceleratorGraph as Graph

__all__ = ["Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count", "device_index", "empty_cache", "empty_host_cache",
           "get_device_capability", "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
           "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize"]
_made = {}


def _module():
    """The functions of the accelerator's kind; those of cuda where there is none, which say what is missing."""
    found = _C._accelerator()
    kind = "cuda" if found is None else found.type
    return _made.setdefault(kind, _make(kind))


def _index(device, optional=True):
    """The index of an accelerator out of None (the current one), a number, a text or a device."""
    if device is None or isinstance(device, int):
        return device
    if isinstance(device, str):
        device = _C.device(device)
    index = getattr(device, "index", None)
    if isinstance(device, _C.device):
        found = _C._accelerator()
        if found is not None and device.type != found.type:
            raise RuntimeError(f"{device.type} doesn't match the current accelerator {found}. Give a device of that type, its number, or None for the current one")
    if index is None and not (optional and isinstance(device, _C.device)):
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}. Give a number: 0 is the first accelerator")
    return index


def is_available():
    """Whether there is an accelerator.

    >>> torch.accelerator.is_available()
    True
    """
    return _C._accelerator() is not None


def device_count():
    """How many accelerators there are.

    >>> torch.accelerator.device_count()
    2
    """
    return _module()["device_count"]() if is_available() else 0


def current_accelerator(check_available=False):
    """The kind of accelerator, as a device without an index; None where there is none.

    >>> torch.accelerator.current_accelerator()
    device(type='cuda')
    """
    return _C._accelerator()


def current_device_index():
    """The index of the current accelerator.

    >>> torch.accelerator.current_device_index()
    0
    """
    return _module()["current_device"]()


def set_device_index(device, /):
    """Makes an accelerator the current one of this thread.

    >>> torch.accelerator.set_device_index(1)
    >>> torch.accelerator.current_device_index()
    1
    >>> torch.accelerator.set_device_index(0)
    """
    _module()["set_device"](_index(device, optional=False))


def current_device_idx():
    """The old name of current_device_index.

    >>> torch.accelerator.current_device_idx() == torch.accelerator.current_device_index()
    True
    """
    _renamed("current_device_index")
    return current_device_index()


def set_device_idx(device, /):
    """The old name of set_device_index.

    >>> torch.accelerator.set_device_idx(0)
    """
    _renamed("set_device_index")
    set_device_index(device)


def _renamed(name):
    import warnings
    warnings.warn(f"Use `{name}` instead.", FutureWarning, stacklevel=3)


class device_index:
    """`with device_index(1):` another current accelerator until the end.

    >>> with torch.accelerator.device_index(1):
    ...     torch.accelerator.current_device_index()
    1
    """

    def __init__(self, device, /):
        self.idx, self.prev_idx = _index(device), None

    def __enter__(self):
        if self.idx is not None:
            self.prev_idx = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *error):
        if self.prev_idx is not None:
            set_device_index(self.prev_idx)
        return False


def current_stream(device=None, /):
    """The stream that work of this thread goes to.

    >>> torch.accelerator.current_stream().device
    device(type='cuda', index=0)
    """
    return _module()["current_stream"](_index(device))


def set_stream(stream):
    """Work of this thread goes to stream, and its device is the current one.

    >>> s = torch.Stream()
    >>> torch.accelerator.set_stream(s)
    >>> torch.accelerator.current_stream() == s
    True
    >>> torch.accelerator.set_stream(torch.cuda.default_stream())
    """
    _module()["set_stream"](stream)


def synchronize(device=None, /):
    """Waits until all that was started is done.

    >>> torch.accelerator.synchronize()
    """
    _module()["synchronize"](_index(device))


def empty_cache():
    """Gives cached memory that is not in use back.

    >>> torch.accelerator.empty_cache()
    """
    _module()["empty_cache"]()


def empty_host_cache():
    """Gives pinned memory of the host that is not in use back to the driver.

    >>> torch.accelerator.empty_host_cache()
    """
    _C._pinned_empty_cache()


def memory_allocated(device_index=None, /):
    """Bytes in tensors that live.

    >>> x = torch.ones(1000, device='cuda')
    >>> torch.accelerator.memory_allocated() >= 4096
    True
    """
    return _module()["memory_allocated"](_index(device_index))


def memory_reserved(device_index=None, /):
    """Bytes taken from the driver.

    >>> torch.accelerator.memory_reserved() >= torch.accelerator.memory_allocated()
    True
    """
    return _module()["memory_reserved"](_index(device_index))


def max_memory_allocated(device_index=None, /):
    """The most bytes that were in tensors at once.

    >>> torch.accelerator.max_memory_allocated() >= torch.accelerator.memory_allocated()
    True
    """
    return _module()["max_memory_allocated"](_index(device_index))


def max_memory_reserved(device_index=None, /):
    """The most bytes that were taken from the driver at once.

    >>> torch.accelerator.max_memory_reserved() >= torch.accelerator.memory_reserved()
    True
    """
    return _module()["max_memory_reserved"](_index(device_index))


def memory_stats(device_index=None, /):
    """Allocated and reserved bytes under torch's names.

    >>> torch.accelerator.memory_stats()['allocated_bytes.all.current'] == torch.accelerator.memory_allocated()
    True
    """
    return _module()["memory_stats"](_index(device_index))


def reset_peak_memory_stats(device_index=None, /):
    """The peaks start anew.

    >>> torch.accelerator.reset_peak_memory_stats()
    >>> torch.accelerator.max_memory_allocated() == torch.accelerator.memory_allocated()
    True
    """
    if is_available():
        _module()["reset_peak_memory_stats"](_index(device_index))


def reset_accumulated_memory_stats(device_index=None, /):
    """What was ever allocated and freed counts from 0 again.

    >>> torch.accelerator.reset_accumulated_memory_stats()
    """
    if is_available():
        _module()["reset_accumulated_memory_stats"](_index(device_index))


def get_memory_info(device_index=None, /):
    """(free, total) bytes.

    >>> free, total = torch.accelerator.get_memory_info()
    >>> 0 < free <= total
    True
    """
    return _module()["mem_get_info"](_index(device_index))


def get_device_capability(device=None, /):
    """What the accelerator can compute with.

    >>> torch.float16 in torch.accelerator.get_device_capability()['supported_dtypes']
    True
    """
    _module()["get_device_properties"](_index(device))  # whether it is there
    return {"supported_dtypes": {_C.bool, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.float16, _C.bfloat16, _C.float32, _C.float64}}


__getattr__ = _missing.attribute_of(__name__)
