"""Mixed precision."""
from . import _C

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast:
    """autocast(device_type, enabled=False): everything in its own precision. Switched on it is planned, and says so."""

    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=None):
        if enabled and not (device_type == "cuda" and not _C._device_is_available(_C.device("cuda"))):
            raise NotImplementedError("autocast is planned in Facula: give enabled=False, or convert with x.half() or x.bfloat16()")
        if enabled:
            import warnings
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __call__(self, function):
        return function


class GradScaler:
    """GradScaler(enabled=False), and wherever there is no CUDA device: gradients are left as they are. Else planned, and says so."""

    def __init__(self, device="cuda", init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        if enabled and _C._device_is_available(_C.device(device)) and str(device).startswith("cuda"):
            raise NotImplementedError("GradScaler is planned in Facula: give enabled=False")
        if enabled:
            import warnings
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")

    def scale(self, outputs):
        """The loss itself."""
        return outputs

    def unscale_(self, optimizer):
        """Gradients are not scaled."""

    def step(self, optimizer, *args, **kwargs):
        """The optimizer's step."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """There is no scale to change."""

    def get_scale(self):
        """1."""
        return 1.0

    def is_enabled(self):
        """False."""
        return False

    def state_dict(self):
        """Nothing."""
        return {}

    def load_state_dict(self, state_dict):
        """Nothing is to be loaded."""


def custom_fwd(function=None, *, device_type="cuda", cast_inputs=None):
    """Around forward of a Function: the function itself."""
    return (lambda f: f) if function is None else function


def custom_bwd(function=None, *, device_type="cuda"):
    """Around backward of a Function: the function itself."""
    return (lambda f: f) if function is None else function
