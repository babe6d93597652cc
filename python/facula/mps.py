"""Devices of the kind mps."""
from ._device_module import make as _make

globals().update(_make("mps"))
