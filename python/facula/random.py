"""Random numbers of all devices: seeds, states, and fork_rng, after which they go on as if nothing had been drawn."""
import contextlib

import facula as torch
from . import _missing

__all__ = ["set_rng_state", "get_rng_state", "manual_seed", "seed", "initial_seed", "fork_rng"]


def manual_seed(seed):
    """Start the random numbers of every device anew; returns the CPU's generator.

    >>> generator = torch.random.manual_seed(0)
    >>> torch.rand(2)
    tensor([0.4963, 0.7682])
    """
    return torch.manual_seed(seed)


def seed():
    """Start the random numbers of every device anew from a number that nobody chose; returns it.

    >>> isinstance(torch.random.seed(), int)
    True
    """
    return torch.seed()


def initial_seed():
    """The number that the CPU's generator was started from.

    >>> generator = torch.manual_seed(7)
    >>> torch.random.initial_seed()
    7
    """
    return torch.initial_seed()


def get_rng_state():
    """The state of the CPU's generator, a tensor of bytes.

    >>> state = torch.random.get_rng_state()
    >>> a = torch.rand(2)
    >>> torch.random.set_rng_state(state)
    >>> torch.equal(a, torch.rand(2))
    True
    """
    return torch.get_rng_state()


def set_rng_state(new_state):
    """Go on from a state of get_rng_state().

    >>> state = torch.random.get_rng_state()
    >>> a = torch.rand(2)
    >>> torch.random.set_rng_state(state)
    >>> torch.equal(a, torch.rand(2))
    True
    """
    torch.set_rng_state(new_state)


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type=None):
    """Within it random numbers are drawn as usual; at its end the CPU and the devices go on where they were at its beginning.

    devices: numbers of devices, all that there are if not given. enabled=False: does nothing.

    >>> generator = torch.manual_seed(0)
    >>> with torch.random.fork_rng():
    ...     a = torch.rand(2)
    ...
    >>> torch.equal(a, torch.rand(2))
    True
    """
    if not enabled:
        yield
        return
    if device_type not in (None, "cpu", "cuda"):
        raise RuntimeError(f"torch has no module of `{device_type}`, you should register a module by "
                           "`torch._register_device_module`. Facula has cpu and cuda.")
    if devices is None:
        devices = range(torch.cuda.device_count()) if device_type != "cpu" and torch.cuda.is_available() else ()
    devices = list(devices)
    cpu, states = torch.get_rng_state(), [torch.cuda.get_rng_state(device) for device in devices]
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        for device, state in zip(devices, states):
            torch.cuda.set_rng_state(state, device)


__getattr__ = _missing.attribute_of(__name__)
