"""torch.cuda.streams: streams and events of CUDA devices, under their address there."""
from . import Event, ExternalStream, Stream

__all__ = ["Event", "ExternalStream", "Stream"]
