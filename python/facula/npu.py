"""Devices of the kind npu."""
from ._C import AcceleratorError, OutOfMemoryError
from ._device_module import make as _make

globals().update(_make("npu"))
