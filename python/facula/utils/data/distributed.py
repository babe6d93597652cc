"""DistributedSampler: each of several processes visits its own part of a data set."""
import math

import facula as torch

from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Process `rank` of `num_replicas` sees every num_replicas-th sample of an order that all of them share.

    Call set_epoch(epoch) before each epoch, for another order. Process groups are not there yet, so num_replicas and rank must be
    given.

    >>> list(torch.utils.data.DistributedSampler(range(5), num_replicas=2, rank=0, shuffle=False))
    [0, 2, 4]
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None or rank is None:
            raise RuntimeError("Requires distributed package to be available. torch.distributed is planned and not in Facula "
                               "yet: give num_replicas and rank, as in DistributedSampler(dataset, num_replicas=1, rank=0).")
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        if drop_last and len(dataset) % num_replicas:
            self.num_samples = math.ceil((len(dataset) - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(len(dataset) / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self):
        n = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = torch.randperm(n, generator=generator, device=generator.device if generator else "cpu").tolist()
        else:
            order = list(range(n))
        if not self.drop_last and order:  # the beginning once more, until all parts are equal
            order = (order * math.ceil(self.total_size / n))[:self.total_size]
        return iter(order[self.rank:self.total_size:self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Another order, the same in all processes."""
        self.epoch = epoch
