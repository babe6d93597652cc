"""One number for all sides."""
from itertools import repeat


def _ntuple(n, name="parse"):
    def parse(x):
        return tuple(x) if hasattr(x, "__iter__") else tuple(repeat(x, n))
    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = _ntuple(1, "_single"), _ntuple(2, "_pair"), _ntuple(3, "_triple"), _ntuple(4, "_quadruple")


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Takes a prefix off all names, in place.

    >>> state = {'module.weight': torch.ones(1)}
    >>> torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, 'module.')
    >>> list(state)
    ['weight']
    """
    for key in list(state_dict.keys()):
        if key.startswith(prefix):
            state_dict[key[len(prefix):]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in list(metadata.keys()):
            if len(key) == 0:
                continue
            new = key.replace(prefix, "") if key == prefix[:-1] else key[len(prefix):]
            metadata[new] = metadata.pop(key)
