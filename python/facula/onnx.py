"""ONNX files are not written: programs that import torch.onnx and export only when they are told to run as they are."""
from . import _missing


def is_in_onnx_export():
    """is_in_onnx_export() -> bool

    False."""
    return False


def export(*args, **options):
    """export(*args, **options)

    Not there: NotImplementedError."""
    raise NotImplementedError("torch.onnx.export is not in Facula. " + _missing.status("onnx"))


__getattr__ = _missing.attribute_of(__name__)
