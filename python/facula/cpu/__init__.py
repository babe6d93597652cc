"""torch.cpu: the functions of a device's module for the processor, which is always there and never late."""

from .. import _missing

__all__ = ["amp", "is_available", "is_initialized", "device_count", "current_device", "current_stream", "get_capabilities", "set_device", "stream",
           "synchronize", "Event", "Stream", "StreamContext"]


def is_available():
    """Whether there is a CPU: True.

    >>> torch.cpu.is_available()
    True
    """
    return True


def is_initialized():
    """Whether the CPU was used: True.

    >>> torch.cpu.is_initialized()
    True
    """
    return True


def device_count():
    """How many CPU devices there are: 1, whatever the number of cores.

    >>> torch.cpu.device_count()
    1
    """
    return 1


def current_device():
    """The name of the only one, "cpu".

    >>> torch.cpu.current_device()
    'cpu'
    """
    return "cpu"


def set_device(device):
    """Does nothing: there is only one.

    >>> torch.cpu.set_device('cpu')
    """


def synchronize(device=None):
    """Does nothing: the CPU's work is done when a call returns.

    >>> torch.cpu.synchronize()
    """


def get_capabilities():
    """What the processor can do beyond its architecture's basis, as Linux names it: {"avx2": True, ...}; a mapping that cannot be changed.

    >>> 'architecture' in torch.cpu.get_capabilities()
    True
    """
    import platform
    import types
    found = {"architecture": platform.machine()}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [line.partition(":") for line in file]
    except OSError:
        lines = []
    for name, _, value in lines:
        if name.strip() in ("flags", "Features"):
            found.update((flag, True) for flag in value.split())
            break
    return types.MappingProxyType(found)


class Stream:
    """Stream(priority=-1): the CPU has one queue, which is always done; for programs that serve any device.

    >>> torch.cpu.Stream().wait_stream(torch.cpu.current_stream())
    """

    def __init__(self, priority=-1):
        pass

    def wait_stream(self, stream):
        """Does nothing: all work is done."""

    def record_event(self):
        """Does nothing: all work is done."""

    def wait_event(self, event):
        """Does nothing: all work is done."""


class Event:
    """Event(): a mark behind work that is done.

    >>> torch.cpu.Event().query()
    True
    """

    def query(self):
        """Whether it was reached: True."""
        return True

    def record(self, stream=None):
        """Does nothing: all work is done."""

    def synchronize(self):
        """Does nothing: all work is done."""

    def wait(self, stream=None):
        """Does nothing: all work is done."""


_current = Stream()


class StreamContext:
    """StreamContext(stream): what `with torch.cpu.stream(s):` makes.

    >>> with torch.cpu.StreamContext(torch.cpu.Stream()):
    ...     x = torch.ones(2)
    """

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        global _current
        self._before = _current
        if self.stream is not None:
            _current = self.stream

    def __exit__(self, *error):
        global _current
        _current = self._before


def stream(stream):
    """`with stream(s):` s is the current stream; None changes nothing.

    >>> s = torch.cpu.Stream()
    >>> with torch.cpu.stream(s):
    ...     torch.cpu.current_stream() is s
    True
    """
    return StreamContext(stream)


def current_stream(device=None):
    """The current stream.

    >>> isinstance(torch.cpu.current_stream(), torch.cpu.Stream)
    True
    """
    return _current


from . import amp

__getattr__ = _missing.attribute_of(__name__)
