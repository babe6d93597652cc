"""torch.nn.utils.rnn: sequences of different lengths, packed and padded."""

import warnings
from collections import namedtuple

from ... import _C

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpad_sequence",
    "pack_sequence",
    "unpack_sequence",
]

_Packed = namedtuple(
    "PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"], defaults=(None, None, None)
)


def invert_permutation(permutation):
    """The permutation that undoes it.

    >>> nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    output = _C.empty_like(permutation)
    return output.scatter_(0, permutation, _C.arange(permutation.numel(), device=permutation.device))


class PackedSequence(_Packed):
    """Sequences written step by step: data, how many sequences each step has, and the order of the caller's sequences.

    >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a tuple of (data, batch_sizes) when batch_sizes is not provided")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They should"
                " be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def pin_memory(self):
        """The same with pinned data."""
        return type(self)(self.data.pin_memory(), self.batch_sizes, self.sorted_indices, self.unsorted_indices)

    def to(self, *args, **kwargs):
        """On another device or in another type."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        device = data.device
        order = None if self.sorted_indices is None else self.sorted_indices.to(device)
        back = None if self.unsorted_indices is None else self.unsorted_indices.to(device)
        return type(self)(data, self.batch_sizes, order, back)

    def cuda(self, *args, **kwargs):
        """On a CUDA device."""
        return self.to(*args, **kwargs) if args or kwargs else self.to("cuda")

    def cpu(self):
        """On the CPU."""
        return self.to("cpu")

    def double(self):
        """In float64."""
        return self.to(_C.float64)

    def float(self):
        """In float32."""
        return self.to(_C.float32)

    def half(self):
        """In float16."""
        return self.to(_C.float16)

    def long(self):
        """In int64."""
        return self.to(_C.int64)

    def int(self):
        """In int32."""
        return self.to(_C.int32)

    @property
    def is_cuda(self):
        """Whether data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self):
        """Whether data is pinned."""
        return self.data.is_pinned()


def _lengths(lengths):
    return lengths.to("cpu").to(_C.int64) if isinstance(lengths, _C.Tensor) else _C.tensor(list(lengths), dtype=_C.int64)


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs padded sequences; lengths must fall where enforce_sorted is True.

    >>> nn.utils.rnn.pack_padded_sequence(torch.tensor([[1, 2, 3], [4, 0, 0]]), [3, 1], batch_first=True).data
    tensor([1, 4, 2, 3])
    """
    return PackedSequence(*_C._pack_padded_sequence(input, _lengths(lengths), batch_first, enforce_sorted))


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded sequences of a packed one, and their lengths.

    >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])])
    >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2, 3],
            [4, 0, 0]]), tensor([3, 1]))
    """
    if total_length is not None and total_length < sequence.batch_sizes.size(0):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {sequence.batch_sizes.size(0)}"
        )
    return _C._pad_packed_sequence(*sequence, batch_first, padding_value, total_length)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Sequences of different lengths side by side, the shorter ones padded.

    >>> nn.utils.rnn.pad_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if not hasattr(sequences, "__iter__"):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    return _C._pad_sequence(tuple(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences without their padding.

    >>> nn.utils.rnn.unpad_sequence(torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([3, 1]), batch_first=True)
    [tensor([1, 2, 3]), tensor([4])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(padded_sequences, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs sequences of different lengths.

    >>> nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = _C.tensor([v.size(0) for v in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The sequences of a packed one.

    >>> nn.utils.rnn.unpack_sequence(nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
