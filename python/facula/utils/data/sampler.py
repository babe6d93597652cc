"""Samplers: the order in which a loader visits a data set. Each draws the same numbers as PyTorch's for the same seed.

Samplers that draw many indices at once have them as tensors; `pieces()` gives these to loaders that gather whole batches,
`__iter__` gives the same indices one by one. Nothing is drawn before it is needed, so that generators agree at every moment.
"""
from itertools import islice

import facula as torch

__all__ = ["BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler"]


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class Sampler:
    """Base class: override __iter__, which yields indices (or lists of them), and __len__.

    >>> class Backwards(torch.utils.data.Sampler):
    ...     def __init__(self, data):
    ...         self.n = len(data)
    ...     def __iter__(self):
    ...         return iter(range(self.n - 1, -1, -1))
    ...
    >>> data = [1, 2, 3]
    >>> list(torch.utils.data.DataLoader(data, sampler=Backwards(data)))
    [tensor([3]), tensor([2]), tensor([1])]
    """

    def __class_getitem__(cls, item):
        return cls

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__(): a subclass of Sampler writes its own")


class SequentialSampler(Sampler):
    """0, 1, 2 ...

    >>> list(torch.utils.data.SequentialSampler(['a', 'b', 'c']))
    [0, 1, 2]
    """

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler):
    """A new permutation each time; with replacement: num_samples independent draws.

    >>> sampler = torch.utils.data.RandomSampler(range(4), generator=torch.Generator().manual_seed(0))
    >>> sorted(sampler)
    [0, 1, 2, 3]
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not _is_count(self.num_samples):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self):
        """How many indices are drawn; the data set's length may change."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def pieces(self):
        """The indices, as tensors of any lengths."""
        n, generator = len(self.data_source), self.generator
        if generator is None:
            generator = torch.Generator()
            generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
        if self.replacement:
            for _ in range(self.num_samples // 32):
                yield torch.randint(n, (32,), dtype=torch.int64, generator=generator, device=generator.device)
            yield torch.randint(n, (self.num_samples % 32,), dtype=torch.int64, generator=generator, device=generator.device)
        else:
            for _ in range(self.num_samples // n):
                yield torch.randperm(n, generator=generator, device=generator.device)
            yield torch.randperm(n, generator=generator, device=generator.device)[:self.num_samples % n]

    def __iter__(self):
        for piece in self.pieces():
            yield from piece.tolist()

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order.

    >>> sorted(torch.utils.data.SubsetRandomSampler([3, 5]))
    [3, 5]
    """

    def __init__(self, indices, generator=None):
        self.indices = indices
        self.generator = generator

    def __iter__(self):
        for i in torch.randperm(len(self.indices), generator=self.generator, device=self.generator.device if self.generator else "cpu").tolist():
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """num_samples draws, index i with a probability in proportion to weights[i].

    >>> list(torch.utils.data.WeightedRandomSampler([0.0, 1.0], num_samples=3))
    [1, 1, 1]
    """

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if not _is_count(num_samples):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        weights = torch.as_tensor(weights, dtype=torch.double)
        if weights.dim() != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(weights.shape)}")
        self.weights = weights
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def pieces(self):
        """The indices, as one tensor."""
        yield torch.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)

    def __iter__(self):
        for piece in self.pieces():
            yield from piece.tolist()

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of batch_size indices of another sampler; the last may be shorter, unless drop_last.

    >>> list(torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(range(5)), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler, batch_size, drop_last):
        if not _is_count(batch_size):
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while True:
            batch = list(islice(indices, self.batch_size))
            if not batch or (self.drop_last and len(batch) < self.batch_size):
                return
            yield batch

    def __len__(self):
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else (n + self.batch_size - 1) // self.batch_size

    def whole_batches(self):
        """The batches as index tensors or slices, or None if the sampler draws one by one."""
        sampler = self.sampler
        if type(self).__iter__ is not BatchSampler.__iter__:
            return None
        if type(sampler) is SequentialSampler:
            return self._slices(len(sampler))
        if type(sampler) in (RandomSampler, WeightedRandomSampler):
            return self._cut(sampler.pieces())
        return None

    def _slices(self, n):
        stop = n - n % self.batch_size if self.drop_last else n
        for start in range(0, stop, self.batch_size):
            yield slice(start, min(start + self.batch_size, n))

    def _cut(self, pieces):
        """Pieces of any lengths as batches of one length."""
        size, kept, held = self.batch_size, [], 0
        for piece in pieces:
            at, n = 0, piece.numel()
            while n - at + held >= size:
                part = piece[at:at + size - held]
                at += size - held
                yield torch.cat([*kept, part]) if kept else part
                kept, held = [], 0
            if at < n:
                kept.append(piece[at:])
                held += n - at
        if held and not self.drop_last:
            yield torch.cat(kept) if len(kept) > 1 else kept[0]
