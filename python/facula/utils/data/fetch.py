"""How the samples of a batch are fetched: by index, by iteration, or gathered from tensors in one go."""
import facula as torch

from .collate import default_collate
from .dataset import Subset, TensorDataset

_getitem = TensorDataset.__getitem__


class MapFetcher:
    """fetch(indices) of a data set with __getitem__."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation, self.collate_fn = dataset, auto_collation, collate_fn

    def fetch(self, index):
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        many = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn(many(index) if many else [self.dataset[i] for i in index])


class IterableFetcher:
    """fetch(indices) of an iterable data set: as many samples as there are indices."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.iterator = iter(dataset)
        self.auto_collation, self.collate_fn, self.drop_last = auto_collation, collate_fn, drop_last
        self.ended = False

    def fetch(self, index):
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.iterator))
        batch = []
        for _ in index:
            try:
                batch.append(next(self.iterator))
            except StopIteration:
                self.ended = True
                break
        if not batch or (self.drop_last and len(batch) < len(index)):
            raise StopIteration
        return self.collate_fn(batch)


def gathered(loader):
    """An iterator over the batches of a loader whose batches can be gathered whole, else None.

    That is so for tensors in a TensorDataset (or subsets of it), collated as usual, in an order that comes in whole batches.
    """
    dataset, chosen = loader.dataset, None
    while type(dataset) is Subset:
        indices = torch.as_tensor(dataset.indices)
        if indices.dim() != 1 or indices.dtype != torch.int64:
            return None
        chosen = indices if chosen is None else indices[chosen]
        dataset = dataset.dataset
    plain = isinstance(dataset, TensorDataset) and type(dataset).__getitem__ is _getitem and not hasattr(dataset, "__getitems__")
    if not plain or loader.collate_fn is not default_collate or loader._batches is None:
        return None
    if not all(type(tensor) is torch.Tensor for tensor in dataset.tensors) or len(loader.dataset) == 0:
        return None
    batches = loader._batches.whole_batches()
    return None if batches is None else _gather(dataset.tensors, chosen, batches)


def _gather(tensors, chosen, batches):
    for index in batches:
        if chosen is not None:
            index = chosen[index]
        if isinstance(index, slice):
            yield [tensor[index].clone() for tensor in tensors]
        else:
            yield [torch.index_select(tensor, 0, index.to(tensor.device) if tensor.device != index.device else index)
                   for tensor in tensors]

