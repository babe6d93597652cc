"""Devices of the kind xpu."""
from ._device_module import make as _make

globals().update(_make("xpu"))
