"""Graphs: a piece of a device's work that is noted down once and replayed as a whole. What torch.cuda, torch.xpu and their kind have of them.

    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        static_loss = step(static_x, static_y)     # noted down, not done
    for x, y in loader:
        static_x.copy_(x)
        static_y.copy_(y)
        g.replay()                                 # and static_loss has the new loss

Memory that is made in a capture belongs to the graph's pool and keeps its addresses. Random numbers and the steps of optimizers go on from
replay to replay as without a graph.
"""
import gc
import warnings

from . import _C
from ._C import device as _device
from ._nested import leaves, mapped

_MODES = ("global", "thread_local", "relaxed")


def _pool_id(pool):
    """The number of a pool out of None or a token, (0, number)."""
    if pool is None:
        return 0
    if isinstance(pool, tuple) and len(pool) == 2 and type(pool[1]) is int and pool[1] > 0:
        return pool[1]
    raise TypeError(f"pool must be what graph_pool_handle() or graph.pool() gave, not {pool!r:.60}")


class Graph:
    """What the graphs of all kinds of devices have in common; see torch.cuda.CUDAGraph."""

    _kind = None

    def __init__(self, keep_graph=False):
        self._keep, self._debug = keep_graph, False
        _C._current_device(_device(self._kind))  # no such device: it says so
        self._graph = _C._Graph()

    def capture_begin(self, pool=None, capture_error_mode="global", check_input_liveness=False):
        """From now on work of the current stream, which must not be the default one, is noted down and not done.

        pool: graph_pool_handle(), or pool() of another graph whose memory this one may share. In every capture_error_mode only what
        this thread does can spoil the capture.
        """
        if capture_error_mode not in _MODES:
            raise RuntimeError(f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}")
        device, stream = _C._stream("current", _device(self._kind))
        self._graph.begin(device, stream, _pool_id(pool))

    def capture_end(self):
        """Ends the capture; then the graph can be replayed."""
        self._graph.end()
        if not self._graph.facts()[1]:
            warnings.warn("The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or stream.",
                          stacklevel=3)

    def instantiate(self):
        """Nothing is left to do: a captured graph can be replayed at once."""
        if not self._graph.facts()[0]:
            self._graph.replay()

    def replay(self):
        """Does the work that was captured, in the current stream."""
        self._graph.replay()

    def reset(self):
        """Forgets what was captured; its memory that no tensor has is free again."""
        self._graph.reset()

    def pool(self):
        """The token of the graph's memory, for graphs that may share it."""
        return 0, self._graph.pool()

    def enable_debug_mode(self):
        """Lets debug_dump write."""
        self._debug = True

    def debug_dump(self, debug_path):
        """Writes what was captured to a file, in the language of Graphviz."""
        if not self._debug:
            warnings.warn("CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()", stacklevel=2)
        else:
            self._graph.dump(debug_path)

    def register_generator_state(self, state):
        """Nothing to do: generators that are drawn from in a capture are known by that."""

    def get_graph_data(self):
        """What was captured, as data: not there."""
        raise NotImplementedError("get_graph_data() is not in Facula: enable_debug_mode() and debug_dump(path) write what was captured")

    def begin_capture_to_if_node(self, scalar_cuda_pred_tensor):
        """Branches within a graph: not there."""
        raise NotImplementedError("branches within a graph are not planned: capture a graph for each branch")

    def end_capture_to_conditional_node(self):
        """Branches within a graph: not there."""
        raise NotImplementedError("branches within a graph are not planned: capture a graph for each branch")

    @staticmethod
    def get_currently_capturing_graph():
        """The graph that the current stream's work goes into: not there."""
        raise NotImplementedError("get_currently_capturing_graph() is planned; is_current_stream_capturing() tells whether there is one")

    def raw_cuda_graph(self):
        """The driver's graph: it is needed only until it can be launched, and not kept."""
        if not self._keep:
            raise RuntimeError("You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=True")
        raise NotImplementedError("raw_cuda_graph() is not in Facula, which keeps only what is launched: raw_cuda_graph_exec()")

    def raw_cuda_graph_exec(self):
        """What the driver launches (a CUgraphExec), as an integer."""
        handle = self._graph.facts()[2]
        if not handle:
            raise RuntimeError("You cannot access the raw cudaGraphExec_t instance before a capture, or where the library replays the work itself")
        return handle


class AcceleratorGraph(Graph):
    """Graph(keep_graph=False, *, pool=None, capture_error_mode='default')

    A graph of whichever accelerator is there. `with graph:` captures the current stream's work, which must not be the default stream.

    >>> g, x = torch.accelerator.Graph(), torch.zeros(2, device=torch.accelerator.current_accelerator())
    >>> with torch.Stream(x.device), g:
    ...     y = x.add_(1)
    >>> g.replay(), g.replay()
    (None, None)
    >>> x.tolist()
    [2.0, 2.0]
    """

    def __init__(self, keep_graph=False, *, pool=None, capture_error_mode="default"):
        found = _C._accelerator()
        self._kind = "cuda" if found is None else found.type
        super().__init__(keep_graph)
        if capture_error_mode not in ("default", *_MODES):
            raise RuntimeError("Unknown capture error mode. Expected `default`, `global`, `thread_local`, or `relaxed`, got " + str(capture_error_mode))
        self._pool = pool

    def capture_begin(self):
        """From now on work of the current stream, which must not be the default one, is noted down and not done."""
        super().capture_begin(self._pool)

    def debug_dump(self, path):
        """Writes what was captured to a file, in the language of Graphviz."""
        super().debug_dump(path)

    def __enter__(self):
        self.capture_begin()
        return self

    def __exit__(self, kind, *error):
        if kind is None:
            self.capture_end()
        else:
            self.reset()
        return False


AcceleratorGraph.__name__ = AcceleratorGraph.__qualname__ = "Graph"
AcceleratorGraph.__module__ = f"{_C._names}.accelerator"


def _check_callable(c, args, kind):
    from .nn import Module
    if isinstance(c, Module):
        if c._backward_hooks or c._forward_hooks or c._forward_pre_hooks:
            raise RuntimeError("Modules must not have hooks registered at the time they are passed. However, registering hooks on modules after "
                               "passing them through make_graphed_callables is allowed.")
        if any(b.requires_grad for b in c.buffers()):
            raise RuntimeError("In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only parameters may be trainable. All "
                               "buffers must have ``requires_grad=False``.")
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"make_graphed_callables(): sample_args of a callable is a tuple of tensors, not {type(args).__name__}: write (x,) for one")
    flat = list(leaves(args))
    if not all(isinstance(a, _C.Tensor) for a in flat):
        raise TypeError("In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed.")
    for i, a in enumerate(flat):
        if a.device.type != kind:
            raise ValueError(f"make_graphed_callables(): sample_args[{i}] is on {a.device}: there is only work of a {kind} device to note down. Write x.to({kind!r})")
    return flat


class _Part:
    """One callable of make_graphed_callables: its forward and its backward as graphs."""

    def __init__(self, function, args, module, kind):
        self.function, self.args, self.inputs = function, args, _check_callable(function, args, kind)
        self.parameters = [p for p in function.parameters() if p.requires_grad] if isinstance(function, module) else []
        self.wanted = [t for t in (*self.inputs, *self.parameters) if t.requires_grad]

    def gradients(self, grads, allow_unused):
        """Those of what was computed last, in the order of wanted."""
        trained = [o for o in self.outputs if o.requires_grad]
        if not trained or not self.wanted:
            return ()
        from .autograd import grad
        return grad(trained, self.wanted, grads, allow_unused=allow_unused)

    def forward(self):
        made = self.function(*self.args)
        self.made, self.outputs = made, list(leaves(made))

    def capture_backward(self, allow_unused):
        found = iter(self.gradients([g for g in self.grads if g is not None], allow_unused))
        self.results = [next(found, None) if t.requires_grad else None for t in (*self.inputs, *self.parameters)]

    def apply(self, Function):
        part = self

        class Graphed(Function):
            @staticmethod
            def forward(ctx, *inputs):
                for static, new in zip(part.inputs, inputs):
                    if static.data_ptr() != new.data_ptr():
                        static.copy_(new)
                part.forward_graph.replay()
                return tuple(o.detach() for o in part.outputs)

            @staticmethod
            def backward(ctx, *grads):
                for static, new in zip(part.grads, grads):
                    if static is not None and static.data_ptr() != new.data_ptr():
                        static.copy_(new)
                part.backward_graph.replay()
                return tuple(None if r is None else r.detach() for r in part.results)

        def graphed(*args):
            given = list(leaves(args))
            if [getattr(a, "shape", None) for a in given] != [s.shape for s in part.inputs]:
                raise ValueError(f"a graphed callable takes tensors of the shapes in sample_args, {[tuple(s.shape) for s in part.inputs]}, but got "
                                 f"{[tuple(a.shape) if isinstance(a, _C.Tensor) else type(a).__name__ for a in given]}. The graph's sizes are fixed")
            made = Graphed.apply(*given, *part.parameters)
            results = iter(made if isinstance(made, tuple) else (made,))
            return mapped(part.made, lambda _: next(results))
        return graphed


def make(kind, where, names):
    """Graphs and pools of a kind of device, as a dict of names. names: those of the kind's module so far."""
    title, class_name = f"{_C._names}.{kind}", "CUDAGraph" if kind == "cuda" else f"{kind.upper()}Graph"
    base_graph, Part = Graph, _Part

    class Graphs(base_graph):
        """CUDAGraph(keep_graph=False)

        Work of a device that was noted down and is replayed as a whole: see torch.cuda.graph.

        >>> g, x = torch.cuda.CUDAGraph(), torch.ones(2, device="cuda")
        >>> with torch.cuda.graph(g):
        ...     y = x * 3
        >>> g.replay()
        >>> y.tolist()
        [3.0, 3.0]
        """

        _kind = kind

    class graph:
        """graph(cuda_graph, pool=None, stream=None, capture_error_mode='global')

        `with graph(g):` work is noted down in g and not done; g.replay() does it. Stream: the one to capture, a side stream if none is given.

        >>> g, x = torch.cuda.CUDAGraph(), torch.zeros(1, device="cuda")
        >>> with torch.cuda.graph(g):
        ...     y = x.add_(1)
        >>> for _ in range(3):
        ...     g.replay()
        >>> x.item()
        3.0
        """

        default_capture_stream = None
        _streams = {}

        def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global", enable_annotations=False, check_input_liveness=False):
            here = names["current_device"]()
            if stream is None and here not in self._streams:
                self._streams[here] = names["Stream"](here)
            self.pool, self.capture_error_mode, self.cuda_graph = pool, capture_error_mode, cuda_graph
            self.capture_stream = stream if stream is not None else self._streams[here]

        def __enter__(self):
            names["synchronize"](self.capture_stream.device)
            gc.collect()
            names["empty_cache"]()
            self.capture_stream.__enter__()
            try:
                self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
            except BaseException:
                self.capture_stream.__exit__()
                raise

        def __exit__(self, error, *more):
            try:
                if error is None:
                    self.cuda_graph.capture_end()
                else:
                    self.cuda_graph.reset()  # what was noted down is worth nothing
            finally:
                self.capture_stream.__exit__()
            return False

    def graph_pool_handle():
        """The token of a pool of memory that graphs may share.

        >>> len(torch.cuda.graph_pool_handle())
        2
        """
        return 0, _C._graph_pool_new()

    def is_current_stream_capturing():
        """Whether work of the current stream is noted down for a graph.

        >>> torch.cuda.is_current_stream_capturing()
        False
        """
        return names["is_available"]() and _C._stream_capturing(*_C._stream("current", _device(kind)))

    def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
        """make_graphed_callables(callables, sample_args): functions or modules whose forward and backward are replayed as graphs.

        sample_args: a tuple of tensors like those of later calls (of several callables, a tuple of such tuples). Modules come back themselves,
        with another forward; in the other of train() and eval() they run as before.

        >>> net, x = torch.nn.Linear(2, 1).cuda(), torch.ones(3, 2, device="cuda")
        >>> net = torch.cuda.make_graphed_callables(net, (x,))
        >>> net(x).sum().backward()
        >>> net.weight.grad.tolist()
        [[3.0, 3.0]]
        """
        from .autograd import Function
        from .nn import Module
        if _C.is_autocast_enabled(kind) and _C.is_autocast_cache_enabled():
            raise RuntimeError("make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`.")
        if not isinstance(num_warmup_iters, int) or not 0 <= num_warmup_iters <= 10000:
            raise ValueError(f"make_graphed_callables(): num_warmup_iters is {num_warmup_iters!r}: runs before the capture, a whole number from 0 to 10000; 3 are usual")
        single = not isinstance(callables, tuple)
        if single:
            callables, sample_args = (callables,), (sample_args,)
        if not isinstance(sample_args, (tuple, list)) or len(callables) != len(sample_args):
            raise ValueError(f"make_graphed_callables(): a tuple of sample_args is needed for each of the {len(callables)} callables")
        parts = [Part(c, args, Module, kind) for c, args in zip(callables, sample_args)]
        pool = graph_pool_handle() if pool is None else pool
        side = names["Stream"]()
        side.wait_stream(names["current_stream"]())
        with side:
            for part in parts:
                for _ in range(num_warmup_iters):
                    part.forward()
                    part.gradients([_C.zeros_like(o) for o in part.outputs if o.requires_grad], allow_unused_input)
        names["current_stream"]().wait_stream(side)
        for part in parts:
            part.forward_graph = Graphs()
            with graph(part.forward_graph, pool, side):
                part.forward()
        for part in reversed(parts):
            part.backward_graph = Graphs()
            part.grads = [_C.zeros_like(o) if o.requires_grad else None for o in part.outputs]  # before: a replay leaves them alone
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with graph(part.backward_graph, pool, side):
                    part.capture_backward(allow_unused_input)
        made = [_graphed(part, part.apply(Function), Module) for part in parts]
        return made[0] if single else tuple(made)

    class MemPool:
        """MemPool(allocator=None, use_on_oom=False, no_split=False)

        Memory that is kept apart: what is made under use_mem_pool comes from it, and goes back to it.

        >>> pool = torch.cuda.MemPool()
        >>> with torch.cuda.use_mem_pool(pool):
        ...     x = torch.ones(2, device="cuda")
        >>> pool.reserved_bytes()
        2097152
        """

        def __init__(self, allocator=None, use_on_oom=False, no_split=False):
            if allocator is not None:
                raise NotImplementedError("MemPool(allocator=...) is not in Facula: all memory of a device comes from Facula's allocator")
            self._pool = _C._MemPool(_device(kind, names["current_device"]()))

        @property
        def id(self):
            """Its token, for graphs that shall take their memory from it."""
            return 0, self._pool.facts()[0]

        @property
        def allocator(self):
            """Another library's allocator: none."""

        def use_count(self):
            """How many have the pool: this object, which keeps it."""
            return 1

        def snapshot(self, include_traces=True):
            """Its segments alone: not there."""
            raise NotImplementedError("MemPool.snapshot() is planned; torch.cuda.memory_snapshot() shows all segments, reserved_bytes() the pool's size")

        def reserved_bytes(self):
            """What it has taken from the driver, in tensors or free."""
            return self._pool.facts()[1]

    class use_mem_pool:
        """`with use_mem_pool(pool):` this thread's memory comes from the pool.

        >>> with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        ...     x = torch.ones(2, device="cuda")
        """

        def __init__(self, pool, device=None):
            self._pool, self._before = pool, []

        def __enter__(self):
            self._before.append(self._pool._pool.enter())

        def __exit__(self, *error):
            _C._pool_leave(self._before.pop())
            return False

    Graphs.__name__ = class_name
    made = {class_name: Graphs, "graph": graph, "MemPool": MemPool, "use_mem_pool": use_mem_pool, "graph_pool_handle": graph_pool_handle,
            "is_current_stream_capturing": is_current_stream_capturing, "make_graphed_callables": make_graphed_callables}
    for one in (Graphs, graph, MemPool, use_mem_pool):
        one.__module__, one.__qualname__ = title, one.__name__
    return made


def _graphed(part, graphed, Module):
    """What make_graphed_callables gives for a callable: a module itself, with another forward."""
    module = part.function
    if not isinstance(module, Module):
        return graphed
    mode, plain = module.training, module.forward

    def forward(*args):
        return graphed(*args) if module.training == mode else plain(*args)
    module.forward = forward
    return module
