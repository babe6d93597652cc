"""Devices of the kind opencl."""
from ._device_module import make as _make

globals().update(_make("opencl"))
