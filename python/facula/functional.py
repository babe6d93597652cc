"""torch.functional: functions of torch that older programs look for here."""
from . import _C, _missing

__all__ = ["broadcast_tensors", "cartesian_prod", "cdist", "einsum", "meshgrid", "norm", "split", "tensordot", "unique",
           "unique_consecutive"]
globals().update({name: getattr(_C, name) for name in __all__})
__getattr__ = _missing.attribute_of(__name__)
