"""What is not here says so: "torch.X is not in Facula", the nearest names, and whether it is planned.

`attribute_of(name, lazy)` makes the __getattr__ of a module; `Finder` answers `import torch.X` for modules that are not
there, and, in programs that run as PyTorch's, imports of packages that belong to PyTorch (torchvision and its kin).
"""
import importlib
import importlib.machinery
import os
import sys

# Name below torch: what to say of it. The longest entry that fits a name answers for it.
PLANNED = "It is planned; it is not there yet."
STATUS = {
    "distributed": "Training over several processes is planned; it is not there yet. nn.DataParallel runs on several devices.",
    "nn.parallel.DistributedDataParallel": "It is planned; it is not there yet. nn.DataParallel runs on several devices.",
    "nn.parallel.distributed": "It is planned; it is not there yet. nn.DataParallel runs on several devices.",
    "profiler": PLANNED,
    "autograd.profiler": PLANNED,
    "sparse": PLANNED,
    "func": "torch.func has functional_call and stack_module_state; its transforms (grad, vmap, jacrev ...) are planned. "
            "torch.autograd.functional has jacobian, hessian, vjp and jvp.",
    "vmap": PLANNED,
    "jit": "TorchScript is not planned: Facula runs every operation at once. Use the module or function itself.",
    "fx": "Tracing into graphs is not planned: Facula runs every operation at once.",
    "_dynamo": "Graph capture is not planned; torch.compile(f) returns f unchanged.",
    "_inductor": "Graph capture is not planned; torch.compile(f) returns f unchanged.",
    "export": "Graph capture is not planned. torch.save(model.state_dict(), path) writes what PyTorch can read.",
    "onnx": "ONNX is not planned. torch.save(model.state_dict(), path) writes what PyTorch can read.",
    "hub": "Facula downloads nothing. Load a file that you have with torch.load.",
    "utils.model_zoo": "Facula downloads nothing. Load a file that you have with torch.load.",
    "utils.benchmark": "Python's timeit measures; torch.cuda.synchronize() waits for a device.",
    "utils.cpp_extension": "PyTorch's C++ extensions cannot be loaded; docs/add-an-operator.md tells how an operator is added.",
    "ops": "PyTorch's operator registry is not planned.",
    "library": "PyTorch's operator registry is not planned; torch.autograd.Function makes operators in Python.",
    "ao": "Quantization is not planned.",
    "quantization": "Quantization is not planned.",
    "package": "It is not planned.",
    "nested": "Nested tensors are not planned; nn.utils.rnn has padding and packing.",
}

# Of what PyTorch names about devices, what is not there: names, and why. tests/python/test_names.py goes over all of them.
_GRAPHS = "It is planned; it is not there yet. Graphs know the generators that they draw from by themselves."
_STORAGE = "Typed storages, deprecated in PyTorch, are not planned: tensors have untyped_storage()."
_ALLOCATOR = "Allocators of other libraries are not planned: all memory of a device comes from Facula's."
_TUNED = "Facula chooses its kernels itself; there is nothing to tune by hand."
_OWN = "It belongs to the insides of PyTorch's own attention, and is not planned: scaled_dot_product_attention has one implementation."
_SWITCH = "It belongs to PyTorch's insides; what users need of it is there under other names."
_DEVICES = [
    (_GRAPHS, """Generator.graphsafe_get_state Generator.graphsafe_set_state"""),
    ("A driver's own graph is shown for CUDA devices only: torch.cuda.CUDAGraph.raw_cuda_graph_exec().",
     "xpu.XPUGraph.raw_xpu_graph xpu.XPUGraph.raw_xpu_graph_exec xpu.graphs.XPUGraph.raw_xpu_graph xpu.graphs.XPUGraph.raw_xpu_graph_exec"),
    (_STORAGE, " ".join(f"cuda.{t}Storage" for t in "BFloat16 Bool Byte Char ComplexDouble ComplexFloat Double Float Half Int Long Short".split())),
    (_ALLOCATOR, """cuda.CUDAPluggableAllocator cuda.change_current_allocator cuda.memory.CUDAPluggableAllocator
        cuda.memory.change_current_allocator xpu.XPUPluggableAllocator xpu.change_current_allocator xpu.memory.XPUPluggableAllocator
        xpu.memory.change_current_allocator"""),
    (_TUNED, "cuda.tunable backends.cuda.cuFFTPlanCache backends.cuda.cuFFTPlanCacheManager backends.cuda.cufft_plan_cache"),
    (_OWN, """backends.cuda.SDPAParams backends.cuda.can_use_cudnn_attention backends.cuda.can_use_efficient_attention
        backends.cuda.can_use_flash_attention"""),
    (_SWITCH, """amp.autocast_mode.autocast_decorator amp.grad_scaler.OptState backends.cuda.cuBLASModule backends.cuda.cuFFTPlanCacheAttrContextProp backends.cudnn.CUDNN_TENSOR_DTYPES
        backends.mkldnn.VERBOSE_OFF backends.mkldnn.VERBOSE_ON backends.mkldnn.VERBOSE_ON_CREATION backends.mkldnn.verbose backends.mkl.verbose
        backends.mkl.VERBOSE_OFF backends.mkl.VERBOSE_ON"""),
    ("Code for devices is not written in strings: docs/add-an-operator.md tells how an operator is added.",
     "cuda.jiterator mps.compile_shader mps.load_metallib"),
    ("Reading files into a device's memory without the host is not planned.", "cuda.gds"),
    ("Parts of a device for parts of a program are not planned.", "cuda.green_contexts cuda.GreenContext"),
    ("Devices of the type mtia are Meta's own and can't be had; any other kind of device comes as a plug-in (docs/backend.md).", "mtia"),
    (PLANNED, "cuda.sparse"),
    ("Facula's draws take a lock in every generator, so there is no other kind.", "random.thread_safe_generator"),
    ("Facula has no kernels that are written in Python.", "backends.python_native"),
    ("Libraries that Facula does not use have no switches.", "backends.miopen backends.kleidiai backends.cusparselt backends.nnpack"),
]
STATUS.update((name, said) for said, names in _DEVICES for name in names.split())


def absent():
    """The names of the table of devices."""
    return [name for _, names in _DEVICES for name in names.split()]

# Packages that stand on PyTorch's own insides or bring its data: (what it is, what to do).
NEIGHBOURS = {
    "torchvision": "torchvision is not part of Facula and is not installed here; data/digits.csv.gz comes with Facula, "
                   "and images can be read with NumPy or Pillow.",
    "torchaudio": "torchaudio is not part of Facula and is not installed here; wave files can be read with Python's wave module.",
    "torchtext": "torchtext is not part of Facula and is not installed here; PyTorch's own was given up in 2024.",
    "tensorboard": "tensorboard is not installed here: pip install tensorboard.",
}


def status(path):
    """What to say of a name below torch, "" for names that nobody thought of."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        said = STATUS.get(".".join(parts[:n]))
        if said:
            return said
    return ""


def message(module, name, known=()):
    """The text for `module`.`name` (module: torch, torch.nn ... or facula ...)."""
    path = (module + "." + name).partition(".")[2]
    words = [f"module '{module}' has no attribute '{name}': {module}.{name} is not in Facula."]
    said = status(path)
    import difflib

    near = difflib.get_close_matches(name, [k for k in known if not k.startswith("_") and k != name], 3, 0.7)
    if said:
        words.append(said)
    if near:
        words.append("Near names: " + ", ".join(f"{module}.{k}" for k in near) + ".")
    if not said:
        words.append(f"What there is: dir({module}).")
    return " ".join(words)


def _is_device_kind(name):
    """Whether the name is that of a plug-in's or simulated devices; asked only where the environment names some."""
    if not (os.environ.get("FACULA_PLUGINS") or os.environ.get("FACULA_SIM")) or not name.replace("_", "").isalpha():
        return False
    from . import _C
    try:
        return bool(_C._device_is_available(_C.device(name)))
    except RuntimeError:
        return False


class KindLoader:
    """Makes torch.<name> for devices of that name: what torch.cuda is for CUDA devices."""

    def create_module(self, spec):
        """A new, empty module."""

    def exec_module(self, module):
        """Its functions."""
        from . import _C
        from ._device_module import make
        kind = module.__name__.rpartition(".")[2]
        module.__doc__ = f"Devices of the kind {kind}."
        vars(module).update(make(kind), AcceleratorError=_C.AcceleratorError, OutOfMemoryError=_C.OutOfMemoryError)


def attribute_of(module, lazy=()):
    """A module's __getattr__: modules below it in `lazy` are imported when first asked for; the rest is not there."""
    def __getattr__(name):
        if name in lazy:
            try:
                return importlib.import_module(module + "." + name)
            except ModuleNotFoundError as e:
                if e.name.partition(".")[2] != (module + "." + name).partition(".")[2]:
                    raise
        if name.startswith("__") and name.endswith("__"):  # Python's own questions (__wrapped__, __path__ ...) get a short no
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        if module in ("torch", "facula") and _is_device_kind(name):
            return importlib.import_module(module + "." + name)
        raise AttributeError(message(module, name, [*vars(sys.modules[module]), *lazy]))
    return __getattr__


def _only_asks():
    """importlib.util.find_spec, which asks whether a module is there, gets None, not an error."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("importlib", "_frozen_importlib")):
        if frame.f_code.co_name == "find_spec" and frame.f_globals["__name__"] == "importlib.util":
            return True
        frame = frame.f_back
    return False


class Finder:
    """The last finder: what no other has found. It finds nothing either, but says why."""

    def __init__(self, as_torch):
        self.as_torch = as_torch

    def find_spec(self, fullname, path=None, target=None):
        top, _, below = fullname.partition(".")
        if top in ("torch", "facula") and below and sys.modules.get(top) is sys.modules.get("facula"):
            if _is_device_kind(below):
                return importlib.machinery.ModuleSpec(fullname, KindLoader())
            text = f"No module named '{fullname}': {fullname} is not in Facula. {status(below)}".rstrip()
        elif fullname in NEIGHBOURS and self.as_torch:
            text = f"No module named '{fullname}': {NEIGHBOURS[fullname]}"
        else:
            return None
        if _only_asks():
            return None
        raise ModuleNotFoundError(text, name=fullname)

    def find_distributions(self, context=None):
        """importlib.metadata.version("torch") of a program that runs as PyTorch's, where no PyTorch is installed."""
        if self.as_torch and getattr(context, "name", None) == "torch":
            from importlib.metadata import Distribution
            version = sys.modules["facula"].__version__

            class Ours(Distribution):
                def read_text(self, filename):
                    return f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n" if filename == "METADATA" else None

                def locate_file(self, path):
                    return path
            yield Ours()


def install():
    """Once, at the end of the package's own import."""
    if not any(isinstance(f, Finder) for f in sys.meta_path):
        sys.meta_path.append(Finder(getattr(sys, "_facula_names", "") == "torch"))


def say_neighbours():
    """Imports of torchvision and its kin are explained too, from now on (%load_ext facula)."""
    for finder in sys.meta_path:
        if isinstance(finder, Finder):
            finder.as_torch = True


_compile_noted = False


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False, name=None):
    """torch.compile: returns `model` itself. Facula runs every operation at once, and says so once.

    >>> net = nn.ReLU()
    >>> torch.compile(net) is net
    True

    """
    global _compile_noted
    if not _compile_noted and not disable:
        import warnings
        _compile_noted = True
        warnings.warn("torch.compile: Facula runs every operation at once; the function or module is returned unchanged",
                      stacklevel=2)
    if model is None:
        return lambda f: f
    if not callable(model):
        raise TypeError(f"compile(): argument 'model' must be callable, not {type(model).__name__}")
    return model
