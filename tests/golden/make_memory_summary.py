"""PyTorch's table of memory for made-up numbers, in full and abbreviated: tests/golden/memory_summary.txt, which test_memory.c compares
with ours. Run with a Python that has PyTorch; no device is needed."""
import os

import torch.cuda.memory as memory

LISTS = ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes",
         "requested_bytes")


def stats():
    """The n-th number in the order of fa_memory_stats is (7919 n)^2 modulo a power of ten that goes round from 10 to 10^15."""
    names = [f"{a}.{b}.{c}" for a in LISTS for b in ("all", "large_pool", "small_pool") for c in ("current", "peak", "allocated", "freed")]
    names += [f"{a}.{c}" for a in ("oversize_allocations", "oversize_segments") for c in ("current", "peak", "allocated", "freed")]
    names += ["num_alloc_retries", "num_ooms"]
    return {name: (n * 7919) ** 2 % 10 ** (1 + n % 15) for n, name in enumerate(names, 1)}


memory.memory_stats = lambda device=None: stats()
memory._get_device_index = lambda *args, **kwargs: 3
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "memory_summary.txt"), "w") as file:
    file.write(memory.memory_summary(3) + memory.memory_summary(3, True))
