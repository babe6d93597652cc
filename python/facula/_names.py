"""Under which name this package goes: `facula` under a plain import, `torch` under `python -m facula` and its kin.

A plain `import facula` never touches sys.modules["torch"]. In a program that runs as PyTorch's (`python -m facula`,
FACULA_AS_TORCH=1, `%load_ext facula`) the package is called torch from its first line on: every module below it is then
imported under its torch name, so that classes, pickles and messages carry that name, and `facula.x` is an alias of `torch.x`.

`settle` is the first thing that the package does. It leaves `sys._facula_names` ("facula" or "torch") for the extension,
which reads it once, when it is imported.
"""
import importlib
import importlib.machinery
import importlib.util
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
ON_PATH = os.path.join(FOLDER, "_on_path")  # holds torch.py, for Python processes that a program starts
FLAG = "FACULA_AS_TORCH"


def settle(package):
    """Name the package whose namespace is `package` (its globals(), at its first line)."""
    name = "torch" if _runs_as_torch() else "facula"
    sys._facula_names = name
    if name == "torch":
        package["__name__"] = package["__package__"] = name
        package["__spec__"] = _named(package["__spec__"], name)
        sys.modules["torch"] = sys.modules["facula"]
        sys.modules["torch._names"] = sys.modules["facula._names"]
        sys.meta_path.insert(0, Alias("facula", "torch"))
        tell_children()


def become_torch():
    """`import torch` gives this package from now on, though it was imported as facula (a notebook's %load_ext)."""
    package = sys.modules[__name__.rpartition(".")[0]]
    if package.__name__ != "torch":
        taken = sys.modules.get("torch")
        if taken is not None and taken is not package:
            raise ImportError("torch is imported already, and it is not Facula: restart and load facula first")
        sys.modules["torch"] = package
        sys.meta_path.insert(0, Alias("torch", "facula"))
    tell_children()


def tell_children():
    """Python processes started from here see the same: by the installed facula.pth, else by a folder on their path.

    multiprocessing hands sys.path itself to processes that it spawns, so the folder stands there too, second, where a
    program's own folder goes before it.
    """
    os.environ[FLAG] = "1"
    if ON_PATH not in sys.path:
        sys.path.insert(min(1, len(sys.path)), ON_PATH)
    if not _hook_is_installed():
        paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        if ON_PATH not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join([ON_PATH, *paths])


def _hook_is_installed():
    home = os.path.dirname(FOLDER)
    if not os.path.exists(os.path.join(home, "facula.pth")) or "site" not in sys.modules:
        return False
    site = sys.modules["site"]
    return home in site.getsitepackages() or home == site.getusersitepackages()


def _runs_as_torch():
    if getattr(sys, "_facula_names", None) == "torch":
        return True
    if sys.argv[:1] != ["-m"] and "IPython.core.extensions" not in sys.modules:
        return False
    frame = sys._getframe()
    while frame is not None:
        name, where = frame.f_code.co_name, frame.f_globals.get("__name__")
        # `python -m facula` imports the package first, and only then its __main__
        if where == "runpy" and frame.f_locals.get("mod_name") == "facula.__main__":
            return True
        if where == "IPython.core.extensions" and "load_extension" in name:
            return True
        frame = frame.f_back
    return False


def _named(spec, name):
    copy = importlib.machinery.ModuleSpec(name, spec.loader, origin=spec.origin, is_package=True)
    copy.submodule_search_locations[:] = spec.submodule_search_locations
    copy.has_location = spec.has_location
    return copy


class Alias:
    """A finder: modules below `other` are those below `name`, the same objects."""

    def __init__(self, other, name):
        self.other, self.name = other + ".", name + "."

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith(self.other) or fullname.endswith(".__main__"):
            return None
        real = self.name + fullname[len(self.other):]
        spec = sys.modules[real].__spec__ if real in sys.modules else importlib.util.find_spec(real)
        if spec is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, AliasLoader(real), origin=spec.origin,
                                              is_package=spec.submodule_search_locations is not None)


class AliasLoader:
    def __init__(self, real):
        self.real = real

    def create_module(self, spec):
        module = importlib.import_module(self.real)
        self.spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.spec  # the import system has put the alias's there
