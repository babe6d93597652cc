"""`import torch` in a process whose path has this folder: Facula under torch's name. See facula/_names.py."""
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_module = sys.modules.pop(__name__)
try:
    sys._facula_names = "torch"
    import facula  # noqa: F401 - puts itself at sys.modules["torch"]
except ModuleNotFoundError as _error:
    if _error.name != "facula":
        raise
    # Another Python, without Facula: its own torch, if it has one.
    del sys._facula_names
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != _here]
    import torch  # noqa: F401
