"""torch.xpu.graphs: the graphs of torch.xpu, under their address there."""
from .. import _missing
from .. import xpu as _xpu

__all__ = ["XPUGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]
globals().update({name: getattr(_xpu, name) for name in __all__})
__getattr__ = _missing.attribute_of(__name__)
