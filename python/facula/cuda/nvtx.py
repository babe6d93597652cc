"""Marks for NVIDIA's profilers, by NVTX's own library where it is installed; elsewhere they do nothing.

The numbers returned are NVTX's: the depth of the range, or -2 where no profiler listens, as in PyTorch.
"""
import contextlib

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

NOBODY_LISTENS = -2
_library = None


def _nvtx():
    """NVTX's library, None where it is not installed; looked for once."""
    global _library
    if _library is None:
        import ctypes
        try:
            _library = ctypes.CDLL("libnvToolsExt.so.1")
            _library.nvtxRangeStartA.restype, _library.nvtxRangeStartA.argtypes = ctypes.c_uint64, [ctypes.c_char_p]
            _library.nvtxRangeEnd.argtypes = [ctypes.c_uint64]
        except OSError:
            _library = False
    return _library or None


def _bytes(name, msg):
    if not isinstance(msg, str):
        raise TypeError(f"{name}(): argument 'msg' must be str, not {type(msg).__name__}")
    return msg.encode()


def range_push(msg):
    """Begins a range of that name on this thread; returns its depth, counted from 0.

    >>> depth = torch.cuda.nvtx.range_push('forward')
    >>> depth == torch.cuda.nvtx.range_pop()
    True
    """
    text, library = _bytes("range_push", msg), _nvtx()
    return library.nvtxRangePushA(text) if library else NOBODY_LISTENS


def range_pop():
    """Ends the innermost range of this thread; returns its depth.

    >>> depth = torch.cuda.nvtx.range_push('forward')
    >>> depth == torch.cuda.nvtx.range_pop()
    True
    """
    library = _nvtx()
    return library.nvtxRangePop() if library else NOBODY_LISTENS


def range_start(msg):
    """Begins a range that any thread may end; returns its number.

    >>> number = torch.cuda.nvtx.range_start('copy')
    >>> torch.cuda.nvtx.range_end(number)
    """
    text, library = _bytes("range_start", msg), _nvtx()
    return library.nvtxRangeStartA(text) if library else 0


def range_end(range_id):
    """Ends the range of that number.

    >>> torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start('copy'))
    """
    library = _nvtx()
    if library:
        library.nvtxRangeEnd(range_id)


def mark(msg):
    """Notes a moment.

    >>> torch.cuda.nvtx.mark('epoch 3')
    """
    text, library = _bytes("mark", msg), _nvtx()
    if library:
        library.nvtxMarkA(text)


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """`with range("epoch {}", 3):` a range of the name "epoch 3" around a block.

    >>> with torch.cuda.nvtx.range('batch {}', 3):
    ...     x = torch.ones(2)
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
