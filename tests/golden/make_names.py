"""Writes names.txt: what PyTorch names about devices, with its signatures. Run it with a Python that has torch:

    PYTHON tests/golden/make_names.py > tests/golden/names.txt

A line is a name below torch, what it is (function, class, method, property, module, value), and the parameters of what can be
called: names and defaults, without annotations; "?" where Python does not know them. tests/python/test_names.py reads it.
"""

import enum
import importlib
import inspect
import types

# A module, and whether only the names of its __all__ count.
MODULES = """
    accelerator amp amp.autocast_mode amp.grad_scaler backends.cpu backends.cuda backends.cudnn backends.cusparselt backends.kleidiai
    backends.mha backends.miopen backends.mkl backends.mkldnn backends.mps backends.nnpack backends.openmp backends.opt_einsum
    backends.python_native backends.quantized cpu cpu.amp cuda cuda.amp cuda.comm cuda.gds cuda.graphs cuda.green_contexts cuda.jiterator
    cuda.memory cuda.nccl cuda.nvtx cuda.profiler cuda.random cuda.sparse cuda.streams cuda.tunable mps mps.event mps.profiler mtia
    mtia.memory random version xpu xpu.graphs xpu.memory xpu.random xpu.streams
""".split()
TOP = """
    device Stream Event Generator autocast get_device get_device_module get_default_device set_default_device set_default_tensor_type
    is_autocast_enabled set_autocast_enabled get_autocast_dtype set_autocast_dtype is_autocast_cache_enabled
    set_autocast_cache_enabled clear_autocast_cache get_float32_matmul_precision set_float32_matmul_precision
    use_deterministic_algorithms are_deterministic_algorithms_enabled is_deterministic_algorithms_warn_only_enabled
    set_deterministic_debug_mode get_deterministic_debug_mode get_num_threads set_num_threads get_num_interop_threads
    set_num_interop_threads AcceleratorError OutOfMemoryError manual_seed seed initial_seed get_rng_state set_rng_state
    default_generator
""".split()


def parameters(thing, bound=False):
    """"(device=None, *, priority=0)"; bound: without the first one."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "?"
    found = list(signature.parameters.values())[bound:]
    plain = [p.replace(annotation=p.empty, default=p.default if p.default is p.empty else Plain(p.default)) for p in found]
    return str(inspect.Signature(plain))


class Plain:
    """A default, shown without addresses and as PyTorch calls it."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        text = repr(self.value).replace("facula.", "torch.")
        return text.partition(" at 0x")[0]


def members(cls):
    """(name, kind, parameters) of a class's public methods and properties, its own and those of bases that are PyTorch's."""
    for name in sorted(set(dir(cls)) - set(dir(object))):
        if name.startswith("_"):
            continue
        value = inspect.getattr_static(cls, name)
        if isinstance(value, (staticmethod, classmethod)):
            yield name, "method", parameters(getattr(cls, name))
        elif callable(value):
            yield name, "method", parameters(value, True)
        else:
            yield name, "property", ""


def lines(prefix, name, thing, seen):
    """The lines of one name; seen: the classes whose members stand under another name already."""
    title = f"{prefix}.{name}" if prefix else name
    if isinstance(thing, types.ModuleType):
        yield f"{title} | module |"
    elif isinstance(thing, type):
        yield f"{title} | class | {parameters(thing)}"
        if thing not in seen and not issubclass(thing, (BaseException, enum.Enum)) and not title.endswith(("Tensor", "Storage")):
            seen.add(thing)
            for member, kind, text in members(thing):
                yield f"{title}.{member} | {kind} | {text}".rstrip()
    elif callable(thing):
        yield f"{title} | function | {parameters(thing)}"
    else:
        yield f"{title} | value |"


def public(path, module):
    """The names of __all__, else those of functions, classes and values that the module itself made."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    own = vars(getattr(module, "m", module))  # torch.backends puts objects in the places of modules
    made = [n for n, v in own.items() if getattr(v, "__module__", "torch." + path) == "torch." + path and not isinstance(v, types.ModuleType)]
    made = [n for n in made if not (isinstance(own[n], type) and issubclass(own[n], types.ModuleType)) and n != "TYPE_CHECKING"]
    kept = [] if type(module) is types.ModuleType else vars(type(module))
    return sorted({n for n in [*made, *kept] if not n.startswith("_") and hasattr(module, n)})


def everything():
    """All lines."""
    import torch

    seen = set()
    for name in TOP:
        yield from lines("", name, getattr(torch, name), seen)
    for path in MODULES:
        module = importlib.import_module("torch." + path)
        yield f"{path} | module |"
        for name in public(path, module):
            yield from lines(path, name, getattr(module, name), seen)


if __name__ == "__main__":
    print("\n".join(dict.fromkeys(everything())))
