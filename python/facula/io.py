"""Named tensors in files of other programs: .safetensors, and NumPy's .npz and .npy. Checkpoints: torch.save and torch.load."""
import os

from . import _C

__all__ = ["load_safetensors", "save_safetensors", "load_npz", "save_npz", "load_npy", "save_npy"]


def _ending(path, wanted):
    if not os.fsdecode(os.fspath(path)).endswith(wanted):
        raise ValueError(f"the name of the file must end in {wanted}, but got {os.fspath(path)!r}")
    return path


def save_safetensors(tensors, path, metadata=None):
    """save_safetensors(tensors, path, metadata=None)

    Writes a dict of tensors as a .safetensors file. metadata: a dict of str and str that the file carries along.

    Errors: ValueError for an entry that is no tensor, or another ending of path.

        >>> torch.io.save_safetensors({"a": torch.ones(2)}, "a.safetensors")
    """
    _C._save_tensors(_ending(path, ".safetensors"), dict(tensors), dict(metadata or {}))


def load_safetensors(path, device="cpu", *, metadata=False):
    """load_safetensors(path, device="cpu", *, metadata=False) -> dict

    The tensors of a .safetensors file by name; with metadata=True a pair of them and the dict of texts that it carries.

    Errors: FileNotFoundError; RuntimeError for a damaged file.

        >>> torch.io.save_safetensors({"a": torch.ones(2)}, "a.safetensors", {"made": "here"})
        >>> torch.io.load_safetensors("a.safetensors", metadata=True)
        ({'a': tensor([1., 1.])}, {'made': 'here'})
    """
    return _load(_ending(path, ".safetensors"), device, metadata)


def save_npz(tensors, path):
    """save_npz(tensors, path)

    Writes a dict of tensors as an .npz file, which numpy.load reads.

    Errors: ValueError for an entry that is no tensor, or another ending of path.

        >>> torch.io.save_npz({"a": torch.ones(2)}, "a.npz")
    """
    _C._save_tensors(_ending(path, ".npz"), dict(tensors), {})


def load_npz(path, device="cpu"):
    """load_npz(path, device="cpu") -> dict

    The arrays of an .npz file as tensors by name.

    Errors: FileNotFoundError; RuntimeError for a damaged file.

        >>> torch.io.save_npz({"a": torch.ones(2)}, "a.npz")
        >>> torch.io.load_npz("a.npz")
        {'a': tensor([1., 1.])}
    """
    return _load(_ending(path, ".npz"), device, False)


def save_npy(tensor, path):
    """save_npy(tensor, path)

    Writes a tensor as an .npy file, which numpy.load reads.

    Errors: TypeError for what is no tensor.

        >>> torch.io.save_npy(torch.ones(2), "a.npy")
    """
    _C._save_npy(path, tensor)


def load_npy(path, device="cpu"):
    """load_npy(path, device="cpu") -> Tensor

    The array of an .npy file as a tensor.

    Errors: FileNotFoundError; RuntimeError for a damaged file.

        >>> torch.io.save_npy(torch.ones(2), "a.npy")
        >>> torch.io.load_npy("a.npy")
        tensor([1., 1.])
    """
    open(os.fspath(path), "rb").close()  # a number would be a file descriptor, and closed
    return _C._load_npy(path, device)


def _load(path, device, metadata):
    open(os.fspath(path), "rb").close()
    tensors, notes = _C._load_tensors(path, device)
    return (tensors, notes) if metadata else tensors
