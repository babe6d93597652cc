"""torch.nn.attention: which way scaled_dot_product_attention is computed. Facula has one, which never stores all scores; it is used always."""
import enum
from contextlib import contextmanager

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """Names of PyTorch's ways.

    >>> torch.nn.attention.SDPBackend.MATH.value
    0
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Within, PyTorch takes one of these ways. Facula has its own, which gives the same numbers; wrong names are refused.

    >>> q = torch.ones(1, 2, 4)
    >>> with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
    ...     F.scaled_dot_product_attention(q, q, q).shape
    torch.Size([1, 2, 4])
    """
    wanted = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(wanted, (list, tuple)) or not wanted or not all(isinstance(b, SDPBackend) for b in wanted):
        raise TypeError(f"sdpa_kernel(): argument 'backends' must be a SDPBackend or a list of them, not {type(backends).__name__}")
    yield {}
