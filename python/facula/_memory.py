"""What torch.cuda, torch.xpu and their kind say of a device's memory. The library counts; here are PyTorch's names."""
import os
import warnings
from collections import OrderedDict

from . import _C


def _nested(flat):
    """{"a.b": 1} as {"a": {"b": 1}}."""
    result = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inside = result
        for part in path:
            inside = inside.setdefault(part, {})
        inside[last] = value
    return result


def _segments(index, blocks):
    """The library's list of blocks in the form of torch.cuda.memory_snapshot."""
    found = []
    for segment, total, address, size, requested, live, small, op in blocks:
        if not found or found[-1]["address"] != segment:
            found.append({"device": index, "address": segment, "total_size": total, "allocated_size": 0, "active_size": 0, "requested_size": 0,
                          "stream": 0, "segment_type": "small" if small else "large", "segment_pool_id": (0, 0), "is_expandable": False,
                          "frames": [], "blocks": []})
        if live:
            found[-1]["allocated_size"] += size
            found[-1]["active_size"] += size
            found[-1]["requested_size"] += requested
        found[-1]["blocks"].append({"address": address, "size": size, "requested_size": requested if live else size,
                                    "state": "active_allocated" if live else "inactive", "frames": [{"name": op}] if live else []})
    return found


class Uncached:
    """Within it, memory that tensors give back goes back to the driver at once."""

    def __enter__(self):
        self._before = _C._cache_devices(False)

    def __exit__(self, *error):
        _C._cache_devices(self._before)
        return False


def make(kind, where):
    """The functions for devices of a kind ("cuda"), as a dict of names; where(device) gives a device of that kind."""

    def empty_cache():
        """Gives cached memory that is not in use back to the driver.

        >>> x = torch.ones(1000, device='cuda')
        >>> del x
        >>> torch.cuda.empty_cache()
        """
        for index in range(_C._device_count(_C.device(kind))):
            _C._empty_cache(_C.device(kind, index))

    def memory_allocated(device=None):
        """Bytes in tensors that live, rounded to the allocator's 512.

        >>> before = torch.cuda.memory_allocated()
        >>> x = torch.ones(1000, device='cuda')
        >>> torch.cuda.memory_allocated() - before
        4096
        """
        return _C._memory_use(where(device))[0]

    def memory_reserved(device=None):
        """Bytes taken from the driver, in use or cached.

        >>> x = torch.ones(1000, device='cuda')
        >>> torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
        True
        """
        return _C._memory_use(where(device))[1]

    def max_memory_allocated(device=None):
        """The most bytes that were in tensors at once, since the start or reset_peak_memory_stats.

        >>> torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
        True
        """
        return _C._memory_use(where(device))[2]

    def max_memory_reserved(device=None):
        """The most bytes that were taken from the driver at once, since the start or reset_peak_memory_stats.

        >>> torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved()
        True
        """
        return _C._memory_use(where(device))[3]

    def memory_cached(device=None):
        """The old name of memory_reserved.

        >>> torch.cuda.memory_cached() == torch.cuda.memory_reserved()
        True
        """
        warnings.warn(f"`torch.{kind}.memory_cached` has been renamed to `torch.{kind}.memory_reserved`", FutureWarning, stacklevel=2)
        return memory_reserved(device)

    def max_memory_cached(device=None):
        """The old name of max_memory_reserved.

        >>> torch.cuda.max_memory_cached() == torch.cuda.max_memory_reserved()
        True
        """
        warnings.warn(f"`torch.{kind}.max_memory_cached` has been renamed to `torch.{kind}.max_memory_reserved`", FutureWarning, stacklevel=2)
        return max_memory_reserved(device)

    def reset_peak_memory_stats(device=None):
        """All peaks start anew from what is there now.

        >>> torch.cuda.reset_peak_memory_stats()
        >>> torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated()
        True
        """
        _C._reset_peak(where(device))

    def reset_accumulated_memory_stats(device=None):
        """What was ever allocated and freed counts from 0 again.

        >>> torch.cuda.reset_accumulated_memory_stats()
        >>> torch.cuda.memory_stats()['allocated_bytes.all.freed']
        0
        """
        _C._reset_accumulated(where(device))

    def reset_max_memory_allocated(device=None):
        """The old name of reset_peak_memory_stats.

        >>> torch.cuda.reset_max_memory_allocated()
        """
        warnings.warn(f"torch.{kind}.reset_max_memory_allocated now calls torch.{kind}.reset_peak_memory_stats, which resets /all/ peak "
                      "memory stats.", FutureWarning, stacklevel=2)
        reset_peak_memory_stats(device)

    def reset_max_memory_cached(device=None):
        """The old name of reset_peak_memory_stats.

        >>> torch.cuda.reset_max_memory_cached()
        """
        warnings.warn(f"torch.{kind}.reset_max_memory_cached now calls torch.{kind}.reset_peak_memory_stats, which resets /all/ peak "
                      "memory stats.", FutureWarning, stacklevel=2)
        reset_peak_memory_stats(device)

    def memory_stats(device=None):
        """All that is counted of a device's memory, by name; empty where there is no device. Amounts are bytes.

        "allocated_bytes.all.current" is memory_allocated(), "reserved_bytes.all.peak" max_memory_reserved().

        >>> x = torch.ones(1000, device='cuda')
        >>> torch.cuda.memory_stats()['allocated_bytes.all.current'] == torch.cuda.memory_allocated()
        True
        """
        return OrderedDict(sorted(_C._memory_stats(where(device)).items()))

    def memory_stats_as_nested_dict(device=None):
        """memory_stats as dicts in dicts: ["allocated_bytes"]["all"]["current"].

        >>> x = torch.ones(1000, device='cuda')
        >>> torch.cuda.memory_stats_as_nested_dict()['allocated_bytes']['all']['current'] == torch.cuda.memory_allocated()
        True
        """
        return _nested(_C._memory_stats(where(device)))

    def memory_summary(device=None, abbreviated=False):
        """The numbers of memory_stats as a table to print.

        >>> x = torch.ones(1000, device='cuda')
        >>> 'Allocated memory' in torch.cuda.memory_summary()
        True
        """
        there = where(device)
        if not _C._device_is_available(there):
            raise KeyError("allocated_bytes.all.current")
        return _C._memory_summary(there, abbreviated)

    def memory_explain(device=None):
        """Where the device's memory is, in words: live and who has it, cached, held by the driver and others, free.

        Not in PyTorch. Returns the text; print it.

        >>> x = torch.ones(1000, device='cuda')
        >>> 'live' in torch.cuda.memory_explain()
        True
        """
        from ._errors import translate
        return translate(_C._memory_explain(where(device)))

    def memory_snapshot(mempool_id=None, include_traces=True):
        """Every piece of memory taken from the driver, of all devices: a list of dicts, each with its blocks.

        >>> x = torch.ones(1000, device='cuda')
        >>> [b['requested_size'] for s in torch.cuda.memory_snapshot() for b in s['blocks'] if b['address'] == x.data_ptr()]
        [4000]
        """
        devices = range(_C._device_count(_C.device(kind)))
        return [segment for index in devices for segment in _segments(index, _C._memory_blocks(_C.device(kind, index)))]

    def mem_get_info(device=None):
        """(free, total) bytes of the device, as its driver sees it.

        >>> free, total = torch.cuda.mem_get_info()
        >>> 0 < free <= total
        True
        """
        return _C._mem_get_info(where(device))

    def device_memory_used(device=None):
        """Bytes of the device that are in use by whatever program.

        >>> torch.cuda.device_memory_used() >= 0
        True
        """
        free, total = mem_get_info(device)
        return total - free

    def set_per_process_memory_fraction(fraction, device=None):
        """Limits this process to a part of the device's memory: what would need more is out of memory.

        fraction: 0 to 1. Errors: TypeError if it is no float, ValueError if it lies outside.

        >>> torch.cuda.set_per_process_memory_fraction(0.5)
        >>> torch.cuda.get_per_process_memory_fraction()
        0.5
        >>> torch.cuda.set_per_process_memory_fraction(1.0)
        """
        there = where(device)
        if _C._device_is_available(there):
            if not isinstance(fraction, float):
                raise TypeError("Invalid type for fraction argument, must be `float`")
            if not 0 <= fraction <= 1:
                raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        _C._memory_fraction(there, fraction)

    def get_per_process_memory_fraction(device=None):
        """The part of the device's memory that this process may take: 1.0 unless it was limited.

        >>> torch.cuda.get_per_process_memory_fraction()
        1.0
        """
        return _C._memory_fraction(where(device))

    def host_memory_stats():
        """All that is counted of the host's pinned memory, by name; empty where there is no device.

        "allocated_bytes.current" is what the driver pinned, "active_bytes.current" what of it is in use. Times are not counted.

        >>> 'active_bytes.current' in torch.cuda.host_memory_stats()
        True
        """
        return OrderedDict(sorted(_C._pinned_stats().items())) if _C._device_is_available(_C.device(kind)) else OrderedDict()

    def host_memory_stats_as_nested_dict():
        """host_memory_stats as dicts in dicts: ["active_bytes"]["current"].

        >>> 'current' in torch.cuda.host_memory_stats_as_nested_dict()['active_bytes']
        True
        """
        return _nested(host_memory_stats())

    def reset_peak_host_memory_stats():
        """The peaks of host_memory_stats start anew.

        >>> torch.cuda.reset_peak_host_memory_stats()
        """
        _C._pinned_reset(True)

    def reset_accumulated_host_memory_stats():
        """What was ever pinned and given back counts from 0 again.

        >>> torch.cuda.reset_accumulated_host_memory_stats()
        """
        _C._pinned_reset(False)

    def caching_allocator_alloc(size, device=None, stream=None):
        """Memory that is no tensor's: its address on the device. For other libraries' code; give it back by caching_allocator_delete.

        >>> address = torch.cuda.caching_allocator_alloc(1024)
        >>> torch.cuda.caching_allocator_delete(address)
        """
        there = where(device)
        index = _C._current_device(there) if there.index is None else there.index
        address = _C._memory_alloc(_C.device(kind, index), size)
        raw[address] = index
        return address

    def caching_allocator_delete(mem_ptr):
        """Gives memory of caching_allocator_alloc back.

        >>> address = torch.cuda.caching_allocator_alloc(1024, 'cuda:1')
        >>> torch.cuda.caching_allocator_delete(address)
        """
        index = raw[mem_ptr] if mem_ptr in raw else _C._current_device(_C.device(kind))
        _C._memory_free(_C.device(kind, index), mem_ptr)
        raw.pop(mem_ptr, None)

    def caching_allocator_enable(value=True):
        """Whether memory that tensors give back is kept for the next ones; False: it goes back to the driver, each time.

        >>> torch.cuda.caching_allocator_enable(True)
        """
        _C._cache_devices(bool(value))

    def caching_allocator_disabled():
        """`with caching_allocator_disabled():` memory that tensors give back goes back to the driver at once.

        >>> with torch.cuda.caching_allocator_disabled():
        ...     x = torch.ones(1000, device='cuda')
        ...     del x
        """
        return Uncached()

    def get_allocator_backend():
        """The name of the allocator: "native".

        >>> torch.cuda.get_allocator_backend()
        'native'
        """
        return "native"

    def list_gpu_processes(device=None):
        """What is known of the programs that use a device: this one, and how much is in use beside it.

        >>> torch.cuda.list_gpu_processes().startswith('GPU:0')
        True
        """
        there = where(device)
        index = _C._current_device(there) if there.index is None else there.index
        own, used = memory_reserved(index), device_memory_used(index)
        lines = [f"GPU:{index}"]
        if own:
            lines.append(f"process {os.getpid():>10d} uses {own / 1048576:>12.3f} MB GPU memory")
        if used > own:
            lines.append(f"other programs and the driver use {(used - own) / 1048576:>12.3f} MB GPU memory")
        return "\n".join(lines if len(lines) > 1 else lines + ["no processes are running"])

    raw = {}
    names = dict(locals())
    for hidden in ("kind", "where", "raw"):
        names.pop(hidden, None)
    return names
