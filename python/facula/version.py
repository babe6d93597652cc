"""Versions: of Facula, and None for what it is not built with."""
from ._C import __version__

cuda, hip, rocm, xpu, debug, git_version = "13.0", None, None, None, False, ""
