"""Mixed precision: autocast chooses the precision of each operator, GradScaler keeps small gradients alive in float16.

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = loss_function(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
import functools
import warnings

from .. import _C

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def is_autocast_available(device_type):
    """Whether autocast is known for that type of device, be one there or not.

    >>> torch.amp.is_autocast_available('cuda')
    True
    """
    return bool(_C.device(device_type).type)


class autocast:
    """autocast(device_type, dtype=None, enabled=True, cache_enabled=None): mixed precision inside, as a context or around a function.

    Products and convolutions compute in dtype (float16; on the CPU bfloat16), losses, norms and the like in float32, whatever their inputs are.

    >>> with torch.autocast('cpu'):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if dtype is not None and not isinstance(dtype, _C.dtype):
            raise ValueError(f"Expected `dtype` of type `torch.dtype`, got: `{type(dtype)}`")
        self.device = _C.device(device_type).type
        self.fast_dtype = _C.get_autocast_dtype(self.device) if dtype is None else dtype
        self._enabled = bool(enabled) and _C._autocast_usable(self.device, self.fast_dtype)
        self._cache_enabled = _C.is_autocast_cache_enabled() if cache_enabled is None else bool(cache_enabled)
        self._hidden = []

    def __enter__(self):
        self._hidden.append(_C._autocast_open(self.device, self.fast_dtype, self._enabled, self._cache_enabled))
        return self

    def __exit__(self, *error):
        _C._autocast_close(*self._hidden.pop())
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
        return inside


class GradScaler:
    """GradScaler(device='cuda', init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True)

    Multiplies the loss before backward and divides the gradients before the step; leaves out steps whose gradients are not all finite.

    >>> torch.amp.GradScaler('cpu', init_scale=1024.0).get_scale()
    1024.0
    """

    def __init__(self, device="cuda", init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        self._device = device
        if enabled and str(device).startswith("cuda") and not _C._device_is_available(_C.device("cuda")):
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            enabled = False
        self._enabled = bool(enabled)
        self._core = _C._scaler_new(init_scale, growth_factor, backoff_factor, growth_interval, self._enabled)

    def scale(self, outputs):
        """outputs, a tensor or an iterable of tensors, multiplied by the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, _C.Tensor):
            return _C._scaler_scale(self._core, outputs)
        try:
            return type(outputs)([self.scale(o) for o in outputs]) if isinstance(outputs, (list, tuple)) else map(self.scale, iter(outputs))
        except TypeError:
            raise ValueError("outputs must be a Tensor or an iterable of Tensors") from None

    def _unscale(self, optimizer, name):
        _C._scaler_unscale(self._core, optimizer, [p for group in optimizer.param_groups for p in group["params"]], name)

    def unscale_(self, optimizer):
        """Divides the gradients of the optimizer's parameters by the scale, to look at them or clip them before step."""
        if self._enabled:
            self._unscale(optimizer, "unscale_")

    def step(self, optimizer, *args, **kwargs):
        """optimizer.step(), unless a gradient is inf or NaN; gradients are unscaled first. Returns what the optimizer's step returns."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if not _C._scaler_is_unscaled(self._core, optimizer):
            self._unscale(optimizer, "step")
        rule, guard = getattr(optimizer, "_rule", None), _C._scaler_guard(self._core, optimizer)
        if guard is None or rule is None:
            result = optimizer.step(*args, **kwargs) if _C._scaler_finite(self._core, optimizer) else None
        else:  # in a capture: the device looks at it
            rule.guarded(guard)
            try:
                result = optimizer.step(*args, **kwargs)
            finally:
                rule.guarded(None)
        _C._scaler_stepped(self._core, optimizer)
        return result

    def update(self, new_scale=None):
        """The next scale: smaller after a step that was left out, larger after growth_interval good ones; or new_scale."""
        if not self._enabled:
            return
        if new_scale is None:
            return _C._scaler_update(self._core)
        if isinstance(new_scale, _C.Tensor):
            if new_scale.numel() != 1 or new_scale.requires_grad or not new_scale.is_floating_point():
                raise AssertionError("new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with requires_grad=False.")
            new_scale = new_scale.item()
        state = self._state()
        state[0] = float(new_scale)
        _C._scaler_set(self._core, tuple(state))

    def _state(self):
        return list(_C._scaler_get(self._core))

    def _change(self, at, value):
        state = self._state()
        state[at] = value
        _C._scaler_set(self._core, tuple(state))

    @property
    def _scale(self):
        return _C.tensor(self._state()[0])

    @property
    def _growth_tracker(self):
        return _C.tensor(self._state()[4], dtype=_C.int32)

    def get_scale(self):
        """The scale, 1.0 where the scaler is not enabled. Waits only for a graph that computes it."""
        return self._state()[0]

    def get_growth_factor(self):
        """What the scale is multiplied by when it grows."""
        return self._state()[1]

    def set_growth_factor(self, new_factor):
        """Sets what the scale is multiplied by when it grows."""
        self._change(1, new_factor)

    def get_backoff_factor(self):
        """What the scale is multiplied by after a step that was left out."""
        return self._state()[2]

    def set_backoff_factor(self, new_factor):
        """Sets what the scale is multiplied by after a step that was left out."""
        self._change(2, new_factor)

    def get_growth_interval(self):
        """After how many good steps in a row the scale grows."""
        return self._state()[3]

    def set_growth_interval(self, new_interval):
        """Sets after how many good steps in a row the scale grows."""
        self._change(3, new_interval)

    def is_enabled(self):
        """Whether anything is scaled."""
        return self._enabled

    def state_dict(self):
        """What load_state_dict takes: empty where the scaler is not enabled."""
        if not self._enabled:
            return {}
        return dict(zip(("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"), self._state()))

    def load_state_dict(self, state_dict):
        """Goes on from a state_dict()."""
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        _C._scaler_set(self._core, tuple(state_dict[k] for k in ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")))

    def __getstate__(self):
        return {"_device": self._device, "_enabled": self._enabled, "_values": self._state()}

    def __setstate__(self, state):
        self._device, self._enabled = state["_device"], state["_enabled"]
        values = state["_values"]
        self._core = _C._scaler_new(*values[:4], self._enabled)
        _C._scaler_set(self._core, tuple(values))


def _cast(value, device_type, dtype):
    if isinstance(value, _C.Tensor):
        wanted = value.is_floating_point() and value.device.type == device_type and value.dtype != _C.float64
        return value.to(dtype) if wanted else value
    if isinstance(value, dict):
        return {k: _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """Around forward of a Function: backward will run in the same autocast mode. cast_inputs: a dtype that floating inputs are cast to, and forward runs
    with autocast off.

    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type='cpu', cast_inputs=torch.float32)
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type='cpu')
    ...     def backward(ctx, g):
    ...         return 2 * ctx.saved_tensors[0] * g
    ...
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> with torch.autocast('cpu'):
    ...     y = Square.apply(x)
    >>> y.backward()
    >>> y.dtype, x.grad
    (torch.float32, tensor(6.))
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args, **kwargs):
        ctx = args[0]
        ctx._dtype = _C.get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = _C.is_autocast_enabled(device_type)
        if cast_inputs is None:
            return fwd(*args, **kwargs)
        if not ctx._fwd_used_autocast:
            return fwd(*args, **kwargs)
        ctx._fwd_used_autocast = False
        with autocast(device_type=device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))
    return forward


def custom_bwd(bwd=None, *, device_type):
    """Around backward of a Function whose forward has custom_fwd: runs in forward's autocast mode.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type='cpu')
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type='cpu')
    ...     def backward(ctx, g):
    ...         return 2 * g
    ...
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor(2.)
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx, *args, **kwargs):
        with autocast(device_type=device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)
    return backward


_OLD_EXAMPLES = {
    "autocast": ">>> with torch.{0}.amp.autocast():\n...     torch.is_autocast_enabled('{0}')\nTrue",
    "GradScaler": ">>> torch.{0}.amp.GradScaler().get_scale()\n65536.0",
}


def _old_names(device, module, default):
    """The autocast and GradScaler of torch.cuda.amp and torch.cpu.amp."""
    text = "`torch.{0}.amp.{1}(args...)` is deprecated. Please use `torch.amp.{1}('{0}', args...)` instead."

    class old_autocast(autocast):
        def __init__(self, enabled=True, dtype=getattr(_C, default), cache_enabled=True):
            warnings.warn(text.format(device, "autocast"), FutureWarning, stacklevel=2)
            super().__init__(device, dtype=dtype or getattr(_C, default), enabled=enabled, cache_enabled=cache_enabled)

    class OldGradScaler(GradScaler):
        def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
            warnings.warn(text.format(device, "GradScaler"), FutureWarning, stacklevel=2)
            super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    for kind, name in ((old_autocast, "autocast"), (OldGradScaler, "GradScaler")):
        kind.__name__ = kind.__qualname__ = name
        kind.__module__ = module
        kind.__doc__ = f"torch.amp.{name}('{device}', ...) under its old name, which warns.\n\n" + _OLD_EXAMPLES[name].format(device)
    return old_autocast, OldGradScaler


from .. import _missing

__getattr__ = _missing.attribute_of(__name__, ("autocast_mode", "grad_scaler"))
