"""Python's multiprocessing, under the name that programs look for it, and spawn().

Tensors that go to another process are copied: memory is not shared between processes, which share_memory_() says.
"""
import multiprocessing as _python
from multiprocessing import *

from . import _missing

__all__ = [*_python.__all__, "ProcessContext", "get_all_sharing_strategies", "get_sharing_strategy", "spawn", "start_processes"]


def get_all_sharing_strategies():
    """get_all_sharing_strategies() -> set

    Empty: tensors are copied between processes, not shared.

    >>> torch.multiprocessing.get_all_sharing_strategies()
    set()
    """
    return set()


def get_sharing_strategy():
    """get_sharing_strategy()

    None: tensors are copied between processes, not shared.

    >>> torch.multiprocessing.get_sharing_strategy()
    """
    return None


class ProcessContext:
    """What spawn(..., join=False) gives: the processes that it started.

    >>> context = torch.multiprocessing.spawn(print, nprocs=0, join=False)
    >>> context.join()
    True
    """

    def __init__(self, processes):
        self.processes = processes

    def pids(self):
        """pids() -> list

        The numbers of the processes."""
        return [p.pid for p in self.processes]

    def join(self, timeout=None):
        """join(timeout=None) -> bool

        Waits until one process fails or all have ended; True when all have ended well.

        Errors: RuntimeError when a process failed; the others are ended."""
        from multiprocessing.connection import wait
        running = [p.sentinel for p in self.processes if p.exitcode is None]
        if running:
            wait(running, timeout)
        failed = next((i for i, p in enumerate(self.processes) if p.exitcode), None)
        if failed is None:
            return all(p.exitcode == 0 for p in self.processes)
        code = self.processes[failed].exitcode
        for p in self.processes:
            if p.is_alive():
                p.terminate()
            p.join()
        raise RuntimeError(f"process {failed} terminated with exit code {code}: its own messages stand above "
                           "(torch.multiprocessing.spawn)")


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn")

    Starts nprocs processes that call fn(i, *args), i from 0 on, and waits for them, or returns a ProcessContext.

    >>> torch.multiprocessing.start_processes(abs, nprocs=2, start_method='fork')
    """
    context = _python.get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for p in processes:
        p.start()
    started = ProcessContext(processes)
    if not join:
        return started
    while not started.join():
        pass


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn")

    start_processes with new interpreters, as the functions and tensors of a device need them.

    >>> torch.multiprocessing.spawn(abs, nprocs=1)
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)


__getattr__ = _missing.attribute_of(__name__)
