"""Functions of modules: functional_call runs a module with other parameters than its own."""

from .. import _missing

__all__ = ["functional_call", "stack_module_state"]


def _place(module, name):
    """(the module that holds it, its last name) of "layer.weight"."""
    path, _, last = name.rpartition(".")
    return (module.get_submodule(path) if path else module), last


def _table(module, last):
    return next((t for t in (module._parameters, module._buffers) if last in t), None)


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False)

    module(*args, **kwargs) with the tensors of a dict (or of several) in place of its own parameters and buffers, by the names of
    state_dict; other names are left out. Derivatives flow into the tensors given. tie_weights: a parameter under two names is replaced under both.

    Errors: RuntimeError for names that strict=True misses; ValueError where two dicts have the same name.

    >>> layer = nn.Linear(1, 1)
    >>> w = torch.tensor([[2.0]], requires_grad=True)
    >>> y = torch.func.functional_call(layer, {'weight': w, 'bias': torch.zeros(1)}, torch.ones(3, 1))
    >>> y.sum().backward()
    >>> w.grad
    tensor([[3.]])
    """
    dicts = [parameter_and_buffer_dicts] if isinstance(parameter_and_buffer_dicts, dict) else list(parameter_and_buffer_dicts)
    given = {}
    for one in dicts:
        for name, tensor in one.items():
            if name in given:
                raise ValueError(f"['{name}'] appeared in multiple dictionaries; behavior of functional call is ambiguous")
            given[name] = tensor
    own = dict(module.named_parameters(remove_duplicate=False), **dict(module.named_buffers(remove_duplicate=False)))
    unknown, missing = [n for n in given if n not in own], [n for n in own if n not in given]
    if strict and (unknown or missing):
        words = [f"\n\t{what} key(s): " + ", ".join(f"'{n}'" for n in sorted(names)) + "." for what, names in (("Unexpected", unknown), ("Missing", missing)) if names]
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:" + "".join(words))
    given = {name: tensor for name, tensor in given.items() if name in own}
    if tie_weights:
        by_tensor = {id(own[name]): tensor for name, tensor in given.items()}
        given = {**{n: by_tensor[id(t)] for n, t in own.items() if id(t) in by_tensor}, **given}
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    replaced = []
    try:
        for name, tensor in given.items():
            table, last = _table(_place(module, name)[0], name.rpartition(".")[2]), name.rpartition(".")[2]
            replaced.append((table, last, table[last]))
            table[last] = tensor
        return module(*args, **(kwargs or {}))
    finally:
        for table, last, tensor in reversed(replaced):
            table[last] = tensor


def stack_module_state(models):
    """stack_module_state(models) -> (params, buffers)

    The parameters and buffers of modules of one kind, stacked along a new first dimension, by name.

    >>> params, buffers = torch.func.stack_module_state([nn.Linear(3, 2), nn.Linear(3, 2)])
    >>> params['weight'].shape
    torch.Size([2, 2, 3])
    """
    from .. import stack

    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(each, grad):
        return {n: stack([dict(o)[n].detach() for o in each]).requires_grad_(grad and t.requires_grad) for n, t in each[0]}

    return stacked([list(m.named_parameters()) for m in models], True), stacked([list(m.named_buffers()) for m in models], False)


__getattr__ = _missing.attribute_of(__name__)
