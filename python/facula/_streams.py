"""Streams and events: torch.Stream and torch.Event, and what torch.cuda, torch.xpu and their kind make of them.

Work of a device goes to this thread's current stream. Streams run side by side: what one made, another may use after
`wait_stream` or an event, and `tensor.record_stream` keeps memory until a stream that uses it too is done.
"""
from . import _C
from ._C import device as _device


def _kind_there():
    found = _C._accelerator()
    return "cuda" if found is None else found.type


def _checked(what, kind, call):
    """what, which has to be a Stream or an Event."""
    if isinstance(what, kind):
        return what
    raise TypeError(f"{call}: {kind.__name__} needed, not {type(what).__name__}")


class Stream:
    """Stream(device=None, *, priority=0)

    A queue of a device's work. `with stream:` work goes there.

    >>> torch.Stream("cpu").query()
    True
    """

    _kind = None
    device, stream_id = None, 0  # of each one: its device and its number there

    def __init__(self, device=None, *, priority=0):
        self._set(_C._stream("new", _device(_kind_there()) if device is None else _device(device), priority))

    def _set(self, named):
        self.device, self.stream_id = named
        self._before = []

    @classmethod
    def _of(cls, named):
        stream = cls.__new__(cls)
        stream._set(named)
        return stream

    @property
    def device_type(self):
        """The kind of device, "cuda"."""
        return self.device.type

    @property
    def device_index(self):
        """The number of the device; -1 of the CPU."""
        return -1 if self.device.index is None else self.device.index

    @property
    def priority(self):
        """0, or below 0 for work that goes first."""
        return _C._stream_facts(self.device, self.stream_id)[0]

    @property
    def native_handle(self):
        """The driver's own handle, as an integer; 0 of the default stream."""
        return _C._stream_facts(self.device, self.stream_id)[1]

    def query(self):
        """Whether all its work is done."""
        return _C._stream_query(self.device, self.stream_id)

    def synchronize(self):
        """Waits until all its work is done; errors that came late are raised here."""
        _C._stream_synchronize(self.device, self.stream_id)

    def is_capturing(self):
        """Whether its work is noted down for a graph and not done."""
        return _C._stream_capturing(self.device, self.stream_id)

    def wait_stream(self, stream):
        """Work put in later begins after all that the other stream has now."""
        _checked(stream, _bases[0], "wait_stream()")
        _C._stream_wait_stream(self.device, self.stream_id, stream.device, stream.stream_id)

    def wait_event(self, event):
        """Work put in later begins after the event."""
        _checked(event, _bases[1], "wait_event()").wait(self)

    def record_event(self, event=None):
        """Puts an event, or a new one, behind all work so far; returns it."""
        event = self._event() if event is None else event
        event.record(self)
        return event

    def _event(self):
        return Event(self.device)

    def __enter__(self):
        if self.device.type != "cpu":
            here = _C._stream("current", _device(self.device.type))
            self._before.append((_C._stream("current", self.device), here))
            _C._stream_set(self.device, self.stream_id)
        return self

    def __exit__(self, *error):
        if self.device.type != "cpu":
            for named in self._before.pop():
                _C._stream_set(*named)
        return False

    def __eq__(self, other):
        return isinstance(other, Stream) and (other.device, other.stream_id) == (self.device, self.stream_id)

    def __hash__(self):
        return hash((self.device, self.stream_id))

    def __repr__(self):
        return f"torch.Stream device_type={self.device_type}, device_index={self.device_index}, stream_id={self.stream_id}"


class Event:
    """Event(device=None, *, enable_timing=False, blocking=False, interprocess=False)

    A mark in a stream: others can wait for it, and the time between two of them can be measured.

    >>> torch.Event().query()
    True
    """

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        self._event, self._kind = _C._Event(enable_timing), _kind_there() if device is None else _device(device).type

    @property
    def device(self):
        """The device that it was recorded on; of a new one, its kind."""
        return self._event.device or _device(self._kind)

    @property
    def event_id(self):
        """The address of the event, 0 before it is recorded."""
        return self._event.address if self._event.device else 0

    def _named(self, stream):
        if stream is not None:
            _checked(stream, _bases[0], "an event's record() and wait()")
            return stream.device, stream.stream_id
        return _C._stream("current", _device(self._kind))

    def record(self, stream=None):
        """Puts it behind all work of a stream so far, the current one if none is given."""
        self._event.record(*self._named(stream))

    def wait(self, stream=None):
        """Work that the stream gets later begins after the event."""
        if self._event.device:
            self._event.wait(*self._named(stream))

    def query(self):
        """Whether it was reached; of one that was never recorded, True."""
        return self._event.query()

    def synchronize(self):
        """Waits until it is reached."""
        self._event.synchronize()

    def elapsed_time(self, end_event):
        """Milliseconds from this event to the other; both must have been reached."""
        return self._event.elapsed(_checked(end_event, _bases[1], "elapsed_time()")._event)

    def ipc_handle(self):
        """Events of several processes: not there."""
        raise NotImplementedError("events can't be shared between processes: this is not planned. Synchronize, and send a message")

    @classmethod
    def from_ipc_handle(cls, device, handle):
        """Events of several processes: not there."""
        raise NotImplementedError("events can't be shared between processes: this is not planned. Synchronize, and send a message")

    def __repr__(self):
        index = -1 if self._event.device is None else self._event.device.index
        return f"torch.Event device_type={self._kind}, device_index={index}, event_flag=0, event_id={self.event_id}"


class StreamContext:
    """StreamContext(stream): what `with torch.cuda.stream(s):` makes; None changes nothing.

    >>> s = torch.cuda.Stream()
    >>> with torch.cuda.stream(s):
    ...     x = torch.ones(2, device='cuda')
    >>> torch.cuda.current_stream().wait_stream(s)
    """

    def __init__(self, stream):
        self.stream = None if stream is None else _checked(stream, _bases[0], "stream()")

    def __enter__(self):
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error):
        if self.stream is not None:
            self.stream.__exit__()
        return False


_bases = Stream, Event, StreamContext


def make(kind, where):
    """Streams and events of a kind of device ("cuda"), as a dict of names. where: a device out of what users give."""
    title = f"{_C._names}.{kind}"
    base_stream, base_event, Context = _bases

    class Stream(base_stream):
        """Stream(device=None, priority=0)

        A queue of a device's work, beside its default one. `with stream:` work goes there.

        >>> s = torch.cuda.Stream()
        >>> with torch.cuda.stream(s):
        ...     x = torch.ones(2, device='cuda')
        >>> torch.cuda.current_stream().wait_stream(s)
        >>> x.tolist()
        [1.0, 1.0]
        """

        def __init__(self, device=None, priority=0, **kwargs):
            self._set(_C._stream("new", where(device), priority))

        def _event(self):
            return Event()

        @staticmethod
        def priority_range():
            """(lowest, highest): the priorities that are told apart."""
            return 0, -1

        def __repr__(self):
            return f"<torch.{kind}.Stream device={self.device} {kind}_stream={self.native_handle:#x}>"

        __hash__ = base_stream.__hash__

    setattr(Stream, f"{kind}_stream", Stream.native_handle)

    class ExternalStream(Stream):
        """ExternalStream(stream_ptr, device=None)

        A stream that another library made, by the driver's handle.

        >>> s = torch.cuda.Stream()
        >>> torch.cuda.ExternalStream(s.cuda_stream).query()
        True
        """

        def __init__(self, stream_ptr, device=None, **kwargs):
            self._set(_C._stream("external", where(device), 0, stream_ptr))

    class Event(base_event):
        """Event(enable_timing=False, blocking=False, interprocess=False, external=False)

        A mark in a stream: others can wait for it, and the time between two of them can be measured.

        >>> start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        >>> start.record()
        >>> x = torch.ones(100, device='cuda') * 2
        >>> end.record()
        >>> end.synchronize()
        >>> start.elapsed_time(end) >= 0
        True
        """

        def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
            super().__init__(_device(kind), enable_timing=enable_timing)

        def _address(self):
            """The address of the event, 0 before it is recorded."""
            return self.event_id

        def __repr__(self):
            return f"<torch.{kind}.Event {self.event_id:#x}>" if self._event.device else f"<torch.{kind}.Event uninitialized>"

    setattr(Event, f"{kind}_event", property(Event._address))

    class StreamContext(Context):
        """StreamContext(stream)

        `with torch.cuda.stream(s):` work goes to s, and its device is the current one; None changes nothing.

        >>> s = torch.cuda.Stream('cuda:1')
        >>> with torch.cuda.stream(s):
        ...     torch.cuda.current_device()
        1
        """

    def current_stream(device=None):
        """The stream that this thread's work on a device goes to.

        >>> torch.cuda.current_stream() == torch.cuda.default_stream()
        True
        """
        return Stream._of(_C._stream("current", where(device)))

    def default_stream(device=None):
        """The stream that a device's work goes to unless another one is chosen.

        >>> torch.cuda.default_stream('cuda:1').device_index
        1
        """
        return Stream._of(_C._stream("default", where(device)))

    def get_stream_from_external(data_ptr, device=None):
        """A stream that another library made, by the driver's handle.

        >>> s = torch.cuda.Stream()
        >>> torch.cuda.get_stream_from_external(s.cuda_stream).device_index
        0
        """
        return ExternalStream(data_ptr, device)

    def stream(stream):
        """`with stream(s):` work goes to s, and its device is the current one; None changes nothing.

        >>> s = torch.cuda.Stream()
        >>> with torch.cuda.stream(s):
        ...     torch.cuda.current_stream() == s
        True
        """
        return StreamContext(stream)

    def set_stream(stream):
        """This thread's work goes to stream from now on, and its device is the current one; None changes nothing.

        >>> s = torch.cuda.Stream()
        >>> torch.cuda.set_stream(s)
        >>> torch.cuda.current_stream() == s
        True
        >>> torch.cuda.set_stream(torch.cuda.default_stream())
        """
        if stream is not None:
            _checked(stream, base_stream, "set_stream()")
            _C._stream_set(stream.device, stream.stream_id)

    for made in (Stream, ExternalStream, Event, StreamContext):
        made.__module__, made.__qualname__ = title, made.__name__
    names = dict(locals())
    for hidden in ("kind", "where", "title", "base_stream", "base_event", "Context", "made"):
        names.pop(hidden, None)
    return names
