"""What torch.cuda, torch.xpu, torch.mps and their kind have in common: functions about one kind of device."""
from . import _C
from ._C import device as _device
from . import _graphs, _memory, _streams


def device_or_index(d):
    """A device of what users name one by; a number is that of an accelerator."""
    return _device(d)


class Uuid(str):
    """The number that names a device among all, as text; bytes: as 16 numbers."""

    @property
    def bytes(self):
        """The 16 numbers."""
        return list(bytes.fromhex(self.replace("-", "")))


class Properties:
    """What is known of a device. Sizes are in bytes, rates in kHz, memory_bus_width in bits; 0 where the driver does not tell."""

    def __init__(self, kind, facts):
        self.__dict__.update(facts)
        self._kind = kind
        self.uuid = Uuid(self.uuid)
        self.gcnArchName = self.name  # of AMD's devices the architecture

    def __repr__(self):
        return (f"_{self._kind.capitalize()}DeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
                f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
                f"pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, pci_domain_id={self.pci_domain_id}, "
                f"L2_cache_size={self.L2_cache_size >> 20}MB)")


class DefaultGenerators:
    """The default generators of all devices of a kind, by index; empty where there is none."""

    def __init__(self, generators):
        self._generators = generators

    def __getitem__(self, index):
        return tuple(self._generators())[index]

    def __len__(self):
        return len(self._generators())

    def __iter__(self):
        return iter(self._generators())

    def __repr__(self):
        return repr(tuple(self._generators()))


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
        """Whether there is such a device.

        >>> torch.cuda.is_available()
        True
        """
        return _C._device_is_available(_device(kind))

    def device_count():
        """How many such devices there are.

        >>> torch.cuda.device_count()
        2
        """
        return _C._device_count(_device(kind))

    def why_not():
        """Why there is no such device, step by step, and how to mend it; or what stands behind those that there are. print() it.

        >>> print(torch.cuda.why_not().splitlines()[0])
        cuda: 2 devices
        """
        return _C._why_not(_device(kind))

    def is_initialized():
        """Whether such a device was used or can be.

        >>> torch.cuda.is_initialized()
        True
        """
        return is_available()

    def init():
        """Opens the driver; needed by nobody, devices are opened when they are used.

        >>> torch.cuda.init()
        """
        _C._current_device(_device(kind))

    def current_device():
        """The index of the device that the bare name of this kind means on this thread.

        >>> torch.cuda.current_device()
        0
        """
        return _C._current_device(_device(kind))

    def set_device(device):
        """Makes a device the current one of this thread.

        >>> torch.cuda.set_device(1)
        >>> torch.ones(1, device='cuda').device
        device(type='cuda', index=1)
        >>> torch.cuda.set_device(0)
        """
        if isinstance(device, int) and device < 0:
            return
        there = where(device)
        if there.index is None:
            raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {there}. Give its number: set_device(0)")
        _C._set_device(there)

    class device:
        """`with device(1):` another current device until the end.

        >>> with torch.cuda.device(1):
        ...     torch.ones(1, device='cuda').device
        device(type='cuda', index=1)
        """

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
        """`with device_of(tensor):` the tensor's device is the current one, if it is of this kind.

        >>> x = torch.ones(1, device='cuda:1')
        >>> with torch.cuda.device_of(x):
        ...     torch.cuda.current_device()
        1
        """

        def __init__(self, obj):
            super().__init__(obj.get_device() if obj.device.type == kind else -1)

    def get_device_properties(device=None):
        """Name, memory, processors of a device.

        >>> properties = torch.cuda.get_device_properties(0)
        >>> properties.name, properties.total_memory > 0
        ('Facula simulated GPU 0', True)
        """
        there = where(device)
        if is_available() and there.index is not None and there.index >= device_count():
            raise AssertionError("Invalid device id")
        return Properties(kind, _C._device_properties(there))

    def get_device_name(device=None):
        """The name of a device.

        >>> torch.cuda.get_device_name(0)
        'Facula simulated GPU 0'
        """
        return get_device_properties(device).name

    def get_device_capability(device=None):
        """What a device can do: (major, minor) of its architecture.

        >>> major, minor = torch.cuda.get_device_capability()
        >>> major >= 7
        True
        """
        properties = get_device_properties(device)
        return properties.major, properties.minor

    def synchronize(device=None):
        """Waits until all that was started on the device is done; errors that came late are raised here.

        >>> y = torch.ones(3, device='cuda') * 2
        >>> torch.cuda.synchronize()
        """
        _C._synchronize(where(device))

    def generators():
        return [_C._default_generator(_device(kind, i)) for i in range(device_count())]

    def manual_seed(seed):
        """Starts the current device's random numbers anew; where there is no device, nothing.

        >>> torch.cuda.manual_seed(0)
        >>> a = torch.rand(2, device='cuda')
        >>> torch.cuda.manual_seed(0)
        >>> torch.equal(a, torch.rand(2, device='cuda'))
        True
        """
        if is_available():
            _C._default_generator(_device(kind, current_device())).manual_seed(seed)

    def manual_seed_all(seed):
        """Starts the random numbers of all devices of this kind anew.

        >>> torch.cuda.manual_seed_all(0)
        >>> a, b = torch.rand(2, device='cuda:0'), torch.rand(2, device='cuda:1')
        >>> torch.equal(a.cpu(), b.cpu())
        True
        """
        for generator in generators():
            generator.manual_seed(seed)

    def seed():
        """Seeds the current device's random numbers from the system's randomness.

        >>> torch.cuda.seed()
        """
        if is_available():
            _C._default_generator(_device(kind, current_device())).seed()

    def initial_seed():
        """The seed that the current device's random numbers started from.

        >>> torch.cuda.manual_seed(7)
        >>> torch.cuda.initial_seed()
        7
        """
        return _C._default_generator(_device(kind, current_device())).initial_seed()

    def get_rng_state(device=kind):
        """All that further random numbers of a device depend on, as a uint8 tensor.

        >>> torch.cuda.get_rng_state().dtype
        torch.uint8
        """
        there = where(device)
        return _C._default_generator(_device(kind, current_device() if there.index is None else there.index)).get_state()

    def get_rng_state_all():
        """get_rng_state of every device.

        >>> len(torch.cuda.get_rng_state_all())
        2
        """
        return [g.get_state() for g in generators()]

    def set_rng_state(new_state, device=kind):
        """Goes on from what get_rng_state gave; where there is no device, nothing.

        >>> state = torch.cuda.get_rng_state()
        >>> a = torch.rand(2, device='cuda')
        >>> torch.cuda.set_rng_state(state)
        >>> torch.equal(a, torch.rand(2, device='cuda'))
        True
        """
        there = where(device)
        if is_available():
            _C._default_generator(_device(kind, current_device() if there.index is None else there.index)).set_state(new_state)

    def set_rng_state_all(new_states):
        """Goes on from what get_rng_state_all gave.

        >>> states = torch.cuda.get_rng_state_all()
        >>> a = torch.rand(2, device='cuda:1')
        >>> torch.cuda.set_rng_state_all(states)
        >>> torch.equal(a, torch.rand(2, device='cuda:1'))
        True
        """
        for generator, state in zip(generators(), new_states):
            generator.set_state(state)

    def seed_all():
        """Seeds the random numbers of all devices of this kind from the system's randomness: the same for each.

        >>> torch.cuda.seed_all()
        >>> len({g.initial_seed() for g in torch.cuda.default_generators})
        1
        """
        for number, generator in enumerate(generators()):
            chosen = generator.seed() if number == 0 else generator.manual_seed(chosen).initial_seed()

    def utilization(device=None):
        """Per cent of the last fraction of a second in which a kernel ran on the device.

        >>> 0 <= torch.cuda.utilization() <= 100
        True
        """
        return _C._device_sensors(where(device))[0]

    def memory_usage(device=None):
        """Per cent of the last fraction of a second in which the device's memory was read or written.

        >>> 0 <= torch.cuda.memory_usage() <= 100
        True
        """
        return _C._device_sensors(where(device))[1]

    def temperature(device=None):
        """How hot the device is, in degrees Celsius.

        >>> torch.cuda.temperature() < 100
        True
        """
        return _C._device_sensors(where(device))[2]

    def power_draw(device=None):
        """What the device draws, in milliwatts.

        >>> torch.cuda.power_draw() > 0
        True
        """
        return _C._device_sensors(where(device))[3]

    def clock_rate(device=None):
        """How fast the device's multiprocessors run, in MHz.

        >>> torch.cuda.clock_rate() > 0
        True
        """
        return _C._device_sensors(where(device))[4]

    def is_bf16_supported(including_emulation=True):
        """Whether bfloat16 can be used there: wherever there is a device.

        >>> torch.cuda.is_bf16_supported()
        True
        """
        return is_available()

    def is_tf32_supported():
        """Whether float32 products may be computed with fewer digits there: no, Facula does not.

        >>> torch.cuda.is_tf32_supported()
        False
        """
        return False

    def can_device_access_peer(device, peer_device):
        """Whether copies between two devices need not go through the host.

        >>> torch.cuda.can_device_access_peer(0, 1)
        True
        """
        init()
        for word, index in (("", where(device).index), ("peer ", where(peer_device).index)):
            if index is not None and index >= device_count():
                raise AssertionError(f"Invalid {word}device id: {index}, where there are {device_count()} devices")
        return _C._can_access_peer(where(device), where(peer_device))

    default_generators = DefaultGenerators(generators)
    names = dict(locals())
    for hidden in ("kind", "where", "generators"):
        names.pop(hidden, None)
    names.update(_memory.make(kind, where))
    names.update(_streams.make(kind, where))
    names.update(_graphs.make(kind, where, names))
    return names
