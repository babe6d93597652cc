"""The worker processes of a loader: what they run, and how they report what went wrong."""
import os
import random
import sys
import traceback

import facula as torch

from ... import _mistakes
from . import info
from .fetch import IterableFetcher, MapFetcher
from .transport import Channel


class Ended:
    """A worker's iterable data set has no more samples."""


class Failed:
    """An exception of a worker, as its class and text: it is raised again in the loader's process, with its first traceback."""

    def __init__(self, where):
        kind, value, trace = sys.exc_info()
        self.kind, self.where = kind, where
        self.text = "".join(traceback.format_exception(kind, value, trace))
        if info.current is not None:
            self.text += _mistakes.of_fork(value, trace, info.current.dataset)

    def __reduce__(self):
        import pickle
        try:
            pickle.dumps(self.kind)
            kind = self.kind
        except Exception:  # a class that only the worker knows
            kind = RuntimeError
        return _failed, (kind, self.kind.__name__, self.where, self.text)


def _failed(kind, name, where, text):
    failed = Failed.__new__(Failed)
    failed.kind, failed.name, failed.where, failed.text = kind, name, where, text
    return failed


class _Quoted(str):
    """KeyError prints repr(its argument): this one keeps its lines."""

    def __repr__(self):
        return self


def raise_again(failed):
    """Raise what a worker has caught."""
    text = f"Caught {failed.name} {failed.where}.\nOriginal {failed.text}"
    try:
        if failed.kind is KeyError:
            error = KeyError(_Quoted(text))
        else:
            error = failed.kind(text)
    except Exception:  # its constructor wants something else
        error = RuntimeError(text)
    raise error


def seed_all(base_seed, number):
    """Every source of random numbers of a worker, as PyTorch seeds it."""
    seed = base_seed + number
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        entropy = [number, base_seed & 0xFFFFFFFF, (base_seed >> 32) & 0xFFFFFFFF, 0]
        numpy.random.seed(numpy.random.SeedSequence(entropy).generate_state(4))
    return seed


class Job:
    """What a worker needs to know. With fork it is inherited, with spawn it is pickled."""

    def __init__(self, loader, iterable, base_seed):
        self.dataset, self.collate_fn, self.drop_last = loader.dataset, loader.collate_fn, loader.drop_last
        self.auto_collation, self.iterable = loader._auto_collation, iterable
        self.workers, self.init_fn, self.base_seed = loader.num_workers, loader.worker_init_fn, base_seed

    def fetcher(self):
        kind = IterableFetcher if self.iterable else MapFetcher
        return kind(self.dataset, self.auto_collation, self.collate_fn, self.drop_last)


def main(number, job, sock, inherited):
    """A worker's life: fetch the batches that are asked for, until the loader is gone."""
    for other in inherited:  # ends that belong to the loader's process: only when all copies are closed is an end an end
        other.close()
    channel = Channel(sock)
    try:
        _serve(number, job, channel)
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        pass  # the loader's process tells about it
    finally:
        channel.close()


def _begin(number, job):
    torch.set_num_threads(1)
    seed = seed_all(job.base_seed, number)
    info.current = info.WorkerInfo(id=number, num_workers=job.workers, seed=seed, dataset=job.dataset, rng=None,
                                   worker_method="multiprocessing")
    if job.init_fn is not None:
        job.init_fn(number)


def _serve(number, job, channel):
    parent = os.getppid()
    where = f"in DataLoader worker process {number}"
    fetcher = failed = None
    try:
        _begin(number, job)
        fetcher = job.fetcher()
    except Exception:
        failed = Failed(where)
    while True:
        task = channel.receive(lambda: os.getppid() == parent)
        if task is None:
            return
        turn, index = task
        if turn is None:  # a new epoch of workers that stay
            result = None
            try:
                fetcher, failed = job.fetcher(), None
            except Exception:
                failed = Failed(where)
        elif failed is not None:
            result, failed = failed, None
        else:
            result = _fetch(fetcher, index, job, where)
        _answer(channel, turn, result, where)


def _fetch(fetcher, index, job, where):
    if fetcher is None:
        return Ended()
    try:
        return fetcher.fetch(index)
    except StopIteration:
        return Ended() if job.iterable else Failed(where)
    except Exception:
        return Failed(where)


def _answer(channel, turn, result, where):
    try:
        channel.post((turn, result))
    except Exception:  # what can't be pickled
        channel.post((turn, Failed(where)))
    channel.flush()
