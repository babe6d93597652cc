"""Devices of the kind xpu: Intel's GPUs."""
from .. import _missing
from .._C import AcceleratorError, OutOfMemoryError
from .._device_module import make as _make

_made = _make("xpu")
globals().update(_made)


def can_device_access_peer(device, peer):
    """Whether copies between two devices need not go through the host.

    >>> torch.xpu.is_available() and torch.xpu.can_device_access_peer(0, 0)
    False
    """
    return _made["can_device_access_peer"](device, peer)


def memory_snapshot(mempool_id=None):
    """Every piece of memory taken from the driver, of all devices: a list of dicts, each with its blocks.

    >>> torch.xpu.memory_snapshot()
    []
    """
    return _made["memory_snapshot"](mempool_id)


def get_arch_list():
    """The architectures that kernels are compiled for ahead: none, they are compiled when a program runs.

    >>> torch.xpu.get_arch_list()
    []
    """
    return []


def get_gencode_flags():
    """get_arch_list as flags of a compiler.

    >>> torch.xpu.get_gencode_flags()
    ''
    """
    return ""


class Event(Event):
    """Event(enable_timing=False)

    A mark in a stream: others can wait for it, and the time between two of them can be measured.

    >>> torch.xpu.Event().query()
    True
    """

    def __init__(self, enable_timing=False):
        super().__init__(enable_timing)


__getattr__ = _missing.attribute_of(__name__, ("graphs", "memory", "random", "streams"))
