"""Mixed precision on CUDA devices, under its old names: see torch.amp."""
import functools

from .. import amp
from ..amp import _old_names

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

autocast, GradScaler = _old_names("cuda", __name__, "float16")
custom_fwd = functools.partial(amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(amp.custom_bwd, device_type="cuda")
