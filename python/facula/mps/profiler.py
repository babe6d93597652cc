"""Apple's tools that watch a program's GPU are not served: these functions say so."""
from . import _there

__all__ = ["is_capturing_metal", "is_metal_capture_enabled", "metal_capture", "profile", "start", "stop"]


def _not_there(function, name):
    _there(function)
    raise NotImplementedError(f"mps.profiler.{name}: signposts of Apple's Instruments are not planned")


def start(mode="interval", wait_until_completed=False):
    """Signposts for Instruments: not planned.

    >>> torch.mps.profiler.start()
    RuntimeError: Cannot execute profilerStartTrace() without MPS backend.
    """
    _not_there("profilerStartTrace", "start")


def stop():
    """Signposts for Instruments: not planned.

    >>> torch.mps.profiler.stop()
    RuntimeError: Cannot execute profilerStopTrace() without MPS backend.
    """
    _not_there("profilerStopTrace", "stop")


def profile(mode="interval", wait_until_completed=False):
    """Signposts for Instruments around a block: not planned.

    >>> torch.mps.profiler.profile()
    RuntimeError: Cannot execute profilerStartTrace() without MPS backend.
    """
    _not_there("profilerStartTrace", "profile")


def is_metal_capture_enabled():
    """Whether captures of Metal's work can be made: no.

    >>> torch.mps.profiler.is_metal_capture_enabled()
    False
    """
    return False


def is_capturing_metal():
    """Whether a capture of Metal's work is being made: no.

    >>> torch.mps.profiler.is_capturing_metal()
    False
    """
    return False


def metal_capture(fname):
    """A capture of Metal's work in a file: not planned.

    >>> torch.mps.profiler.metal_capture('file')
    RuntimeError: Cannot execute startCapture() without MPS backend.
    """
    _not_there("startCapture", "metal_capture")
