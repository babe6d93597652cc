"""torch.cuda.graphs: the graphs of torch.cuda, under their address there."""
from .. import _missing
from .. import cuda as _cuda

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]
globals().update({name: getattr(_cuda, name) for name in __all__})
__getattr__ = _missing.attribute_of(__name__)
