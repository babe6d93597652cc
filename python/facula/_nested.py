"""Tuples, lists and dicts within each other, as arguments and results of functions are."""


def leaves(value):
    """What is in them, in order."""
    if isinstance(value, (tuple, list)):
        inside = value
    elif isinstance(value, dict):
        inside = value.values()
    else:
        yield value
        return
    for one in inside:
        yield from leaves(one)


def mapped(value, change):
    """The same structure with change(leaf) in the place of each leaf."""
    if isinstance(value, (tuple, list)):
        made = [mapped(one, change) for one in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if isinstance(value, dict):
        return {key: mapped(one, change) for key, one in value.items()}
    return change(value)
