"""torch.xpu.streams: streams and events of xpu devices, under their address there."""
from . import Event, Stream

__all__ = ["Event", "Stream"]
