"""Tells NVIDIA's profilers which part of a program to look at."""
import contextlib

from . import check_error, cudart

__all__ = ["profile", "start", "stop"]


def start():
    """From here on a profiler that waits for it collects.

    >>> torch.cuda.profiler.start()
    >>> torch.cuda.profiler.stop()
    """
    check_error(cudart().cudaProfilerStart())


def stop():
    """A profiler stops collecting.

    >>> torch.cuda.profiler.stop()
    """
    check_error(cudart().cudaProfilerStop())


@contextlib.contextmanager
def profile():
    """`with profile():` a profiler collects in the block.

    >>> with torch.cuda.profiler.profile():
    ...     x = torch.ones(2, device='cuda')
    """
    try:
        start()
        yield
    finally:
        stop()
