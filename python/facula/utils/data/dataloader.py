"""DataLoader: batches of a data set, fetched in this process or in worker processes."""
import os
import select
import signal
import time
import warnings
import weakref

import facula as torch

from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .fetch import IterableFetcher, MapFetcher, gathered
from .info import get_worker_info  # noqa: F401 - also found here
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "get_worker_info", "default_collate", "default_convert"]

_EXCLUSIVE = "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _Endless(Sampler):
    """The sampler of iterable data sets: nothing, for ever."""

    def __iter__(self):
        while True:
            yield None


class DataLoader:
    """An iterable over batches of `dataset`.

    batch_size: samples in a batch; None: samples as they are. shuffle: in a new random order each epoch. sampler,
    batch_sampler: an order of your own. collate_fn: makes a batch of a list of samples. drop_last: without the last batch
    if it is smaller. num_workers: processes that fetch; prefetch_factor: batches that each of them has ready;
    persistent_workers: they stay for the next epoch; worker_init_fn(number) is called in each; timeout: seconds to wait for
    a batch. generator: where the order and the workers' seeds come from. pin_memory: batches in memory that devices copy
    from directly.

    >>> loader = torch.utils.data.DataLoader(torch.arange(5), batch_size=2)
    >>> for batch in loader:
    ...     print(batch)
    ...
    tensor([0, 1])
    tensor([2, 3])
    tensor([4])
    """

    _initialized = False

    def __class_getitem__(cls, item):
        return cls

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
                 pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None,
                 generator=None, *, prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True):
        self._check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        self.dataset = dataset
        self.num_workers, self.prefetch_factor, self.timeout = num_workers, prefetch_factor, timeout
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.in_order = worker_init_fn, in_order
        self.multiprocessing_context = multiprocessing_context
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            self._refuse_orders(shuffle, sampler, batch_sampler)
        else:
            shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(_EXCLUSIVE)
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = (_Endless() if self._iterable else RandomSampler(dataset, generator=generator) if shuffle
                       else SequentialSampler(dataset))
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._initialized = True
        self._told_length = None  # of an iterable data set, once len() was asked for
        self._iterator = None
        self.check_worker_number_rationality()

    @staticmethod
    def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
                             "multiprocessing, otherwise set prefetch_factor to None.")
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")

    @staticmethod
    def _refuse_orders(shuffle, sampler, batch_sampler):
        for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
            if value is not None and not (name == "shuffle" and value is False):
                raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}")

    @property
    def multiprocessing_context(self):
        """The context that starts workers: fork, spawn or forkserver."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None:
            import multiprocessing
            if self.num_workers == 0:
                raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                                 f"num_workers={self.num_workers}")
            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueError(f"multiprocessing_context option should specify a valid start method in {methods!r}, but "
                                     f"got multiprocessing_context={context!r}")
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError("multiprocessing_context option should be a valid context object or a string specifying the "
                                f"start method, but got multiprocessing_context={context}")
        self._context = context

    def __setattr__(self, name, value):
        if self._initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    @property
    def _batches(self):
        """The batch sampler, if it is one that can give whole batches."""
        return self.batch_sampler if isinstance(self.batch_sampler, BatchSampler) else None

    def __len__(self):
        if not self._iterable:
            return len(self._index_sampler)
        n = self._told_length = len(self.dataset)
        if self.batch_size is not None:
            n = n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return n

    def __iter__(self):
        if not (self.persistent_workers and self.num_workers > 0):
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def _get_iterator(self):
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def check_worker_number_rationality(self):
        """Warn of more workers than there are processors."""
        if not self.num_workers:
            return
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if cpus is not None and self.num_workers > cpus:
            warnings.warn(f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max "
                          f"number of worker in current system is {cpus}, which is smaller than what this DataLoader is going "
                          "to create. Please be aware that excessive worker creation might get DataLoader running slow or "
                          "even freeze, lower the "
                          "worker number to avoid potential slowness/freeze if necessary.", stacklevel=3)


def _pinned(value):
    """The same structure with tensors in pinned memory."""
    import collections.abc
    if isinstance(value, torch.Tensor) or hasattr(value, "pin_memory"):
        return value.pin_memory()
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, collections.abc.Mapping):
        pairs = {key: _pinned(one) for key, one in value.items()}
        return pairs if type(value) is dict else type(value)(pairs)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_pinned, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_pinned, value))
    return value


class _BaseDataLoaderIter:
    """What iterators over a loader have in common: the seed of an epoch, the sampler, the count of batches."""

    def __init__(self, loader):
        self._loader = loader
        self._pin = loader.pin_memory and self._can_pin()
        self._told = loader._told_length
        self._base_seed = torch.empty((), dtype=torch.int64).random_(generator=loader.generator).item()
        self._begin(loader)

    def _begin(self, loader):
        self._sampler_iter = iter(loader._index_sampler)
        self._yielded = 0

    @staticmethod
    def _can_pin():
        if torch.cuda.is_available():
            return True
        warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                      "used.",
                      stacklevel=5)
        return False

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._loader._index_sampler)

    def __next__(self):
        data = self._next_data()
        if self._pin:
            data = _pinned(data)
        self._yielded += 1
        if self._told is not None and self._yielded > self._told:
            self._warn_of_length()
        return data

    def _warn_of_length(self):
        text = (f"Length of IterableDataset {self._loader.dataset} was reported to be {self._told} (when accessing "
                f"len(dataloader)), but {self._yielded} samples have been fetched. ")
        if self._loader.num_workers > 0:
            text += ("For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset "
                     "replica at each worker. Please see "
                     "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples.")
        warnings.warn(text, stacklevel=3)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        self._gathered = gathered(loader)
        if self._gathered is not None:
            self._next_data = self._gathered.__next__
            return
        kind = IterableFetcher if loader._iterable else MapFetcher
        self._fetcher = kind(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)

    def _next_data(self):
        return self._fetcher.fetch(next(self._sampler_iter))


_open_channels = weakref.WeakSet()  # loaders' ends, which processes that fork must close


class _Worker:
    """A worker process as its loader sees it."""

    def __init__(self, number, job, context):
        from . import transport, worker
        import socket
        ours, theirs = socket.socketpair()
        inherited = [channel.sock for channel in _open_channels] + [ours] if context.get_start_method() == "fork" else []
        self.number, self.asked, self.done = number, 0, False
        try:
            self.process = context.Process(target=worker.main, args=(number, job, theirs, inherited), daemon=True)
            self.process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self.channel = transport.Channel(ours)
        _open_channels.add(self.channel)

    def dead(self):
        return not self.process.is_alive()

    def say_death(self):
        """The error about a worker that is gone, in PyTorch's words."""
        self.process.join(5)
        code, pid = self.process.exitcode, self.process.pid
        cause = None
        if code is not None and code < 0:
            cause = RuntimeError(f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(-code)}. ")
        elif code:
            cause = RuntimeError(f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {code}. Details are lost "
                                 "due to multiprocessing. Rerunning with num_workers=0 may give better error trace.")
        return RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly"), cause


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Tasks (a number and the indices of a batch) go to workers by turns; results come back in the order of their numbers.

    The loader never waits in a send: whenever it waits, it waits for all workers at once, takes what they have and gives them
    what they can take, so that neither side can wait for the other.
    """

    def __init__(self, loader):
        import multiprocessing
        from . import worker
        self._workers = []
        super().__init__(loader)
        self._kinds = worker
        context = loader.multiprocessing_context or multiprocessing
        job = worker.Job(loader, loader._iterable, self._base_seed)
        try:
            for number in range(loader.num_workers):
                self._workers.append(_Worker(number, job, context))
        except BaseException:
            self._shutdown()
            raise
        self._start(loader)

    def _start(self, loader):
        self._asked = self._given = 0       # numbers of the next task to ask for, of the next to give
        self._task, self._result = {}, {}   # number: worker that has it; result that is there
        self._turn = 0
        for w in self._workers:
            w.done = False
        for _ in range(loader.prefetch_factor * loader.num_workers):
            self._ask()

    def _reset(self, loader):
        """Another epoch with the same workers, which keep their seeds: what was under way is dropped."""
        self._begin(loader)
        for w in self._workers:
            w.channel.post((None, None))
        waiting = set(self._workers)
        stop = self._deadline()
        while waiting:
            self._pump(stop)
            for w in list(waiting):
                while w.channel.messages:
                    if self._decoded(w)[0] is None:
                        waiting.discard(w)
                        break
        self._start(loader)

    def _decoded(self, w):
        from .transport import decode
        return decode(w.channel.messages.popleft())

    # ---- tasks ----

    def _ask(self):
        """Hand the next task to the next worker that is not done."""
        for _ in self._workers:
            w = self._workers[self._turn]
            self._turn = (self._turn + 1) % len(self._workers)
            if not w.done:
                break
        else:
            return
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            return
        w.channel.post((self._asked, index))
        w.channel.flush()
        self._task[self._asked] = w
        self._asked += 1

    def _next_data(self):
        while True:
            number = self._choose()
            if number is None:
                if not self._loader.persistent_workers:
                    self._shutdown()
                raise StopIteration
            result = self._result.pop(number)
            self._ask()
            if isinstance(result, self._kinds.Failed):
                self._kinds.raise_again(result)
            return result

    def _choose(self):
        """The number of a result that may be given now, None if there is none to come."""
        stop = self._deadline()
        while True:
            while self._given < self._asked and self._given not in self._task and self._given not in self._result:
                self._given += 1
            if self._given in self._result:
                return self._given
            if not self._loader.in_order and self._result:
                return min(self._result)
            if not self._task:
                return None
            self._pump(stop)
            self._sort()

    def _sort(self):
        """Results that have arrived; a worker whose data set has ended gets no more tasks."""
        for w in self._workers:
            while w.channel.messages:
                number, result = self._decoded(w)
                del self._task[number]
                if not isinstance(result, self._kinds.Ended):
                    self._result[number] = result
                elif not w.done:
                    w.done = True  # it says the same of every task that it still has
                    self._ask()

    # ---- waiting ----

    def _deadline(self):
        return time.monotonic() + self._loader.timeout if self._loader.timeout > 0 else None

    def _pump(self, stop):
        """Wait until something can be read or a worker is dead; read and send what goes."""
        poll = select.poll()
        by_fd = {}
        for w in self._workers:
            fd = w.channel.sock.fileno()
            by_fd[fd] = by_fd[w.process.sentinel] = w
            poll.register(fd, select.POLLIN | (select.POLLOUT if w.channel.outgoing else 0))
            poll.register(w.process.sentinel, select.POLLIN)
        wait = None if stop is None else max(0.0, stop - time.monotonic()) * 1000
        ready = poll.poll(wait)
        if not ready and stop is not None and time.monotonic() >= stop:
            raise RuntimeError(f"DataLoader timed out after {self._loader.timeout} seconds")
        for w in {by_fd[fd] for fd, _ in ready}:
            w.channel.flush()
            w.channel.read()
            if not w.channel.messages and (w.channel.ended or w.dead()):
                error, cause = w.say_death()
                self._shutdown()
                raise error from cause

    def _shutdown(self):
        """Close the ends; workers see it and leave. One that hangs is ended after a while."""
        workers, self._workers = self._workers, []
        for w in workers:
            w.channel.close()
        stop = time.monotonic() + 5
        for w in workers:
            w.process.join(max(0.0, stop - time.monotonic()))
            if w.process.is_alive():
                w.process.terminate()
                w.process.join(1)

    def __del__(self):
        try:
            self._shutdown()
        except Exception:  # the interpreter is on its way out
            pass
