"""No reference and no memory leaks: everything public is called a thousand times, with right and with wrong arguments, and counts stay."""

# test-limit: 300
import copy
import gc
import os
import pickle
import sys
import tempfile
import time
import unittest
import warnings

os.environ["FACULA_SIM"] = "cuda:2"  # the examples of devices need two

import everything
import facula as torch
import facula.nn as nn
import hostile

TIMES = 1000
# What keeps something by each call, as it should.
KEEPS = {
    "SummaryWriter": "makes a file by each call",
    "FileWriter": "makes a file by each call",
    "add_module": "adds a module",
    "append": "adds a module",
    "extend": "adds a module",
    "caching_allocator_alloc": "gives memory",
    "__enter__": "is left by __exit__; see test_modes_and_contexts",
    "spectral_norm": "adds one more to the same module; see test_what_is_taken_away_again",
    "weight_norm": "adds one more to the same module",
    "register_parametrization": "adds one more to the same module",
    "set_grad_enabled": "stays on or off",
    "capture_begin": "notes down until capture_end",
    **{
        "facula.nn.utils.prune." + name: "adds one more to the same module"
        for name in "custom_from_mask identity l1_unstructured ln_structured random_structured random_unstructured".split()
    },
}
WATCHED = [
    None,
    True,
    False,
    Ellipsis,
    (),
    0,
    1,
    "",
    torch.float32,
    torch.int64,
    torch.bool,
    torch.strided,
    torch.Tensor,
    torch.device,
    torch.Size,
    torch.nn.Parameter,
    torch.return_types.max,
]


def counts():
    """(blocks of Python, blocks of the library, references to what is everywhere)"""
    for i in range(2):
        torch.cuda.synchronize(i)  # what waits in a queue is still needed
    gc.collect()
    return [sys.getallocatedblocks(), torch._C._host_memory()[1], *(sys.getrefcount(o) for o in WATCHED)]


class Leaks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        gc.collect()
        gc.freeze()  # what is there now is not looked at again by each collection

    def check(self, label, function, times=TIMES):
        """A call leaves nothing: counts grow by less than a call each, once stores are filled. Python's own blocks come and go.

        The few calls of a slow function (or of any on a busy machine) may all go while Python's stores fill: each try has more of them,
        and what is left by every call grows with their number.
        """
        for attempt in range(4):
            times = min(TIMES, times * 3) if attempt else times
            limits = [max(30, min(300, times // 3))] + [times // 10] * (1 + len(WATCHED))
            before = counts()
            for _ in range(times):
                function()
            grown = [b - a for a, b in zip(before, counts())]
            if all(g < limit for g, limit in zip(grown, limits)):
                return
        references = [(repr(o), g) for o, g, limit in zip(WATCHED, grown[2:], limits[2:]) if g >= limit]
        self.fail(f"{label}: {times} calls left {grown[0]} blocks of Python, {grown[1]} of the library, references {references}")

    def each(self, kind):
        for full, function, args, keywords in hostile.examples_of(kind):
            if full in ("Tensor.backward", "torch.seed", "Tensor.storage", "Tensor.register_hook") or full.endswith("resize_as_"):
                continue  # need more than their arguments
            yield full, function, args, keywords

    def good(self, kind):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for full, function, args, keywords in self.each(kind):

                def call():
                    try:
                        function(*args, **keywords)
                    except RuntimeError:  # a tensor that was changed in place by the last call
                        pass

                with self.subTest(name=full):
                    self.check(full, call)

    def bad(self, kind):
        wrong = [object(), "x", torch.ones(2, 3, 4, dtype=torch.int8)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for full, function, args, keywords in self.each(kind):

                def call():
                    for bad in wrong:
                        for given in ([*args, bad], [bad, *args[1:]], [*args[:1], bad, *args[2:]]):
                            try:
                                function(*given, **keywords)
                            except Exception:
                                pass

                with self.subTest(name=full):
                    self.check(full, call, TIMES // 2)

    def test_functions(self):
        self.good("torch")

    def test_methods(self):
        self.good("Tensor")

    def test_functional(self):
        self.good("F")

    def test_functions_that_fail(self):
        self.bad("torch")

    def test_methods_that_fail(self):
        self.bad("Tensor")

    def test_functional_that_fail(self):
        self.bad("F")

    def test_attributes(self):
        x = torch.ones(2, 3, requires_grad=True)
        x.sum().backward()
        y = x.detach()
        for name in [n for n in dir(x) if not n.startswith("__") and not callable(getattr(x, n))]:
            with self.subTest(name=name):
                self.check(name, lambda: getattr(x, name))
        for name, value in (("grad", y), ("grad", None), ("requires_grad", True), ("data", y), ("mine", 5)):
            with self.subTest(name=name):
                self.check(name, lambda: setattr(x, name, value))

    def test_operators_and_indexing(self):
        x, mask, where = torch.ones(3, 3), torch.ones(3, 3) > 0, torch.tensor([0, 2])
        for text in (
            "x + 1",
            "1 - x",
            "x @ x",
            "x == x",
            "x == None",
            "-x",
            "abs(x)",
            "x[0]",
            "x[0, 1]",
            "x[:, 1:]",
            "x[None]",
            "x[..., 0]",
            "x[mask]",
            "x[where]",
            "x[where, where]",
            "x[[0, 1]]",
            "x[True]",
            "len(x)",
            "list(x)",
            "repr(x)",
            "f'{x[0, 0]:.2f}'",
            "hash(x)",
            "1 in x",
            "float(x[0, 0])",
            "int(x[0, 0])",
            "bool(x[0, 0])",
            "x.shape + (1,)",
            "torch.Size([1, 2])[1:]",
            "x.tolist()",
            "[*map(str, x)]",
            "torch.tensor([[1, 2.5], [True, 4]])",
            "torch.tensor(x.tolist())",
            "torch.as_tensor([1])",
            "pickle.loads(pickle.dumps(x))",
            "copy.deepcopy(x)",
            "copy.copy(x)",
            "str(torch.device('cuda:1'))",
            "torch.finfo(x.dtype).max",
            "memoryview(x).shape",
            "exec('x[0] = 5')",
            "exec('x[mask] = 1.')",
            "exec('x[where] = 2.')",
            "exec('x += 1')",
        ):
            code = compile(text, "<test>", "eval")
            with self.subTest(text=text):
                self.check(
                    text,
                    lambda: eval(code, {"x": x, "mask": mask, "where": where, "torch": torch, "pickle": pickle, "copy": copy}),
                    TIMES,
                )

    def test_training(self):
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        x, y = torch.ones(5, 3), torch.tensor([0, 1, 0, 1, 0])

        def step():
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()

        self.check("a step", step)
        self.check("a state dict", lambda: net.load_state_dict(net.state_dict()))
        self.check("a module", lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
        self.check("a module with a cycle", self.cyclic_module)

    def cyclic_module(self):
        net = nn.Linear(1, 1)
        net.me = [net]

    def test_functions_of_ones_own(self):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return grad * 2 + 0 * x

        class Fails(Double):
            @staticmethod
            def backward(ctx, grad):
                raise KeyError("own")

        x = torch.ones(3, requires_grad=True)

        def run(function):
            try:
                function.apply(x).sum().backward()
            except KeyError:
                pass

        self.check("a function of one's own", lambda: run(Double))
        self.check("a function that fails", lambda: run(Fails))
        self.check("a graph that is dropped", lambda: Double.apply(x).exp().sum())
        self.check("hooks", lambda: x.register_hook(lambda g: g * 2).remove())
        self.check("a hook that refers to its tensor", self.hook_cycle)

    def hook_cycle(self):
        y = torch.ones(2, requires_grad=True)
        y.register_hook(lambda g: g * y.detach())

    def test_modes_and_contexts(self):
        stream = torch.cuda.Stream()

        def with_(make):
            with make():
                pass

        for make in (
            torch.no_grad,
            lambda: torch.set_grad_enabled(True),
            lambda: torch.autocast("cpu"),
            lambda: torch.cuda.stream(stream),
            lambda: torch.cuda.device(1),
            lambda: torch.device("cuda:1"),
            torch.autograd.detect_anomaly,
            torch.nn.utils.parametrize.cached,
        ):
            self.check("a context", lambda: with_(make))
        self.check("a function under a mode", lambda: torch.no_grad()(with_))

    def test_what_is_taken_away_again(self):
        net, optimizer = nn.Linear(2, 2), torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
        for owner in (net, optimizer):
            for name in [n for n in dir(owner) if n.startswith("register_") and "hook" in n]:
                with self.subTest(name=name):
                    self.check(name, lambda: getattr(owner, name)(lambda *a: None).remove())

        def parametrized():
            torch.nn.utils.parametrizations.spectral_norm(net)
            torch.nn.utils.parametrize.remove_parametrizations(net, "weight")

        self.check("spectral_norm", parametrized, 100)

    def test_all_modules(self):
        self.all(everything.calls())

    def test_methods_of_all_classes(self):
        self.all(everything.methods())

    def all(self, calls):
        """Right arguments, then a wrong one in each place; slow ones fewer times."""
        before = os.getcwd()
        self.addCleanup(torch.set_grad_enabled, True)
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.chdir(folder)
            try:
                for label, make in calls:
                    name = label.rpartition(".")[2]
                    if label in KEEPS or name in KEEPS or (name.startswith("register_") and "hook" in name):
                        continue
                    function, args, keywords = make()
                    with self.subTest(name=label):
                        self.check_both(label, function, args, keywords)
            finally:
                os.chdir(before)

    def check_both(self, label, function, args, keywords):
        def call(*args):
            try:
                function(*args, **keywords)
            except Exception:
                pass

        def wrong():
            for bad in (None, "x"):
                call(bad, *args[1:])
                call(*args, bad)

        for what in (lambda: call(*args), wrong):
            what()
            began = time.perf_counter()
            what()
            times = max(20, min(TIMES, int(0.01 / max(time.perf_counter() - began, 1e-7))))
            self.check(label, what, times)


if __name__ == "__main__":
    unittest.main()
