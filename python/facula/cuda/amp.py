"""Mixed precision on CUDA devices, under its old names: see torch.amp."""
from ..amp import GradScaler, autocast

__all__ = ["GradScaler", "autocast"]
