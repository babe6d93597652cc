"""Tools around training: data sets and loaders (utils.data), memory for time (utils.checkpoint), handles of hooks, curves."""
from .. import _missing

__getattr__ = _missing.attribute_of(__name__, ("checkpoint", "data", "hooks", "tensorboard"))


def __dir__():
    return ["checkpoint", "data", "hooks", "tensorboard"]
