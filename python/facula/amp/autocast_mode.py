"""torch.amp.autocast_mode: autocast and what goes with it, under their address there."""
from . import autocast, custom_bwd, custom_fwd, is_autocast_available
from .. import _missing

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
__getattr__ = _missing.attribute_of(__name__)
