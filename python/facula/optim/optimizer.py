"""Optimizer: groups of parameters with their options, and what is kept for each parameter between steps.

A custom optimizer is a subclass with a `step`; the optimizers of the library (SGD, Adam, ...) are subclasses whose step is one
call into C for all groups. Both show the same `param_groups` and `state`, and state_dict() has PyTorch's structure.
"""
import functools
import warnings
from collections import OrderedDict, defaultdict
from copy import deepcopy

import facula as torch

from .. import _C
from ..utils.hooks import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"]


class _Required:
    """A default that has none: each group must give the option."""

    def __repr__(self):
        return "<required parameter>"


required = _Required()

HOOKS = ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post")
_every_pre, _every_post = OrderedDict(), OrderedDict()  # hooks of all optimizers


def _typename(value):
    return torch.typename(value) if isinstance(value, torch.Tensor) else type(value).__name__


def _add_hook(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook):
    """hook(optimizer, args, kwargs) is called before each step of every optimizer; args begin with the optimizer.

    >>> seen = []
    >>> handle = torch.optim.optimizer.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: seen.append(type(optimizer).__name__))
    >>> torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1).step()
    >>> handle.remove()
    >>> seen
    ['SGD']
    """
    return _add_hook(_every_pre, hook)


def register_optimizer_step_post_hook(hook):
    """hook(optimizer, args, kwargs) is called after each step of every optimizer.

    >>> seen = []
    >>> handle = torch.optim.optimizer.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: seen.append(type(optimizer).__name__))
    >>> torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1).step()
    >>> handle.remove()
    >>> seen
    ['SGD']
    """
    return _add_hook(_every_post, hook)


class Optimizer:
    """Base class of all optimizers.

    params: tensors, (name, tensor) pairs, or dicts that each make a group: {"params": tensors, option: value, ...}.
    defaults: the options, with the values of groups that do not give them.

    >>> class Plain(torch.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {'lr': lr})
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group['params']:
    ...                 p.data.add_(p.grad, alpha=-group['lr'])
    ...
    >>> p = nn.Parameter(torch.ones(2))
    >>> optimizer = Plain([p], lr=0.1)
    >>> p.sum().backward()
    >>> optimizer.step()
    >>> p.data
    tensor([0.9000, 0.9000])
    """

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._make_hooks()
        if isinstance(params, torch.Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                            + torch.typename(params))
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            from .._mistakes import of_no_parameters
            raise ValueError("optimizer got an empty parameter list" + of_no_parameters(params))
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self):
        for name in HOOKS:
            setattr(self, f"_optimizer_{name}_hooks", OrderedDict())
        _hook_step(type(self))

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if not hasattr(self, "_optimizer_step_pre_hooks"):
            self._make_hooks()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n" + "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    # ---- groups ----

    def add_param_group(self, param_group):
        """One more group, {"params": ...} and any options: for layers that are trained from now on."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params, names = _listed(param_group["params"])
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for param in params:
            if not isinstance(param, torch.Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + _typename(param))
            if not self.defaults.get("differentiable") and not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        ids = {id(param) for param in params}
        if len(ids) != len(params):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                          "see github.com/pytorch/pytorch/issues/40967 for more information", stacklevel=3)
        if any(("param_names" in group) != ("param_names" in param_group) for group in self.param_groups):
            raise ValueError("all optimizer param groups should be with/without names. cannot add param group with names to the "
                             "optimizer" if names else "all optimizer param groups should be with/without names. "
                             "cannot add param group without names to the optimizer")
        if any(id(param) in ids for group in self.param_groups for param in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none=True):
        """Forget the gradients of all parameters. set_to_none=False: fill them with zeros instead."""
        if set_to_none:
            return _C._zero_grad(self.param_groups)
        for group in self.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if grad.grad_fn is not None:
                    grad.detach_().zero_()
                else:
                    grad.requires_grad_(False).zero_()

    def step(self, closure=None):
        """One step of the rule. closure: computes the loss again and returns it, for rules that need it more than once."""
        raise NotImplementedError(f"{type(self).__name__} has no step(): a subclass of Optimizer writes its own")

    # ---- hooks ----

    def register_step_pre_hook(self, hook):
        """hook(optimizer, args, kwargs) before each step; it may return new (args, kwargs). args begin with the optimizer."""
        return _add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """hook(optimizer, args, kwargs) after each step."""
        return _add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer) before state_dict is made."""
        return _add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) may change or replace what state_dict returns."""
        return _add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) may change or replace what load_state_dict reads."""
        return _add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer) after load_state_dict."""
        return _add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---- state dicts ----

    def state_dict(self):
        """{"state": {number of a parameter: what is kept for it}, "param_groups": [options and numbers of parameters]}.

        Tensors in it are the optimizer's own, not copies.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        number = {}
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            for param in group["params"]:
                number.setdefault(id(param), len(number))
            packed["params"] = [number[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {number[id(key)] if isinstance(key, torch.Tensor) else key: value for key, value in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    def load_state_dict(self, state_dict):
        """Go on from a state_dict() of an optimizer with the same groups. Tensors are copied, and moved to their parameter."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        saved = deepcopy(state_dict["param_groups"])
        groups = self.param_groups
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(old["params"]) != len(new["params"]) for old, new in zip(groups, saved)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        param_of = {n: p for old, new in zip(groups, saved) for n, p in zip(new["params"], old["params"])}
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in param_of:
                state[param_of[key]] = _moved_to(param_of[key], value)
            else:
                state[key] = value
        for old, new in zip(groups, saved):
            new["params"] = old["params"]
            if "param_names" in old and "param_names" not in new:
                new["param_names"] = old["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)


def _listed(params):
    """The tensors of a group as a list, and their names, if they came with names."""
    if isinstance(params, torch.Tensor):
        return [params], []
    if isinstance(params, set):
        raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                        "will change between runs. Please use a list instead.")
    params = list(params)
    named = [isinstance(p, tuple) for p in params]
    if not any(named):
        return params, []
    if not all(named):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [p for _, p in params], [name for name, _ in params]


def _moved_to(param, value, key=None):
    """A state as loaded, on the parameter's device and in its dtype; the count of steps stays as it is."""
    if isinstance(value, torch.Tensor):
        if key == "step":
            return value.clone()
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device, copy=True)
        return value.to(device=param.device, copy=True)
    if isinstance(value, dict):
        return {k: _moved_to(param, v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        moved = [_moved_to(param, v) for v in value]
        return type(value)(*moved) if hasattr(value, "_fields") else type(value)(moved)
    return value


def _hook_step(cls):
    """Let cls.step call hooks, if a subclass wrote it: once for each class, when its first object is made."""
    plain = cls.step
    if getattr(plain, "hooked", False):
        return

    @functools.wraps(plain)
    def step(self, *args, **kwargs):
        if not (self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks or _every_pre or _every_post):
            return plain(self, *args, **kwargs)
        return _run_hooked(plain, self, args, kwargs)

    step.hooked = True
    cls.step = step


def _run_hooked(plain, self, args, kwargs):
    """plain(self, *args, **kwargs) between the hooks."""
    args = (self, *args)
    for hook in (*_every_pre.values(), *self._optimizer_step_pre_hooks.values()):
        replaced = hook(self, args, kwargs)
        if replaced is None:
            continue
        if not (isinstance(replaced, tuple) and len(replaced) == 2):
            raise RuntimeError(f"{plain} must return None or a tuple of (new_args, new_kwargs), but got {replaced}.")
        args, kwargs = replaced
    result = plain(*args, **kwargs)
    for hook in (*self._optimizer_step_post_hooks.values(), *_every_post.values()):
        hook(self, args, kwargs)
    return result
