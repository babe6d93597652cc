"""torch.amp.grad_scaler: GradScaler under its address there."""
from . import GradScaler
from .. import _missing

__all__ = ["GradScaler"]
__getattr__ = _missing.attribute_of(__name__)
