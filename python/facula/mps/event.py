"""torch.mps.event: Event under its address there."""
from . import Event

__all__ = ["Event"]
