"""torch.cpu: the functions of a device's module for the processor, which is always there and never late."""

__all__ = ["amp", "is_available", "device_count", "current_device", "set_device", "synchronize"]


def is_available():
    """Whether there is a CPU: True.

    >>> torch.cpu.is_available()
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


from . import amp
