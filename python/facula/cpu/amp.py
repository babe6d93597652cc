"""Mixed precision on the CPU, under its old names: see torch.amp."""
from ..amp import _old_names

__all__ = ["GradScaler", "autocast"]

autocast, GradScaler = _old_names("cpu", __name__, "bfloat16")
