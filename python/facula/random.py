"""Random numbers of all devices: seeds, states, and fork_rng, after which they go on as if nothing had been drawn."""
import contextlib

import facula as torch

__all__ = ["set_rng_state", "get_rng_state", "manual_seed", "seed", "initial_seed", "fork_rng"]


def manual_seed(seed):
    """Start the random numbers of every device anew; returns the CPU's generator."""
    return torch.manual_seed(seed)


def seed():
    """Start the random numbers of every device anew from a number that nobody chose; returns it."""
    return torch.seed()


def initial_seed():
    """The number that the CPU's generator was started from."""
    return torch.initial_seed()


def get_rng_state():
    """The state of the CPU's generator, a tensor of bytes."""
    return torch.get_rng_state()


def set_rng_state(new_state):
    """Go on from a state of get_rng_state()."""
    torch.set_rng_state(new_state)


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type=None):
    """Within it random numbers are drawn as usual; at its end the CPU and the devices go on where they were at its beginning.

    devices: numbers of devices, all that there are if not given. enabled=False: does nothing.
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
