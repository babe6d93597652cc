"""Training curves as TensorBoard reads them: SummaryWriter writes scalars, groups of scalars and texts."""
from ... import _missing
from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
__getattr__ = _missing.attribute_of(__name__)
