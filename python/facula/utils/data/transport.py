"""Messages between a loader and its workers, over a socket. Tensors travel in shared memory, without a copy on arrival.

A message is an object, pickled; the memory of tensors (and of NumPy arrays) stays out of the pickle. Small messages go through
the socket. Large ones are written to an anonymous file in memory, of which the socket carries the descriptor: it has no name, so
nothing is left behind whoever is killed, and it is closed as soon as it is mapped, so that descriptors do not run out.
"""
import io
import mmap
import os
import pickle
import select
import socket
import struct
import tempfile
from collections import deque

import facula as torch

INLINE = 32 << 10                # bytes that still go through the socket
HEAD = struct.Struct("<QB7x")    # bytes of the body, whether a descriptor comes with it
ALIGN = 64


def octets(tensor):
    """The memory of a contiguous tensor, as bytes."""
    return memoryview(tensor.reshape(-1).view(torch.uint8))


def _rebuild(memory, dtype, shape, requires_grad):
    if memory is None:
        tensor = torch.empty(shape, dtype=dtype)
    else:
        tensor = torch.frombuffer(memory, dtype=dtype).reshape(shape)
    return tensor.requires_grad_() if requires_grad else tensor


class _Pickler(pickle.Pickler):
    def reducer_override(self, value):
        if type(value) is not torch.Tensor:
            return NotImplemented
        if value.requires_grad and not value.is_leaf:
            raise RuntimeError("Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
                               "support crossing process boundaries.  If you just want to transfer the data, call detach() on "
                               "the tensor before serializing (e.g., putting it on the queue).")
        if value.device.type != "cpu":
            raise RuntimeError(f"a tensor on {value.device} can't be handed from one process to another. Return CPU tensors from the data set and what collates it, and "
                               "move each batch in the training loop: batch = batch.to(device)")
        plain = value.detach().contiguous()
        memory = pickle.PickleBuffer(octets(plain)) if plain.numel() else None
        return _rebuild, (memory, value.dtype, tuple(value.shape), value.requires_grad)


def encode(value):
    """The parts of a message's body: their lengths, the pickle, the memory of tensors, with gaps that align it."""
    buffers, text = [], io.BytesIO()
    _Pickler(text, 5, buffer_callback=buffers.append).dump(value)
    parts = [text.getbuffer(), *(buffer.raw() for buffer in buffers)]
    sizes = struct.pack(f"<{len(parts) + 1}Q", len(parts), *(part.nbytes for part in parts))
    body = []
    for part in (sizes, *parts):
        body += [part, bytes(-len(part) % ALIGN)]
    return body


def decode(body):
    """The object of a message's body, a writable memoryview, which its tensors keep alive."""
    count = struct.unpack_from("<Q", body)[0]
    sizes = struct.unpack_from(f"<{count}Q", body, 8)
    at, parts = 8 * (count + 1), []
    for size in sizes:
        at += -at % ALIGN
        parts.append(body[at:at + size])
        at += size
    return pickle.loads(parts[0], buffers=parts[1:])


def _anonymous_file():
    if hasattr(os, "memfd_create"):
        return os.memfd_create("facula-batch", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as f:
        return os.dup(f.fileno())


def _write_all(fd, parts):
    parts = deque(memoryview(part) for part in parts if len(part))
    while parts:
        wrote = os.writev(fd, [parts[i] for i in range(min(len(parts), 512))])
        while parts and wrote >= parts[0].nbytes:
            wrote -= parts.popleft().nbytes
        if wrote:
            parts[0] = parts[0][wrote:]


def pack(value):
    """(bytes for the socket, descriptor or None) of a message."""
    body = encode(value)
    size = sum(len(part) for part in body)
    if size <= INLINE:
        return b"".join([HEAD.pack(size, 0), *body]), None
    fd = _anonymous_file()
    try:
        _write_all(fd, body)
    except BaseException:
        os.close(fd)
        raise
    return HEAD.pack(size, 1), fd


class Channel:
    """One end of a socket. A worker sends and receives in turn; the loader never waits in a send (see Loop in dataloader.py)."""

    def __init__(self, sock):
        self.sock = sock
        self.incoming = bytearray()
        self.descriptors = deque()
        self.outgoing = deque()
        self.messages = deque()
        self.ended = False

    def close(self):
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors.clear()
        for _, fd in self.outgoing:
            if fd is not None:
                os.close(fd)
        self.outgoing.clear()
        self.sock.close()

    # ---- sending ----

    def post(self, value):
        """Put a message in the queue; flush sends what the socket takes."""
        self.outgoing.append(pack(value))

    def flush(self):
        """Send until the queue is empty, or, if the socket does not wait, until it is full. False: the other end is gone."""
        while self.outgoing:
            data, fd = self.outgoing[0]
            try:
                n = self.sock.send(data) if fd is None else socket.send_fds(self.sock, [data], [fd])
            except BlockingIOError:
                return True
            except (BrokenPipeError, ConnectionResetError):
                self.ended = True
                return False
            if fd is not None:
                os.close(fd)
            if n == len(data):
                self.outgoing.popleft()
            else:
                self.outgoing[0] = data[n:], None
        return True

    # ---- receiving ----

    def read(self):
        """Read once, and sort what came into messages."""
        try:
            data, fds, _, _ = socket.recv_fds(self.sock, 256 << 10, 16)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data, fds = b"", []
        self.descriptors.extend(fds)
        if not data:
            self.ended = True
        self.incoming += data
        while len(self.incoming) >= HEAD.size:
            size, large = HEAD.unpack_from(self.incoming)
            end = HEAD.size if large else HEAD.size + size
            if len(self.incoming) < end:
                return
            self.messages.append(self._mapped(size) if large else memoryview(bytearray(self.incoming[HEAD.size:end])))
            del self.incoming[:end]

    def _mapped(self, size):
        fd = self.descriptors.popleft()
        try:
            return memoryview(mmap.mmap(fd, size))
        finally:
            os.close(fd)

    def receive(self, alive):
        """Wait for a message; None when the other end is gone, or when alive() says so, which is asked every few seconds."""
        while not self.messages:
            if self.ended:
                return None
            ready, _, _ = select.select([self.sock], [], [], 5.0)
            if ready:
                self.read()
            elif not alive():
                return None
        return decode(self.messages.popleft())
