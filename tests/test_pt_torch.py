#!/usr/bin/env python3
"""Checkpoints both ways with PyTorch itself, where a Python with torch is found: FACULA_TORCH_PYTHON, else this one. PyTorch writes,
test_pt copies (reads and writes again), PyTorch reads, with weights_only=True, mapped into memory and not, and compares.

    tests/test_pt_torch.py           both
    tests/test_pt_torch.py inside    within the Python that has torch"""
import collections
import os
import subprocess
import sys
import tempfile

PYTHON = os.environ.get("FACULA_TORCH_PYTHON", sys.executable)
COPY = os.path.join(os.environ.get("TESTS", os.path.join(os.environ.get("BUILD", "build/release"), "tests")), "test_pt")


def outside():
    found = subprocess.run([PYTHON, "-c", "import torch; print(torch.__version__)"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if found.returncode != 0:
        print("skipped: %s has no torch; set FACULA_TORCH_PYTHON to a Python that has it" % PYTHON)
        return 77
    return subprocess.run([PYTHON, "-B", __file__, "inside"]).returncode


def same(a, b, where=""):
    """Raises if b is not a in all that a file keeps."""
    import torch
    assert type(a) is type(b), (where, type(a), type(b))
    if isinstance(a, torch.Tensor):
        for ask in (lambda t: t.dtype, lambda t: t.shape, lambda t: t.stride(), lambda t: t.storage_offset(), lambda t: t.requires_grad,
                    lambda t: t.untyped_storage().nbytes(), lambda t: t.device):
            assert ask(a) == ask(b), (where, ask(a), ask(b))
        assert torch.equal(a, b), where
        same({k: v for k, v in a.__dict__.items()}, b.__dict__, where + ".__dict__")
    elif isinstance(a, dict):
        assert list(a) == list(b), (where, list(a), list(b))
        for k in a:
            same(a[k], b[k], "%s[%r]" % (where, k))
        assert getattr(a, "_metadata", None) == getattr(b, "_metadata", None), where
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, "%s[%d]" % (where, i))
    else:
        assert a == b or a != a, (where, a, b)


def cases():
    import torch
    torch.manual_seed(0)
    base = torch.arange(24.0).reshape(4, 6)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    net(torch.randn(5, 3)).sum().backward()
    optimizers = [make(net.parameters()) for make in (
        torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.Adam(p, amsgrad=True))]
    for o in optimizers:
        o.step()
    tagged, parameter = torch.zeros(3), torch.nn.Parameter(torch.ones(2, 2))
    tagged.note, parameter.tag = [1, "x"], "hello"
    shared = torch.nn.Linear(3, 3)
    tied = torch.nn.ModuleList([shared, shared])
    yield "scalars", [None, True, 0, -1, 2**31, -2**63, 2**63, 2**200, -2**2000, 1.5, 1e-300, 1 + 2j, "", "é☃😀", "a\0b", "\ud800", b"\0\xff\x80",
                      bytearray(), bytearray(b"\xfe"), (), (1, 2, 3, 4), [], {}, set(), {1, 2}, torch.Size([2, 3]), torch.float32,
                      torch.device("cuda", 3), collections.Counter("aab"), collections.OrderedDict(a=1), {(1, 2): 1, b"x": 2, None: 3}]
    for d in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64):
        yield str(d)[6:], torch.arange(6).to(d).reshape(2, 3).t()
    yield "views", [base, base.t(), base[1:3, ::2], base.view(-1)[5], base.expand(2, 4, 6), torch.zeros(0, 3), torch.tensor(3.0), base]
    yield "parameters", [tagged, parameter, torch.nn.Parameter(torch.ones(3), requires_grad=False), torch.ones(2, requires_grad=True)]
    yield "state", net.state_dict()
    yield "tied", tied.state_dict()
    yield "lstm", torch.nn.LSTM(3, 4, 2).state_dict()
    yield "transformer", torch.nn.TransformerEncoderLayer(8, 2).state_dict()
    for o in optimizers:
        yield type(o).__name__, o.state_dict()
    yield "checkpoint", {"epoch": 5, "loss": torch.tensor(0.25), "model": net.state_dict(), "optimizer": optimizers[0].state_dict(),
                         "rng": torch.get_rng_state(), "best": (1, "x", {"y": [1, 2]})}
    yield "long", {"list": list(range(2500)), "dict": {i: str(i) for i in range(1001)}, "floats": [0.5] * 1001}


def inside():
    import torch
    failed = passed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, value in cases():
            path, out = os.path.join(folder, name + ".pt"), os.path.join(folder, "out_" + name + ".pt")
            torch.save(value, path)
            run = subprocess.run([COPY, "copy", path, out], capture_output=True, text=True)
            try:
                assert run.returncode == 0, run.stderr
                for mmap in (False, True):
                    same(value, torch.load(out, weights_only=True, mmap=mmap), name)
                passed += 1
            except Exception as e:  # noqa: every kind of failure counts
                failed += 1
                print("FAILED %s: %s" % (name, e))
        value = torch.load(os.path.join(folder, "out_views.pt"), weights_only=True)
        assert value[0] is value[7] and value[0].data_ptr() == value[1].data_ptr(), "sharing is lost"
        for refused, words in ((torch.nn.Linear(1, 1), "GLOBAL torch.nn.modules.linear.Linear was not an allowed global"),
                               (torch.zeros(2, dtype=torch.complex64), "elements of type complex64"),
                               (torch.zeros(2, dtype=torch.uint16), "elements of type uint16"), (torch.eye(2).to_sparse(), "a sparse tensor")):
            torch.save(refused, os.path.join(folder, "refused.pt"))
            run = subprocess.run([COPY, "copy", os.path.join(folder, "refused.pt"), out], capture_output=True, text=True)
            ok = run.returncode == 1 and words in run.stderr
            passed, failed = passed + ok, failed + (not ok)
            if not ok:
                print("FAILED: expected '%s', found %s" % (words, run.stderr))
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


sys.exit(inside() if sys.argv[1:] == ["inside"] else outside())
