"""The memory behind tensors, which views share."""
from . import _C

__all__ = ["TypedStorage", "UntypedStorage"]


class UntypedStorage:
    """A tensor's memory as a row of bytes.

    >>> storage = torch.ones(3).untyped_storage()
    >>> storage.nbytes()
    12
    """

    def __init__(self, tensor):
        self._flat = tensor._bytes()

    device = property(lambda self: self._flat.device, doc="The device of the memory.")

    def nbytes(self):
        """Its size in bytes."""
        return self._flat.numel()

    def size(self):
        """How many elements it has."""
        return self._flat.numel()

    __len__ = size

    def data_ptr(self):
        """The address of its first byte."""
        return self._flat.data_ptr()

    def element_size(self):
        """Bytes of an element."""
        return self._flat.element_size()

    def tolist(self):
        """Its elements as a list."""
        return self._flat.tolist()

    def __getitem__(self, index):
        return self._flat[index].item() if isinstance(index, int) else self._flat[index].tolist()

    def __setitem__(self, index, value):
        self._flat[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def is_shared(self):
        """Whether other processes see it."""
        return False

    def __repr__(self):
        return "\n".join(f" {value}" for value in self) + f"\n[{type(self).__module__}.{type(self).__name__}(device={self.device}) of size {len(self)}]"


class TypedStorage(UntypedStorage):
    """A tensor's memory as a row of elements of its type.

    >>> torch.ones(3).storage().tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, tensor):
        self._flat = tensor._bytes().view(tensor.dtype)

    dtype = property(lambda self: self._flat.dtype, doc="The type of the elements.")

    def nbytes(self):
        """Its size in bytes."""
        return self._flat.nbytes

    def __repr__(self):
        return "\n".join(f" {value}" for value in self) + f"\n[{_C._names}.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"
