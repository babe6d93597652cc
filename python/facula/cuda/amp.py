"""Mixed precision on CUDA devices, under its old names: see torch.amp."""
from .. import _C, amp
from ..amp import _old_names

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]

autocast, GradScaler = _old_names("cuda", __name__, "float16")


def amp_definitely_not_available():
    """Whether there is no CUDA device, and so no mixed precision on one.

    >>> torch.cuda.amp.amp_definitely_not_available()
    False
    """
    return not _C._device_is_available(_C.device("cuda"))


def custom_fwd(fwd=None, *, cast_inputs=None):
    """torch.amp.custom_fwd for CUDA devices.

    >>> forward = torch.cuda.amp.custom_fwd(lambda ctx, x: x * 2)
    >>> callable(forward)
    True
    """
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd):
    """torch.amp.custom_bwd for CUDA devices.

    >>> backward = torch.cuda.amp.custom_bwd(lambda ctx, g: g * 2)
    >>> callable(backward)
    True
    """
    return amp.custom_bwd(bwd, device_type="cuda")
