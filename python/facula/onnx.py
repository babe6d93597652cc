"""ONNX files are not written: programs that import torch.onnx and export only when they are told to run as they are."""
from . import _missing


def is_in_onnx_export():
    """is_in_onnx_export() -> bool

    False.

    >>> torch.onnx.is_in_onnx_export()
    False
    """
    return False


def export(*args, **options):
    """export(*args, **options)

    Not there: NotImplementedError.

    >>> torch.onnx.export(nn.ReLU(), torch.ones(1), 'net.onnx')
    NotImplementedError: torch.onnx.export is not in Facula. ONNX is not planned. torch.save(model.state_dict(), path) writes what PyTorch can read.
    """
    raise NotImplementedError("torch.onnx.export is not in Facula. " + _missing.status("onnx"))


__getattr__ = _missing.attribute_of(__name__)
