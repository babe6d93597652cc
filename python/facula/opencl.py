"""Devices of the kind opencl."""
from ._C import AcceleratorError, OutOfMemoryError
from ._device_module import make as _make

globals().update(_make("opencl"))
