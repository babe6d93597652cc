"""nn.Module: registry, attributes and calls are the library's (facula._C); here stands what is Python by nature: hooks, state dicts,
moving, copies, printing."""

import copyreg
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import MutableMapping

from ... import _C
from ...utils.hooks import RemovableHandle
from ..parameter import Parameter

__all__ = [
    "Module",
    "register_module_forward_pre_hook",
    "register_module_forward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


class _Entries(_C._EntriesBase, MutableMapping):
    """A module's own parameters, buffers or children by name: a live view, with what a dict has."""

    __slots__ = ()
    keys, values, items = _C._EntriesBase.keys, _C._EntriesBase.values, _C._EntriesBase.items

    def copy(self):
        return dict(self.items())

    def move_to_end(self, key, last=True):
        value = self.pop(key)
        rest = [] if last else list(self.items())
        for name, _ in rest:
            del self[name]
        self[key] = value
        for name, other in rest:
            self[name] = other

    def __reversed__(self):
        return reversed(self.keys())

    def __repr__(self):
        return repr(dict(self.items()))

    def __reduce__(self):
        return OrderedDict, (list(self.items()),)

    def __deepcopy__(self, memo):
        import copy

        return OrderedDict((k, copy.deepcopy(v, memo)) for k, v in self.items())


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict did not find, and what it found no place for."""

    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


# ---- hooks of all modules ----

_global = {name: OrderedDict() for name in ("forward_pre", "forward", "backward_pre", "backward", "always", "with_kwargs")}
_registration = {"parameter": OrderedDict(), "buffer": OrderedDict(), "module": OrderedDict()}


class _GlobalHandle(RemovableHandle):
    def remove(self):
        super().remove()
        _C._set_global_hooks(any(_global.values()))


def _register_global(kind, hook):
    handle = _GlobalHandle(_global[kind], extra_dict=[_global["always"], _global["with_kwargs"]])
    _global[kind][handle.id] = hook
    _C._set_global_hooks(True)
    return handle


def register_module_forward_pre_hook(hook):
    """hook(module, args) before the forward of every module; what it gives replaces the arguments.

    >>> seen = []
    >>> handle = torch.nn.modules.module.register_module_forward_pre_hook(lambda module, args: seen.append(type(module).__name__))
    >>> y = nn.ReLU()(torch.ones(1))
    >>> handle.remove()
    >>> seen
    ['ReLU']
    """
    return _register_global("forward_pre", hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """hook(module, args, output) after the forward of every module; what it gives replaces the output.

    >>> handle = torch.nn.modules.module.register_module_forward_hook(lambda module, args, output: output + 1)
    >>> y = nn.ReLU()(torch.ones(1))
    >>> handle.remove()
    >>> y
    tensor([2.])
    """
    handle = _register_global("forward", hook)
    if with_kwargs:
        _global["with_kwargs"][handle.id] = True
    if always_call:
        _global["always"][handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook):
    """hook(module, grad_output) before the backward of every module.

    >>> seen = []
    >>> handle = torch.nn.modules.module.register_module_full_backward_pre_hook(lambda module, grad: seen.append(grad))
    >>> nn.ReLU()(torch.ones(1, requires_grad=True)).backward()
    >>> handle.remove()
    >>> seen
    [(tensor([1.]),)]
    """
    return _register_global("backward_pre", hook)


def register_module_full_backward_hook(hook):
    """hook(module, grad_input, grad_output) when the backward of every module is through.

    >>> seen = []
    >>> handle = torch.nn.modules.module.register_module_full_backward_hook(lambda module, grad_in, grad_out: seen.append(grad_out))
    >>> nn.ReLU()(torch.ones(1, requires_grad=True)).backward()
    >>> handle.remove()
    >>> seen
    [(tensor([1.]),)]
    """
    return _register_global("backward", hook)


register_module_backward_hook = register_module_full_backward_hook


def _no_registration_hooks(hook):
    """Hooks on the registration of parameters, buffers and modules are not in Facula: NotImplementedError says what to do.

    >>> torch.nn.modules.module.register_module_buffer_registration_hook(print)
    NotImplementedError: hooks on the registration of parameters, buffers and modules are not in Facula: subclass and override __setattr__
    """
    raise NotImplementedError(
        "hooks on the registration of parameters, buffers and modules are not in Facula: subclass and override __setattr__"
    )


register_module_buffer_registration_hook = _no_registration_hooks
register_module_module_registration_hook = _no_registration_hooks
register_module_parameter_registration_hook = _no_registration_hooks


def _hooks_property(name):
    def get(self):
        return self._hooks(name)

    def put(self, value):
        self._set_hooks(name, value)

    return property(get, put)


def _add_indent(text, n):
    first, *rest = text.split("\n")
    return "\n".join([first] + [" " * n + line for line in rest])


class Module(_C._ModuleBase):
    """What every neural network is: subclass it, make layers in __init__ (after super().__init__()), compute in forward.

    Parameters, buffers and modules that are assigned as attributes belong to the module: parameters() lists them, to() moves them,
    state_dict() saves them.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = nn.Linear(2, 1)
    ...     def forward(self, x):
    ...         return self.layer(x)
    ...
    >>> Net()(torch.ones(3, 2)).shape
    torch.Size([3, 1])
    """

    dump_patches = False
    _version = 1
    call_super_init = False

    for _name in (
        "_forward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
        "_backward_hooks",
        "_backward_pre_hooks",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
    ):
        locals()[_name] = _hooks_property(_name)
    del _name

    def _hooks_there(self, name):
        """The dict of hooks, or nothing: asking leaves the module as it is."""
        hooks = self._all_hooks
        return hooks.get(name, {}) if hooks else {}

    # ---- calling, where somebody listens ----

    def _call_hooked(self, *args, **kwargs):
        own = self._all_hooks or {}
        always = own.get("_forward_hooks_always_called")
        if not always and not _global["always"]:
            return self._call_through(own, args, kwargs, {})
        called, state = {}, {"args": args, "kwargs": kwargs}
        try:
            return self._call_through(own, args, kwargs, called, state)
        except Exception:
            for key, hook in list(_global["forward"].items()) + list(own.get("_forward_hooks", {}).items()):
                if key in called or not (key in _global["always"] or key in (always or {})):
                    continue
                try:
                    self._after(
                        hook,
                        key in _global["with_kwargs"] or key in own.get("_forward_hooks_with_kwargs", {}),
                        state["args"],
                        state["kwargs"],
                        None,
                    )
                except Exception as e:
                    warnings.warn(
                        f"{'global ' if key in _global['forward'] else ''}module forward hook with ``always_call=True`` raised"
                        f" an exception that was silenced as another error was raised in forward: {e}"
                    )
            raise

    def _after(self, hook, with_kwargs, args, kwargs, result):
        return hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)

    def _call_through(self, own, args, kwargs, called, state=None):
        with_kwargs = own.get("_forward_pre_hooks_with_kwargs", {})
        for key, hook in [*_global["forward_pre"].items(), *own.get("_forward_pre_hooks", {}).items()]:
            if key in with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                        )
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
            if state is not None:
                state["args"], state["kwargs"] = args, kwargs
        backward = [*_global["backward"].values(), *own.get("_backward_hooks", {}).values()]
        backward_pre = [*_global["backward_pre"].values(), *own.get("_backward_pre_hooks", {}).values()]
        watch = None
        if backward or backward_pre:
            from ._backward import Watch

            watch = Watch(self, backward, backward_pre)
            args = watch.inputs(args)
        result = self.forward(*args, **kwargs)
        with_kwargs = own.get("_forward_hooks_with_kwargs", {})
        for key, hook in [*_global["forward"].items(), *own.get("_forward_hooks", {}).items()]:
            called[key] = True
            changed = self._after(hook, key in _global["with_kwargs"] or key in with_kwargs, args, kwargs, result)
            if changed is not None:
                result = changed
        return watch.outputs(result) if watch else result

    def _register(self, name, hook, prepend=False, **flags):
        hooks = getattr(self, name)
        extra = [getattr(self, flag) for flag in flags]
        handle = RemovableHandle(hooks, extra_dict=extra)
        hooks[handle.id] = hook
        for (flag, on), where in zip(flags.items(), extra):
            if on:
                where[handle.id] = True
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before forward; what it gives replaces the arguments. with_kwargs: hook(module, args, kwargs)."""
        return self._register("_forward_pre_hooks", hook, prepend, _forward_pre_hooks_with_kwargs=with_kwargs)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, output) after forward; what it gives replaces the output. always_call: after an error too."""
        return self._register(
            "_forward_hooks", hook, prepend, _forward_hooks_with_kwargs=with_kwargs, _forward_hooks_always_called=always_call
        )

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) when gradients by the inputs are there; what it gives replaces grad_input."""
        return self._register("_backward_hooks", hook, prepend)

    def register_backward_hook(self, hook):
        """As register_full_backward_hook, which is better named."""
        return self._register("_backward_hooks", hook)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) before the module's backward; what it gives replaces grad_output."""
        return self._register("_backward_pre_hooks", hook, prepend)

    def register_state_dict_pre_hook(self, hook):
        """hook(module, prefix, keep_vars) before state_dict."""
        return self._register("_state_dict_pre_hooks", hook)

    def _register_state_dict_hook(self, hook):
        return self._register("_state_dict_hooks", hook)

    def register_state_dict_post_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata) after state_dict."""
        hook._from_public_api = True
        return self._register("_state_dict_hooks", hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return self._register("_load_state_dict_pre_hooks", (lambda *a: hook(self, *a)) if with_module else hook)

    def register_load_state_dict_pre_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) before a load."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """hook(module, incompatible_keys) after a load."""
        return self._register("_load_state_dict_post_hooks", hook)

    # ---- finding ----

    def get_submodule(self, target):
        """The module below this one at a dotted path: net.get_submodule("encoder.0")."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Replaces the module at a dotted path."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        setattr(parent, name, module)

    def get_parameter(self, target):
        """The parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        parameter = getattr(module, name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target):
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return getattr(module, name)

    # ---- changing all of it ----

    def apply(self, fn):
        """fn(module) for all modules below, then for this one; returns the module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def requires_grad_(self, requires_grad=True):
        """Sets requires_grad of all parameters; returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def _apply(self, fn, recurse=True):
        """fn over parameters, their gradients, and buffers. All results are made first: after an error the module is as it was."""
        changes, done = [], {}
        for module in self.modules() if recurse else (self,):
            for name, p in module._parameters.items():
                if p is not None and id(p) not in done:
                    done[id(p)] = True
                    with _C.no_grad():
                        changes.append((p, None, fn(p), None if p.grad is None else fn(p.grad)))
            for name, b in module._buffers.items():
                if b is not None:
                    if id(b) not in done:
                        with _C.no_grad():
                            done[id(b)] = fn(b)
                    changes.append((module, name, done[id(b)], None))
        for target, name, value, grad in changes:
            if name is not None:
                target._buffers[name] = value
                continue
            if value is not target:
                target.grad = None if grad is not None else target.grad
                target.data = value.data
            if grad is not None:
                target.grad = grad.detach().requires_grad_(grad.requires_grad)
        return self

    def _converted(self, fn):
        if any(type(m)._apply is not Module._apply for m in self.modules()):  # somebody has an _apply of its own
            for module in self.children():
                module._converted(fn)
            return self._apply(fn, recurse=False) if type(self)._apply is Module._apply else self._apply(fn)
        return self._apply(fn)

    def to(self, *args, **kwargs):
        """to(device), to(dtype), to(device, dtype), to(tensor): moves and converts floating parameters and buffers, in place."""
        device, dtype, non_blocking, memory_format = _parse_to(args, **kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")

        def convert(t):
            options = {"non_blocking": non_blocking}
            if device is not None:
                options["device"] = device
            if dtype is not None and t.is_floating_point():
                options["dtype"] = dtype
            if memory_format is not None and t.dim() in (4, 5):
                options["memory_format"] = memory_format
            return t.to(**options)

        return self._converted(convert)

    def to_empty(self, *, device, recurse=True):
        """Moves without the values: memory on the other device is not set."""
        from ... import empty_like

        return self._apply(lambda t: empty_like(t, device=device), recurse)

    def cuda(self, device=None):
        """Moves all of it to a CUDA device."""
        return self._converted(lambda t: t.cuda(device))

    def xpu(self, device=None):
        """Moves all of it to an XPU."""
        return self._converted(lambda t: t.xpu(device))

    def npu(self, device=None):
        """Moves all of it to a device of a plug-in that is called npu."""
        return self._converted(lambda t: t.npu(device))

    def cpu(self):
        """Moves all of it to the CPU."""
        return self._converted(lambda t: t.cpu())

    def type(self, dst_type):
        """Converts all parameters and buffers."""
        return self._converted(lambda t: t.type(dst_type))

    def float(self):
        """Floating parameters and buffers in float32."""
        return self._converted(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        """Floating parameters and buffers in float64."""
        return self._converted(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        """Floating parameters and buffers in float16."""
        return self._converted(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        """Floating parameters and buffers in bfloat16."""
        return self._converted(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def share_memory(self):
        """Parameters and buffers in memory that other processes see."""
        return self._apply(lambda t: t.share_memory_())

    def compile(self, *args, **kwargs):
        """Does nothing: Facula runs every operation at once."""

    # ---- state dicts ----

    def get_extra_state(self):
        """What a subclass wants in its state dict besides tensors; set_extra_state gets it back."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state):
        """Gets what get_extra_state gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        self._save_own(destination, prefix, keep_vars)
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """All parameters and persistent buffers by path, sharing memory; keep_vars: the tensors themselves."""
        if args:
            warnings.warn("Positional args are being deprecated, use kwargs instead.", FutureWarning, stacklevel=2)
            destination, prefix, keep_vars = (*args, *(destination, prefix, keep_vars)[len(args) :])
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._hooks_there("_state_dict_pre_hooks").values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._hooks_there("_state_dict_hooks").values():
            result = hook(self, destination, prefix, metadata)
            if result is not None and not getattr(hook, "_from_public_api", False):
                destination = result
        return destination

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for hook in self._hooks_there("_load_state_dict_pre_hooks").values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        left_out = self._non_persistent_buffers_set
        own = [*self._parameters.items(), *((n, b) for n, b in self._buffers.items() if n not in left_out)]
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own:
            if tensor is None:
                continue
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            self._load_one(name, tensor, key, state_dict[key], assign, error_msgs)
        extra = prefix + "_extra_state"
        if type(self).set_extra_state is not Module.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            known = {n for n, t in own if t is not None} | set(self._modules)
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    first, dot, _ = key[len(prefix) :].partition(".")
                    if first not in known or (not dot and first in self._modules):
                        unexpected_keys.append(key)

    def _load_one(self, name, tensor, key, given, assign, error_msgs):
        if not isinstance(given, _C.Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint but'
                f" received {type(given)}"
            )
            return
        if tensor.ndim == 0 and given.ndim == 1 and len(given) == 1:  # files of PyTorch before 0.4
            given = given[0]
        lazy = getattr(tensor, "_is_uninitialized", False)
        if not lazy and given.shape != tensor.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in current model"
                f" is {tensor.shape}."
            )
            return
        try:
            with _C.no_grad():
                if assign:
                    if isinstance(tensor, Parameter):
                        given = given if isinstance(given, Parameter) else Parameter(given, requires_grad=tensor.requires_grad)
                        given.requires_grad_(tensor.requires_grad)
                    setattr(self, name, given)
                else:
                    tensor.copy_(given)
        except Exception as e:
            error_msgs.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are {tensor.size()} and whose'
                f" dimensions in the checkpoint are {given.size()}, an exception occurred : {e.args}."
            )

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies tensors by path, converting type and device; strict: missing and unexpected paths are errors, other sizes always.
        assign: the tensors themselves take the places of those here."""
        if not hasattr(state_dict, "items"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module, state, prefix):
            local = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local["assign_to_params_buffers"] = assign
            module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = prefix + name + "."
                    load(child, {k: v for k, v in state.items() if k.startswith(below)}, below)
            found = _IncompatibleKeys(missing, unexpected)
            for hook in module._hooks_there("_load_state_dict_post_hooks").values():
                if hook(module, found) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                        "if incompatible_keys need to be modified, it should be done inplace."
                    )

        load(self, state_dict, "")
        if strict:
            if unexpected:
                errors.insert(0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected)))
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(self.__class__.__name__, "\n\t".join(errors))
            )
        return _IncompatibleKeys(missing, unexpected)

    # ---- copies ----

    def __getstate__(self):
        mirrored = set()
        state = {"training": self.training}
        if self._initialised:
            for name in ("_parameters", "_buffers", "_modules"):
                entries = OrderedDict(getattr(self, name).items())
                mirrored.update(entries)
                state[name] = entries
            state["_non_persistent_buffers_set"] = self._non_persistent_buffers_set
        if self._all_hooks:
            state.update({k: v for k, v in self._all_hooks.items() if v})
        state.update({k: v for k, v in self.__dict__.items() if k not in mirrored})
        for c in type(self).__mro__:
            for slot in getattr(c, "__slots__", ()):
                if slot in ("__dict__", "__weakref__"):
                    continue
                if hasattr(self, slot):
                    state[slot] = getattr(self, slot)
        return state

    def __setstate__(self, state):
        state = dict(state)
        registry = [state.pop(name, {}) for name in ("_parameters", "_buffers", "_modules")]
        left_out = state.pop("_non_persistent_buffers_set", set())
        if not self._initialised:
            self._restore(state, registry[0])
        for entries, name in zip(registry, ("_parameters", "_buffers", "_modules")):
            view = getattr(self, name)
            for key, value in entries.items():
                view[key] = value
        self._non_persistent_buffers_set = left_out
        for key, value in state.items():
            setattr(self, key, value)

    def _restore(self, state, parameters):
        """The module as its class makes it, before attributes and tensors come back. Layers have more to do."""
        Module.__init__(self)

    def __reduce_ex__(self, protocol):
        return copyreg.__newobj__, (type(self),), self.__getstate__()

    # ---- printing ----

    def _get_name(self):
        return self.__class__.__name__

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = (
            [f"({name}): {_add_indent(repr(module), 2)}" for name, module in self._modules.items()] if self._initialised else []
        )
        text = self._get_name() + "("
        if lines or children:
            if len(lines) == 1 and not children:
                text += lines[0]
            else:
                text += "\n  " + "\n  ".join(lines + children) + "\n"
        return text + ")"

    def __dir__(self):
        names = set(dir(self.__class__)) | set(self.__dict__)
        if self._initialised:
            names.update(self._parameters, self._buffers, self._modules)
        return sorted(n for n in names if not n[:1].isdigit())


def _parse_to(args, device=None, dtype=None, non_blocking=False, copy=False, memory_format=None, **others):
    """The arguments of to(), as Tensor.to takes them: device, dtype, non_blocking, memory_format."""
    def named(x):
        return ("torch." if isinstance(x, (_C.dtype, _C.device)) else "") + type(x).__name__

    wrong = bool(others)
    for i, a in enumerate(args):
        if isinstance(a, _C.dtype) and dtype is None:
            dtype = a
        elif i == 0 and (a is float or isinstance(a, float)):  # a number stands for a tensor of it
            dtype = _C.float64
        elif isinstance(a, _C.Tensor):
            device, dtype = a.device, a.dtype
        elif isinstance(a, bool) and i:
            non_blocking = non_blocking or a
        elif i == 0 and isinstance(a, (str, int, _C.device)):
            device = a
        elif a is not None:
            wrong = True
    if wrong:
        raise TypeError(
            "to() received an invalid combination of arguments - got ("
            + ", ".join([named(x) for x in args] + [f"{name}={named(x)}" for name, x in others.items()])
            + "), but expected one of:\n * (torch.device device = None, torch.dtype dtype = None, bool non_blocking ="
            " False, bool copy = False, *, torch.memory_format memory_format = None)\n * (torch.dtype dtype, bool"
            " non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n * (Tensor tensor,"
            " bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
        )
    if device is not None and not isinstance(device, _C.device):
        device = _C.device(device)
    return device, dtype, non_blocking, memory_format
