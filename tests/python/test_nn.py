"""torch.nn: programs beside what PyTorch prints for them, memory, gradients, devices.

The programs in tests/python/nn/ are run with `python -m facula`; <name>.expected is what `python -W ignore <name>.py` printed with
PyTorch 2.13. Numbers may differ in the fourth digit; an error may say more than PyTorch's."""

import copy
import gc
import os
import pickle
import re
import subprocess
import sys
import threading
import unittest
import weakref

import facula as torch
from facula import nn
import facula.nn.functional as F

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nn")
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?|-?\d+\.(?=[\s,\]])|-?\binf\b")


def same(got, wanted):
    """Whether a line says the same: numbers nearly, an error's sentence at least."""
    if re.match(r"(\S+ )?\w*(Error|Exception)\b", wanted) and got.startswith(wanted):
        return True
    a, b = NUMBER.findall(got), NUMBER.findall(wanted)
    if len(a) != len(b) or NUMBER.sub("#", got).split() != NUMBER.sub("#", wanted).split():
        return False
    return all(x == y or abs(float(x) - float(y)) <= 2e-4 * max(1, abs(float(y))) for x, y in zip(a, b))


def run_program(path, **environment):
    return subprocess.run(
        [sys.executable, "-B", "-W", "ignore", "-m", "facula", path],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )


class Programs(unittest.TestCase):
    def check(self, name):
        done = run_program(os.path.join(HERE, name + ".py"))
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        with open(os.path.join(HERE, name + ".expected"), encoding="utf-8") as f:
            wanted = f.read().splitlines()
        got = done.stdout.splitlines()
        for i, (a, b) in enumerate(zip(got, wanted)):
            self.assertTrue(same(a, b), f"{name}, line {i + 1}:\n  {a}\nis not\n  {b}")
        self.assertEqual(len(got), len(wanted))

    def test_modules(self):
        self.check("modules")

    def test_layers(self):
        self.check("layers")

    def test_parts(self):
        self.check("parts")

    def test_printing(self):
        self.check("printing")

    def test_the_comparison_can_fail(self):
        self.assertFalse(same("a 1.5000", "a 1.6000"))
        self.assertFalse(same("TypeError no", "TypeError yes"))
        self.assertTrue(same("x TypeError yes. And more", "x TypeError yes"))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(3, 4), nn.Linear(4, 2)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x, times=1):
        return self.fc2(self.fc1(x).relu()) * self.scale * times


class Memory(unittest.TestCase):
    def test_cycles_are_collected(self):
        def own_parent(net):
            net.__dict__["me"] = net

        def hook(net):
            net.fc1.register_forward_hook(lambda m, a, o, net=net: None)

        def child(net):
            net.add_module("self", net)
            self.assertEqual(len(list(net.modules())), 3)

        for tie in (own_parent, hook, child):
            net = Net()
            tie(net)
            dead = weakref.ref(net)
            del net
            gc.collect()
            self.assertIsNone(dead(), tie.__name__)

    def test_a_net_a_million_deep(self):
        net = nn.Identity()
        for _ in range(1_000_000):
            outer = nn.Module()
            outer.inner = net
            net = outer
        self.assertEqual(sum(1 for _ in net.modules()), 1_000_001)
        for work in (net.train, net.state_dict, lambda: repr(net), lambda: copy.deepcopy(net), lambda: pickle.dumps(net)):
            self.assertRaises(RecursionError, work)
        del net, outer

    def test_a_deep_call(self):
        net = nn.Identity()
        for _ in range(100_000):
            net = nn.Sequential(net)
        self.assertRaises(RecursionError, lambda: net(torch.ones(1)))

    def test_nothing_is_left(self):
        x, net, row = torch.ones(2, 3), Net(), nn.Linear(3, 3)

        def refused(work):
            def run():
                try:
                    work()
                except (TypeError, ValueError, RuntimeError, AttributeError, KeyError):
                    return
                raise AssertionError("it should have been refused")

            return run

        def with_hooks():
            layer = nn.Linear(3, 2)
            layer.register_forward_hook(lambda m, a, o: o)
            layer.register_full_backward_hook(lambda m, a, b: None)
            layer(x.clone().requires_grad_()).sum().backward()

        works = {
            "make": lambda: nn.Conv2d(1, 1, 3, padding="same"),
            "net": Net,
            "call": lambda: net(x),
            "keyword": lambda: net(x=x, times=2),
            "row": lambda: row(input=x),
            "bad input": refused(lambda: row(5)),
            "bad size": refused(lambda: row(torch.ones(2))),
            "bad argument": refused(lambda: nn.Linear("a", 3)),
            "bad groups": refused(lambda: nn.Conv2d(3, 4, 3, groups=2)),
            "no such argument": refused(lambda: nn.Linear(3, 4, foo=1)),
            "assign": lambda: setattr(net, "fc1", nn.Linear(3, 4)),
            "assign wrongly": refused(lambda: setattr(net, "fc1", 5)),
            "no attribute": refused(lambda: net.nothing),
            "walk": lambda: (list(net.named_parameters()), list(net.named_modules()), next(net.parameters())),
            "state": lambda: net.load_state_dict(net.state_dict()),
            "print": lambda: repr(net),
            "copy": lambda: copy.deepcopy(net),
            "pickle": lambda: pickle.loads(pickle.dumps(net)),
            "move": lambda: net.double().float(),
            "hooks": with_hooks,
            "views": lambda: (dict(net._modules), net._parameters["scale"], net._buffers == net._buffers),
            "again": lambda: net.__init__(),
            "reset": row.reset_parameters,
            "lstm": lambda: nn.LSTM(3, 2)(torch.ones(4, 2, 3)),
            "attention": lambda: nn.MultiheadAttention(4, 2)(*[torch.ones(3, 1, 4)] * 3),
            "lazy": lambda: nn.LazyLinear(2)(x),
            "weight norm": lambda: nn.utils.weight_norm(nn.Linear(3, 2))(x),
            "no init": refused(lambda: nn.Linear.__new__(nn.Linear)(x)),
        }
        for name, work in works.items():
            for _ in range(30):
                work()
            gc.collect()
            before = sys.getallocatedblocks()
            for _ in range(1000):
                work()
            gc.collect()
            self.assertLess(sys.getallocatedblocks() - before, 900, name)

    def test_counts(self):
        net = Net()
        weight = net.fc1.weight
        before = sys.getrefcount(weight), sys.getrefcount(net.fc1), sys.getrefcount(None)
        for _ in range(100):
            net(torch.ones(1, 3))
            net.fc1, net.fc1.weight
            list(net.parameters())
            net.bias = None
        self.assertEqual((sys.getrefcount(weight), sys.getrefcount(net.fc1)), before[:2])
        self.assertLess(abs(sys.getrefcount(None) - before[2]), 50)

    def test_parameters_taken_away_while_in_use(self):
        layer, stop, x = nn.Linear(64, 64), threading.Event(), torch.ones(8, 64)

        def swap():
            while not stop.is_set():
                layer.weight = nn.Parameter(torch.ones(64, 64))

        thread = threading.Thread(target=swap)
        thread.start()
        for _ in range(300):
            layer(x)
        stop.set()
        thread.join()


class Slots(unittest.TestCase):
    """A row's forward reads its parameters by number: what happens when a program changes them."""

    def setUp(self):
        self.x, self.layer = torch.ones(2, 3), nn.Linear(3, 3)

    def test_taken_away(self):
        del self.layer.weight
        self.assertRaisesRegex(AttributeError, "has no attribute 'weight'", self.layer, self.x)
        self.layer.weight = torch.eye(3)  # now a plain attribute
        self.layer.bias = None
        self.assertTrue(torch.equal(self.layer(self.x), self.x))
        self.assertEqual(list(self.layer.state_dict()), [])

    def test_of_another_kind(self):
        del self.layer.bias
        self.layer.bias = nn.ReLU()
        self.assertRaisesRegex(TypeError, "must be Tensor, not ReLU", self.layer, self.x)
        self.layer.weight = None
        self.assertRaises((TypeError, RuntimeError, SystemError), self.layer, self.x)

    def test_of_another_size(self):
        self.layer.weight = nn.Parameter(torch.ones(5, 3))
        self.assertRaises(RuntimeError, self.layer, self.x)
        self.layer.bias = nn.Parameter(torch.zeros(5))
        self.assertEqual(self.layer(self.x).shape, (2, 5))

    def test_another_class(self):
        self.layer.__class__ = nn.ReLU
        self.assertEqual(self.layer(self.x).shape, (2, 3))
        moved = nn.Conv2d(1, 1, 1)
        nn.Module.__init__(moved)
        self.assertRaisesRegex(RuntimeError, "own __init__ was not called", moved, torch.ones(1, 1, 1, 1))

    def test_arguments_follow(self):
        conv = nn.Conv2d(1, 1, 3)
        conv.padding = "same"
        self.assertEqual(conv(torch.ones(1, 1, 5, 5)).shape, (1, 1, 5, 5))
        conv.padding, conv.dilation = 0, (2, 1)
        self.assertEqual(conv(torch.ones(1, 1, 5, 5)).shape, (1, 1, 1, 3))
        self.assertRaises(TypeError, setattr, conv, "stride", "a")
        self.assertRaises(ValueError, setattr, conv, "stride", (1, 2, 3))
        act = nn.LeakyReLU(0.5)
        act.negative_slope, act.inplace = 0.25, True
        x = torch.tensor([-4.0])
        self.assertIs(act(x), x)
        self.assertEqual(x.item(), -1.0)


class Calls(unittest.TestCase):
    def test_wrong_arguments_everywhere(self):
        for name in dir(nn):
            cls = getattr(nn, name)
            if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
                continue
            for arguments in (
                (),
                (None,),
                ("a", "b"),
                (object(), [], {}),
                (-1, -1, -1),
                (2**70,),
                (1.5, 2.5, 3.5),
                (float("nan"),),
            ):
                try:
                    module = cls(*arguments)
                    module(*arguments)
                except Exception as e:
                    self.assertNotIsInstance(e, SystemError, f"{name}{arguments}")

    def test_gradients_through_a_native_sequence(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        x = torch.randn(5, 3, requires_grad=True)
        net(x).pow(2).sum().backward()
        grads = [p.grad.clone() for p in net.parameters()] + [x.grad.clone()]
        net.zero_grad()
        x.grad = None
        y = F.linear(F.relu(F.linear(x, net[0].weight, net[0].bias)), net[2].weight, net[2].bias)
        y.pow(2).sum().backward()
        for a, b in zip(grads, [p.grad for p in net.parameters()] + [x.grad]):
            self.assertTrue(torch.allclose(a, b))

    def test_hooks_and_patches_are_seen_in_a_native_sequence(self):
        net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        seen = []
        handle = net[0].register_forward_hook(lambda m, a, o: seen.append(o.shape))
        net(torch.ones(1, 3))
        handle.remove()
        net[1].forward = lambda x: x * 0 - 1
        self.assertEqual(net(torch.ones(1, 3)).tolist(), [[-1.0, -1.0, -1.0]])
        self.assertEqual(seen, [(1, 3)])

        class Own(nn.ReLU):
            pass

        net[1] = Own()
        net(torch.ones(1, 3))
        Own.forward = lambda self, x: x * 0 + 7
        self.assertEqual(net(torch.ones(1, 3)).tolist(), [[7.0, 7.0, 7.0]])
        Own.__call__ = lambda self, x: "called"
        self.assertEqual(net(torch.ones(1, 3)), "called")

    def test_ways_of_attention_are_names(self):
        q = torch.ones(1, 1, 2, 4)
        with nn.attention.sdpa_kernel([nn.attention.SDPBackend.MATH]):
            self.assertEqual(F.scaled_dot_product_attention(q, q, q).shape, (1, 1, 2, 4))
        with self.assertRaises(TypeError):
            with nn.attention.sdpa_kernel("math"):
                pass

    def test_random_numbers_are_left_alone(self):
        net = nn.Sequential(nn.Linear(3, 4), nn.MultiheadAttention(4, 2), nn.BatchNorm1d(4))
        state = torch.get_rng_state()
        copy.deepcopy(net), pickle.loads(pickle.dumps(net)), nn.utils.skip_init(nn.Linear, 3, 3)
        self.assertTrue(torch.equal(state, torch.get_rng_state()))

    def test_messages_of_rows(self):
        self.assertRaisesRegex(ValueError, "num_channels", nn.GroupNorm, 3, 4)
        self.assertRaisesRegex(ValueError, "dropout probability has to be between 0 and 1", nn.Dropout, 2)
        self.assertRaises(RuntimeError, nn.Embedding(3, 2), torch.ones(2))
        self.assertRaisesRegex(
            TypeError, r"to_empty\(\) takes 1 positional argument but 2 were given", lambda: nn.ReLU().to_empty("cpu")
        )
        self.assertRaisesRegex(NotImplementedError, "planned", nn.parallel.DistributedDataParallel, nn.ReLU())


DEVICES = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 2))
kept = list(net.parameters())
net.to("cuda")
assert kept[0] is net[0].weight and kept[0].is_cuda and net[2].num_batches_tracked.is_cuda
x = torch.randn(6, 4, device="cuda")
net(x).sum().backward()
net.cpu()
assert not net[0].weight.is_cuda and not net[0].weight.grad.is_cuda
assert nn.Linear(2, 3, device="cuda:1").weight.device == torch.device("cuda:1")
with torch.device("cuda"):
    assert nn.Conv2d(1, 1, 1).weight.is_cuda
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
both = nn.DataParallel(net)
assert torch.allclose(both(x), net(x))
both(x).sum().backward()
grad = net[0].weight.grad.clone()
net.zero_grad()
net(x).sum().backward()
assert torch.allclose(grad, net[0].weight.grad, atol=1e-5)
assert nn.TransformerEncoderLayer(4, 2, 8).cuda()(torch.randn(5, 2, 4, device="cuda")).is_cuda
assert net.to("cuda:1", torch.float16)[0].weight.dtype == torch.float16
try:
    net.to("cuda:7")
except Exception:
    assert all(p.device == torch.device("cuda:1") for p in net.parameters())
else:
    raise AssertionError("there is no cuda:7")
print("fine")
"""


class Devices(unittest.TestCase):
    def test_on_two_simulated_devices(self):
        done = subprocess.run(
            [sys.executable, "-B", "-W", "ignore", "-m", "facula", "-c", DEVICES],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "FACULA_SIM": "cuda:2"},
        )
        self.assertEqual(done.stdout, "fine\n", done.stderr[-2000:])


class Clamp(unittest.TestCase):
    def test_gradients_at_and_beyond_bounds_are_torchs(self):
        m = 1.0
        for f, wanted, of_bound in [
            (lambda x, b: x.clamp(min=1), [0, 1, 1, 1, 0, 1], None),
            (lambda x, b: x.clamp(max=1.0), [1, 1, 0, 0, 0, 0], None),
            (lambda x, b: x.clamp(1, 3), [0, 1, 1, 0, 0, 0], None),
            (lambda x, b: torch.clamp_min(x, b), [0, 1, 1, 1, 0, 1], [1, 0, 0, 0, 0, 0]),
            (lambda x, b: x.clone().clamp_(max=b), [1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 1]),
            (lambda x, b: torch.clamp(x, b, b - 1), [0] * 6, [1] * 6),
        ]:
            x = torch.tensor([0, 1, 2, 4, float("nan"), 1e30], requires_grad=True)
            b = torch.full((6,), m, requires_grad=True)
            f(x, b).sum().backward()
            self.assertEqual(x.grad.tolist(), wanted)
            self.assertEqual(b.grad.tolist() if b.grad is not None else None, of_bound)
        self.assertEqual(torch.tensor([1e30]).clamp(min=0).item(), torch.tensor(1e30).item())
        self.assertEqual(torch.tensor([1, 300]).clamp(max=2).tolist(), [1, 2])


class Hidden(unittest.TestCase):
    def test_an_error_in_a_property_is_pointed_at(self):
        class Odd(nn.Module):
            @property
            def p(self):
                return self.nothing_here

        words = "'Odd' object has no attribute 'p'. The class has a property of that name, in which this was raised: .*'nothing_here'"
        with self.assertRaisesRegex(AttributeError, words) as raised:
            Odd().p
        self.assertIsInstance(raised.exception.__cause__, AttributeError)
        self.assertFalse(hasattr(Odd(), "p"))
        with self.assertRaisesRegex(AttributeError, "'Odd' object has no attribute 'q'$"):
            Odd().q


if __name__ == "__main__":
    unittest.main()
