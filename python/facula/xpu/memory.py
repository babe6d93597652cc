"""torch.xpu.memory: the functions of torch.xpu about memory, under their address there."""
from .. import _missing
from .. import xpu as _xpu

__all__ = ["MemPool", "empty_cache", "get_per_process_memory_fraction", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated",
           "memory_reserved", "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict", "reset_accumulated_memory_stats",
           "reset_peak_memory_stats", "set_per_process_memory_fraction", "use_mem_pool"]
globals().update({name: getattr(_xpu, name) for name in __all__})
__getattr__ = _missing.attribute_of(__name__)
