"""What torch.cuda, torch.xpu, torch.mps and their kind have in common: functions about one kind of device."""
import time

from . import _C
from ._C import device as _device
from . import _memory


class Properties:
    """What is known of a device."""

    def __init__(self, kind, facts):
        self.__dict__.update(facts)
        self._kind = kind
        self.is_integrated = self.is_multi_gpu_board = 0

    def __repr__(self):
        return (f"_{self._kind.capitalize()}DeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
                f"total_memory={self.total_memory // 1048576}MB, multi_processor_count={self.multi_processor_count})")


def make(kind):
    """The functions for devices of a kind ("cuda"), as a dict of names."""

    def where(device=None):
        """A device of this kind out of None (the current one), an index, a text or a device."""
        if device is None:
            return _device(kind)
        if isinstance(device, bool) or not isinstance(device, (int, str, _device)):
            index = getattr(device, "idx", None)
            if index is None:
                raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
            device = index
        result = _device(kind, device) if isinstance(device, int) else _device(device)
        if result.type != kind:
            raise ValueError(f"Expected a {kind} device, but got: {result}")
        return result

    def is_available():
        """Whether there is such a device."""
        return _C._device_is_available(_device(kind))

    def device_count():
        """How many such devices there are."""
        return _C._device_count(_device(kind))

    def is_initialized():
        """Whether such a device was used or can be."""
        return is_available()

    def init():
        """Opens the driver; needed by nobody, devices are opened when they are used."""
        _C._current_device(_device(kind))

    def current_device():
        """The index of the device that the bare name of this kind means on this thread."""
        return _C._current_device(_device(kind))

    def set_device(device):
        """Makes a device the current one of this thread."""
        if isinstance(device, int) and device < 0:
            return
        _C._set_device(where(device))

    class device:
        """`with device(1):` another current device until the end."""

        def __init__(self, device):
            self.idx = device if isinstance(device, int) else where(device).index
            self.prev_idx = -1

        def __enter__(self):
            if self.idx is not None and self.idx >= 0:
                self.prev_idx = current_device()
                set_device(self.idx)

        def __exit__(self, *error):
            if self.prev_idx >= 0:
                set_device(self.prev_idx)
            return False

    class device_of(device):
        """`with device_of(tensor):` the tensor's device is the current one, if it is of this kind."""

        def __init__(self, obj):
            super().__init__(obj.get_device() if obj.device.type == kind else -1)

    def get_device_properties(device=None):
        """Name, memory, processors of a device."""
        there = where(device)
        if is_available() and there.index is not None and there.index >= device_count():
            raise AssertionError("Invalid device id")
        return Properties(kind, _C._device_properties(there))

    def get_device_name(device=None):
        """The name of a device."""
        return get_device_properties(device).name

    def get_device_capability(device=None):
        """(major, minor)"""
        properties = get_device_properties(device)
        return properties.major, properties.minor

    def synchronize(device=None):
        """Waits until all that was started on the device is done; errors that came late are raised here."""
        _C._synchronize(where(device))

    def generators():
        return [_C._default_generator(_device(kind, i)) for i in range(device_count())]

    def manual_seed(seed):
        """Starts the current device's random numbers anew; where there is no device, nothing."""
        if is_available():
            _C._default_generator(_device(kind, current_device())).manual_seed(seed)

    def manual_seed_all(seed):
        """Starts the random numbers of all devices of this kind anew."""
        for generator in generators():
            generator.manual_seed(seed)

    def seed():
        """Seeds the current device's random numbers from the system's randomness."""
        if is_available():
            _C._default_generator(_device(kind, current_device())).seed()

    def initial_seed():
        """The seed that the current device's random numbers started from."""
        return _C._default_generator(_device(kind, current_device())).initial_seed()

    def get_rng_state(device=kind):
        """All that further random numbers of a device depend on, as a uint8 tensor."""
        there = where(device)
        return _C._default_generator(_device(kind, current_device() if there.index is None else there.index)).get_state()

    def get_rng_state_all():
        """get_rng_state of every device."""
        return [g.get_state() for g in generators()]

    def set_rng_state(new_state, device=kind):
        """Goes on from what get_rng_state gave."""
        there = where(device)
        _C._default_generator(_device(kind, current_device() if there.index is None else there.index)).set_state(new_state)

    def set_rng_state_all(new_states):
        """Goes on from what get_rng_state_all gave."""
        for generator, state in zip(generators(), new_states):
            generator.set_state(state)

    class Stream:
        """A queue of work. Facula has one for each device: every Stream stands for it, so work is done in the order of the program."""

        def __init__(self, device=None, priority=0, **ignored):
            there = where(device)
            self.device = _device(kind, current_device() if there.index is None else there.index)
            self.priority = priority

        def synchronize(self):
            """Waits until all its work is done."""
            synchronize(self.device)

        def query(self):
            """Whether its work is done; waits for it."""
            self.synchronize()
            return True

        def wait_stream(self, stream):
            """Work put in later begins after that of the other stream."""
            if stream.device != self.device:
                stream.synchronize()

        def wait_event(self, event):
            """Work put in later begins after the event."""
            event.synchronize()

        def record_event(self, event=None):
            """An event behind all work so far."""
            event = Event() if event is None else event
            event.record(self)
            return event

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return False

        def __eq__(self, other):
            return isinstance(other, Stream) and other.device == self.device

        def __hash__(self):
            return hash(self.device)

        def __repr__(self):
            return f"<torch.{kind}.Stream device={self.device} {kind}_stream=0x0>"

    class Event:
        """A mark in a device's work, with the time at which it was reached."""

        def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
            self._timing, self._at = enable_timing, None

        def record(self, stream=None):
            """Marks the end of all work so far."""
            (current_stream() if stream is None else stream).synchronize()
            self._at = time.perf_counter()

        def wait(self, stream=None):
            """Work put in later begins after it."""

        def query(self):
            """Whether it was reached."""
            return True

        def synchronize(self):
            """Waits until it was reached."""

        def elapsed_time(self, end_event):
            """Milliseconds from this event to the other."""
            if not (self._timing and end_event._timing):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if self._at is None or end_event._at is None:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            return (end_event._at - self._at) * 1e3

    def current_stream(device=None):
        """The stream that work of this thread goes to."""
        return Stream(device)

    default_stream = current_stream

    def stream(stream):
        """`with stream(s):` work goes to s."""
        import contextlib
        return contextlib.nullcontext() if stream is None else stream

    def set_stream(stream):
        """Work of this thread goes to stream."""

    def can_device_access_peer(device, peer_device):
        """Whether copies between two devices need not go through the host: not here."""
        return False

    names = dict(locals())
    for hidden in ("kind", "where", "generators"):
        names.pop(hidden, None)
    names.update(_memory.make(kind, where))
    return names
