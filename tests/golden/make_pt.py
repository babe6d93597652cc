#!/usr/bin/env python3
"""Makes tests/golden/pt: small checkpoints as PyTorch 2.13 writes them, each with a text of what is in it, as
tests/support/value_text.h writes it too.

    PYTHON tests/golden/make_pt.py        PYTHON has torch 2.13"""
import collections
import os

import torch

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pt")


class Writer:
    """Values as text. What stands in a second place is written as @ and the number of its first one."""

    def __init__(self):
        self.seen, self.storages = {}, {}

    def text(self, s):
        return '"' + s.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    def many(self, items):
        return ", ".join(self.write(i) for i in items)

    def pairs(self, d):
        return "{" + ", ".join(self.write(k) + ": " + self.write(v) for k, v in d.items()) + "}"

    def tensor(self, t):
        s = t.untyped_storage()
        number = self.storages.setdefault(s.data_ptr() or id(t), len(self.storages))
        flat = " ".join("%.9g" % v for v in t.detach().double().reshape(-1).tolist())
        return "%s(%s %s %s %d of %d in #%d%s: %s)" % (
            type(t).__name__, str(t.dtype)[6:], list(t.shape), list(t.stride()), t.storage_offset(), s.nbytes() // t.element_size(), number,
            " grad" if t.requires_grad else "", flat)

    def write(self, v):
        if v is None or isinstance(v, bool):
            return str(v)
        if isinstance(v, int):
            return str(v) if -2**63 <= v < 2**63 else "big " + v.to_bytes((v + (v < 0)).bit_length() // 8 + 1, "little", signed=True).hex()
        if isinstance(v, float):
            return "%.17g" % v
        if isinstance(v, complex):
            return "complex(%.17g, %.17g)" % (v.real, v.imag)
        if isinstance(v, str):
            return self.text(v)
        if isinstance(v, (torch.dtype, torch.device)):
            return str(v)
        if v == () and type(v) is tuple:
            return "()"
        if id(v) in self.seen:
            return "@%d" % self.seen[id(v)]
        self.seen[id(v)] = len(self.seen)
        name = type(v).__name__
        if isinstance(v, torch.Tensor):
            out, state = self.tensor(v), v.__dict__
        elif isinstance(v, (bytes, bytearray)):
            out, state = name + " " + v.hex(), None
        elif isinstance(v, dict):
            out, state = (name if name != "dict" else "") + self.pairs(v), getattr(v, "__dict__", None)
        else:
            out, state = name + "(" + self.many(v) + ")", None
        return out + (" with " + self.pairs(state) if state else "")


def values():
    shared = [1, 2]
    circle = [1]
    circle.append(circle)
    return [None, True, False, 0, -1, 255, 256, 65535, 65536, -2**31, 2**31, 2**63 - 1, -2**63, 2**63, -2**63 - 1, 2**200, 1.5, -0.0, float("inf"),
            1e-300, 1 + 2j, "", "é☃😀", 'a"b\\c\n', b"\0\xff\x80a", bytearray(b"\xfe1"), bytearray(), (), (1,), (1, 2, 3), (1, 2, 3, 4), [], {}, {1, 2, 3},
            torch.Size([]), torch.Size([2, 3]), torch.float32, torch.bool, torch.device("cpu"), torch.device("cuda", 3),
            collections.Counter("aab"), collections.OrderedDict(a=1), shared, shared, {1: "a", (1, 2): "b", 1.5: "c", b"x": "d", None: "e"},
            circle, list(range(1002)), {i: i for i in range(1001)}, collections.OrderedDict((i, i) for i in range(1001))]


def tensors():
    base = torch.arange(24.0).reshape(4, 6)
    return {"dtypes": [torch.arange(6).to(d).reshape(2, 3) for d in
                       (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)],
            "views": [base, base.t(), base[1:3, ::2], base.view(-1)[5], base.expand(2, 4, 6), base],
            "empty": torch.zeros(0, 3), "one": torch.tensor(3.0), "grad": torch.ones(2, requires_grad=True)}


def checkpoint():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    adam = torch.optim.Adam(net.parameters(), lr=0.01)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(torch.randn(5, 3)).square().sum().backward()
    adam.step()
    sgd.step()
    schedule = torch.optim.lr_scheduler.MultiStepLR(sgd, [3, 5])
    return {"epoch": 5, "loss": 0.25, "model": net.state_dict(), "adam": adam.state_dict(), "sgd": sgd.state_dict(), "schedule": schedule.state_dict()}


def parameters():
    t = torch.zeros(3)
    t.note = [1, "x"]
    p = torch.nn.Parameter(torch.ones(2, 2))
    p.tag = "hello"
    return [t, p, torch.nn.Parameter(torch.ones(3), requires_grad=False), torch.nn.Parameter(torch.ones(3))]


def main():
    os.makedirs(OUT, exist_ok=True)
    for make in (values, tensors, checkpoint, parameters):
        path = os.path.join(OUT, make.__name__ + ".pt")
        torch.save(make(), path)
        with open(path[:-3] + ".txt", "w", encoding="utf-8") as f:
            f.write(Writer().write(torch.load(path, weights_only=True)) + "\n")
    torch.save(tensors(), os.path.join(OUT, "legacy.pt"), _use_new_zipfile_serialization=False)


main()
