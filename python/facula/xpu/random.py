"""torch.xpu.random: seeds and states of xpu devices, under their address there."""
from .. import xpu as _xpu

__all__ = ["get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state",
           "set_rng_state_all"]
globals().update({name: getattr(_xpu, name) for name in __all__})
