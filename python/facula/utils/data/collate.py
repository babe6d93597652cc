"""default_collate, which makes a batch of samples, and default_convert, which makes tensors of one sample."""
import collections.abc
import copy
import re

import facula as torch

__all__ = ["default_collate", "default_convert"]

_NO_NUMBERS = re.compile(r"[SaUO]")
_FOUND = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _is_numpy(value):
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def _is_namedtuple(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _like(sample, pairs, make):
    """A copy of the container `sample` with other values; a plain one where its type cannot be made so."""
    pairs = list(pairs)
    kind = type(sample)
    try:
        if isinstance(sample, (collections.abc.MutableMapping, collections.abc.MutableSequence)):
            clone = copy.copy(sample)
            for key, value in pairs:
                clone[key] = value
            return clone
        return kind(make(pairs))
    except TypeError:  # no copy, no assignment, or another constructor
        return make(pairs)


def _values(pairs):
    return [value for _, value in pairs]


def default_convert(data):
    """NumPy arrays and numbers in a sample become tensors; containers keep their form.

    >>> torch.utils.data.default_convert({'a': [1.0, 2]})
    {'a': [1.0, 2]}
    """
    if isinstance(data, torch.Tensor):
        return data
    if _is_numpy(data):
        if getattr(data, "shape", None) != () and _NO_NUMBERS.search(data.dtype.str):
            return data
        return torch.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _like(data, ((key, default_convert(data[key])) for key in data), dict)
    if _is_namedtuple(data):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _like(data, enumerate(default_convert(value) for value in data), _values)
    return data


def default_collate(batch):
    """One batch of many samples: tensors are stacked, numbers become tensors, containers are collated entry by entry.

    >>> torch.utils.data.default_collate([(1, 2.0), (3, 4.0)])
    [tensor([1, 3]), tensor([2., 4.], dtype=torch.float64)]
    """
    sample = batch[0]
    if isinstance(sample, torch.Tensor):
        return torch.stack(list(batch), 0)
    if isinstance(sample, float):
        return torch.tensor(batch, dtype=torch.float64)
    if isinstance(sample, int):
        return torch.tensor(batch)
    if isinstance(sample, (str, bytes)):
        return batch
    if _is_numpy(sample):
        return _collate_numpy(sample, batch)
    if isinstance(sample, collections.abc.Mapping):
        return _like(sample, ((key, default_collate([one[key] for one in batch])) for key in sample), dict)
    if _is_namedtuple(sample):
        return type(sample)(*(default_collate(values) for values in zip(*batch)))
    if isinstance(sample, collections.abc.Sequence):
        return _collate_sequence(sample, batch)
    raise TypeError(_FOUND.format(type(sample)))


def _collate_numpy(sample, batch):
    if getattr(sample, "shape", None) == () and not hasattr(sample, "setflags"):
        return torch.as_tensor(batch)
    if _NO_NUMBERS.search(sample.dtype.str):
        raise TypeError(_FOUND.format(sample.dtype))
    if sample.shape == () and type(sample).__name__ != "ndarray":
        return torch.as_tensor(batch)
    return default_collate([torch.as_tensor(one) for one in batch])


def _collate_sequence(sample, batch):
    batch = list(batch)
    if any(len(one) != len(sample) for one in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    columns = list(zip(*batch))
    if isinstance(sample, tuple):
        return [default_collate(values) for values in columns]
    return _like(sample, enumerate(default_collate(values) for values in columns), _values)
