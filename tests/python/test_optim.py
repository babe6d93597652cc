"""Optimizers: PyTorch's numbers, options, state and errors. Where a Python with torch is found (FACULA_TORCH_PYTHON, else
this one), the same script runs on both and must say the same."""
import copy
import gc
import io
import os
import pickle
import re
import subprocess
import sys
import unittest
import weakref

import facula as torch

TORCH_PYTHON = os.environ.get("FACULA_TORCH_PYTHON", sys.executable)

# Prints what torch and Facula must agree about. T is the module.
SCRIPT = '''
import importlib, sys, warnings
T = importlib.import_module(sys.argv[1])
O = T.optim
CASES = [("SGD", {}), ("SGD", dict(lr=.1, momentum=.9)), ("SGD", dict(lr=.1, momentum=.9, nesterov=True, weight_decay=.1)),
    ("SGD", dict(lr=.1, momentum=.8, dampening=.3, maximize=True)), ("Adam", {}), ("Adam", dict(amsgrad=True, weight_decay=.1)),
    ("Adam", dict(decoupled_weight_decay=True, weight_decay=.1)),
    ("AdamW", dict(lr=.1, betas=(.5, .9))), ("RMSprop", {}), ("RMSprop", dict(momentum=.9)), ("RMSprop", dict(centered=True)),
    ("RMSprop", dict(centered=True, momentum=.5)), ("Adagrad", dict(lr_decay=.1)),
    ("Adagrad", dict(initial_accumulator_value=.5)),
    ("Adadelta", {}), ("Adamax", {}), ("NAdam", dict(weight_decay=.1)),
    ("NAdam", dict(decoupled_weight_decay=True, weight_decay=.1)),
    ("RAdam", {}), ("RAdam", dict(decoupled_weight_decay=True, weight_decay=.1)), ("ASGD", dict(t0=2)), ("Rprop", {}),
    ("LBFGS", {}), ("LBFGS", dict(line_search_fn="strong_wolfe")), ("LBFGS", dict(history_size=2, max_iter=5, lr=.1))]

def show(value):
    if isinstance(value, T.Tensor):
        return [f"{v:.4e}" for v in value.detach().double().reshape(-1).tolist()]
    if isinstance(value, dict):
        return {k: show(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(show(v) for v in value)
    return round(value, 4) if isinstance(value, float) else value

for name, options in CASES:
    dtype = T.float64 if name == "LBFGS" else T.float32  # it makes rounding larger
    a = T.linspace(-1, 2, 6).to(dtype).reshape(2, 3).requires_grad_()
    b = T.tensor([0.5, -0.25], dtype=dtype, requires_grad=True)
    skipped = T.ones(2, dtype=dtype, requires_grad=True)
    groups = [a, b, skipped] if name == "LBFGS" else [{"params": [a], "lr": .05}, {"params": [b, skipped]}]
    opt = getattr(O, name)(groups, **options)
    print(name, options, show(opt.state_dict()["state"]), {k: v for k, v in opt.param_groups[0].items() if k != "params"})
    print(repr(opt))
    def closure():
        opt.zero_grad()
        loss = ((a - 0.3) ** 4).sum() + ((a + 0.1) ** 2).sum() * (name == "LBFGS")
        loss = loss + (b * b * T.tensor([1., 10.])).sum() + a[0, 0] * b[1]
        loss.backward()
        return loss
    for i in range(5):
        if i == 3 and name != "LBFGS":
            opt.param_groups[0]["lr"] *= 0.5
        print(f"{opt.step(closure).item():.5e}", show([a, b]))
    state = opt.state_dict()
    if name == "LBFGS":
        state["state"] = {k: {n: s[n] for n in ("func_evals", "n_iter")} for k, s in state["state"].items()}
    print(show(state["state"]), [{k: v for k, v in g.items() if k != "lr"} for g in state["param_groups"]])

def wrong(text):
    try:
        exec(text)
        print(text, "is fine")
    except Exception as e:
        print(text, type(e).__name__, str(e).split(chr(10))[0].replace("facula", "torch"))

w = T.ones(2, requires_grad=True)
for text in ("O.SGD([])", "O.SGD([w], lr=-1)", "O.SGD([w], momentum=-1)", "O.SGD([w], nesterov=True)",
             "O.SGD([w], weight_decay=-1)",
    "O.SGD([w * 2])", "O.SGD([{'params': [w]}, {'params': [w]}])", "O.Adam([w], betas=(1.0, .9))", "O.Adam([w], eps=-1)",
    "O.SGD(w)", "O.SGD([1])", "O.SGD({w})", "O.Adam([w], fused=True, foreach=True)", "O.RMSprop([w], alpha=-1)",
    "O.Adadelta([w], rho=2)", "O.Adagrad([w], lr_decay=-1)", "O.NAdam([w], momentum_decay=-1)", "O.Rprop([w], etas=(.5, .9))",
    "O.LBFGS([{'params': [w]}, {'params': [T.ones(1)]}])", "O.SGD([w]).add_param_group([w])",
    "O.SGD([w]).add_param_group({'params': [w]})",
    "O.SGD([w]).load_state_dict({'state': {}, 'param_groups': []})", "O.LBFGS([w]).step()", "O.Adam([w], lr=T.ones(2))"):
    wrong(text)
'''


def run(python, module, script, *args):
    return subprocess.run([python, "-B", "-c", script, module, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def has_torch():
    found = subprocess.run([TORCH_PYTHON, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return found.returncode == 0


def same(a, b):
    """The same words, and numbers that differ by rounding at most."""
    number = r"-?\d+\.\d+e[+-]\d+"
    pairs = list(zip(map(float, re.findall(number, a)), map(float, re.findall(number, b))))
    near = all(abs(x - y) <= 2e-4 * max(abs(x), abs(y)) + 1e-6 for x, y in pairs)
    return near and re.sub(number, "", a) == re.sub(number, "", b)


class AsPyTorch(unittest.TestCase):
    maxDiff = None

    @unittest.skipUnless(has_torch(), "no torch; set FACULA_TORCH_PYTHON to a Python that has it")
    def test_same_lines(self):
        ours, theirs = run(sys.executable, "facula", SCRIPT), run(TORCH_PYTHON, "torch", SCRIPT)
        self.assertEqual(theirs.returncode, 0, theirs.stderr)
        self.assertEqual(ours.returncode, 0, ours.stderr)
        for a, b in zip(ours.stdout.splitlines(), theirs.stdout.splitlines()):
            self.assertTrue(a.startswith(b) or same(a, b), f"\nhere:  {a}\ntorch: {b}")
        self.assertEqual(len(ours.stdout.splitlines()), len(theirs.stdout.splitlines()))


def quadratic(w):
    (w * w).sum().backward()


class State(unittest.TestCase):
    def make(self, make=None, **options):
        w = torch.tensor([1.0, -2.0], requires_grad=True)
        return w, (make or torch.optim.Adam)([w], **options)

    def steps(self, w, optimizer, n):
        for _ in range(n):
            optimizer.zero_grad()
            quadratic(w)
            optimizer.step()

    def test_it_is_a_live_view(self):
        w, optimizer = self.make()
        self.assertEqual(dict(optimizer.state), {})
        self.steps(w, optimizer, 2)
        state = optimizer.state[w]
        self.assertEqual(list(state), ["step", "exp_avg", "exp_avg_sq"])
        self.assertEqual((state["step"].item(), state["step"].dtype, state["step"].shape), (2.0, torch.float32, torch.Size([])))
        kept, average = state["step"], state["exp_avg"]
        before = average.clone()
        self.steps(w, optimizer, 1)
        self.assertEqual(kept.item(), 3.0)
        self.assertFalse(torch.equal(before, average))
        self.assertIs(optimizer.state[w]["exp_avg"], average)

    def test_what_is_written_counts(self):
        results = []
        for ask in (False, True):
            w, optimizer = self.make(lr=0.1)
            self.steps(w, optimizer, 3)
            if ask:
                optimizer.state[w]["exp_avg"] = optimizer.state[w]["exp_avg"] * 0
                optimizer.state[w]["exp_avg_sq"].zero_()
                optimizer.state[w]["step"].zero_()
            before = w.detach().clone()
            self.steps(w, optimizer, 1)
            results.append((before - w).tolist())
        self.assertAlmostEqual(results[1][0], 0.1, places=5)  # as a first step
        self.assertNotAlmostEqual(results[0][0], 0.1, places=5)

    def test_clearing_starts_anew(self):
        w, optimizer = self.make(lr=0.1)
        self.steps(w, optimizer, 3)
        optimizer.state.clear()
        self.steps(w, optimizer, 1)
        self.assertEqual(optimizer.state[w]["step"].item(), 1.0)
        optimizer.state[w] = {}
        self.steps(w, optimizer, 1)
        self.assertEqual(optimizer.state[w]["step"].item(), 1.0)

    def test_wrong_states_are_told(self):
        w, optimizer = self.make()
        self.steps(w, optimizer, 1)
        optimizer.state[w]["exp_avg"] = torch.zeros(3)
        with self.assertRaisesRegex(ValueError, "parameter's sizes"):
            self.steps(w, optimizer, 1)
        optimizer.state[w] = 5
        with self.assertRaisesRegex(TypeError, "must be a dict, not int"):
            self.steps(w, optimizer, 1)
        with self.assertRaisesRegex(TypeError, "must be a dict"):
            optimizer.state = 7

    def test_going_on(self):
        ways = {"state_dict": lambda o, p: self.loaded(o, p), "deepcopy": None, "pickle": None}
        for make, options in ((torch.optim.SGD, dict(lr=0.1, momentum=0.9)), (torch.optim.Adam, dict(lr=0.1, amsgrad=True)),
                              (torch.optim.NAdam, dict(lr=0.1)), (torch.optim.Rprop, {}), (torch.optim.Adagrad, dict(lr=0.1))):
            for way in ways:
                w, optimizer = self.make(make, **options)
                self.steps(w, optimizer, 3)
                if way == "state_dict":
                    other = w.detach().clone().requires_grad_()
                    second = make([other])
                    second.load_state_dict(optimizer.state_dict())
                elif way == "deepcopy":
                    other, second = copy.deepcopy((w, optimizer))
                else:
                    other, second = pickle.loads(pickle.dumps((w.detach().requires_grad_(), optimizer)))
                    other = second.param_groups[0]["params"][0]
                self.steps(w, optimizer, 3)
                self.steps(other, second, 3)
                self.assertEqual(w.tolist(), other.tolist(), (make, way))

    def loaded(self, optimizer, parameters):
        return optimizer.load_state_dict(optimizer.state_dict())

    def test_checkpoints(self):
        w, optimizer = self.make(lr=0.1)
        self.steps(w, optimizer, 3)
        f = io.BytesIO()
        torch.save({"optimizer": optimizer.state_dict(), "w": w}, f)
        read = torch.load(io.BytesIO(f.getvalue()))
        second = torch.optim.Adam([read["w"]])
        second.load_state_dict(read["optimizer"])
        self.steps(w, optimizer, 2)
        self.steps(read["w"], second, 2)
        self.assertEqual(w.tolist(), read["w"].tolist())


class Groups(unittest.TestCase):
    def test_options_are_read_at_each_step(self):
        w = torch.tensor([1.0], requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.5)
        for lr, want in ((0.5, 0.5), (0.25, 0.25), (torch.tensor(0.125), 0.125), (1, 1.0)):
            optimizer.param_groups[0]["lr"] = lr
            before = w.item()
            w.grad = torch.ones(1)
            optimizer.step()
            self.assertAlmostEqual(before - w.item(), want, places=6)
        for broken, error in ((None, TypeError), ("x", TypeError)):
            optimizer.param_groups[0]["lr"] = broken
            with self.assertRaises(error):
                optimizer.step()
        del optimizer.param_groups[0]["lr"]
        with self.assertRaisesRegex(KeyError, "lr"):
            optimizer.step()

    def test_groups_and_parameters_may_change(self):
        a, b, c = (torch.ones(1, requires_grad=True) for _ in range(3))
        optimizer = torch.optim.SGD([a], lr=1.0, momentum=0.5)

        def step():
            for p in (a, b, c):
                p.grad = torch.ones(1)
            optimizer.step()
        step()
        optimizer.add_param_group({"params": [b], "lr": 0.1})
        step()
        self.assertAlmostEqual(a.item(), 1 - 1 - 1.5, places=6)  # its buffer went on
        self.assertAlmostEqual(b.item(), 0.9, places=6)
        optimizer.param_groups[0]["params"][0] = c
        step()
        self.assertAlmostEqual(c.item(), 0.0, places=6)
        self.assertAlmostEqual(a.item(), -1.5, places=6)
        optimizer.param_groups[0]["params"] = []
        step()
        self.assertAlmostEqual(c.item(), 0.0, places=6)
        optimizer.param_groups = 3
        with self.assertRaisesRegex(TypeError, "must be a list"):
            optimizer.step()
        optimizer.param_groups = [{"params": 3}]
        with self.assertRaisesRegex(TypeError, "a dict with a list"):
            optimizer.step()
        optimizer.param_groups = [{"params": [3]}]
        with self.assertRaisesRegex(TypeError, "can only optimize Tensors"):
            optimizer.step()

    def test_numbers_that_run_code(self):
        w = torch.ones(1, requires_grad=True)
        w.grad = torch.ones(1)

        class Number:
            def __init__(self, act):
                self.act = act

            def __float__(self):
                self.act()
                return 0.5

        def replace():
            optimizer.param_groups[0]["lr"] = 0.25
            optimizer.param_groups[0]["params"][:] = [torch.ones(2, requires_grad=True)]
            optimizer.step()
        for act, error in ((lambda: optimizer.param_groups.clear(), None), (lambda: optimizer.param_groups[0].clear(), KeyError),
                           (lambda: 1 / 0, ZeroDivisionError), (replace, None)):
            optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
            optimizer.param_groups[0]["lr"] = Number(act)
            optimizer.state
            if error:
                self.assertRaises(error, optimizer.step)
            else:
                optimizer.step()

        class Odd(torch.Tensor):
            def __hash__(self):
                if wanted:
                    optimizer.state = {}
                    optimizer.param_groups.clear()
                    gc.collect()
                return 1
        wanted = False
        odd = Odd(torch.ones(2)).requires_grad_()
        odd.grad = torch.ones(2)
        optimizer = torch.optim.Adam([odd])
        optimizer.step()
        optimizer.state
        wanted = True
        optimizer.step()
        self.assertEqual(optimizer.param_groups, [])

    def test_no_gradients_no_step(self):
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.Adam([w])
        optimizer.step()
        self.assertEqual((w.tolist(), dict(optimizer.state)), ([1, 1], {}))

    def test_zero_grad(self):
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w])
        quadratic(w)
        optimizer.zero_grad(set_to_none=False)
        self.assertEqual(w.grad.tolist(), [0, 0])
        optimizer.zero_grad()
        self.assertIsNone(w.grad)

    def test_hooks_and_schedules(self):
        w = torch.ones(1, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=1.0)
        said = []
        first = optimizer.register_step_pre_hook(lambda o, args, _: said.append(("pre", o is optimizer, args[0] is optimizer)))
        optimizer.register_step_post_hook(lambda o, args, kwargs: said.append("post"))
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
        for _ in range(2):
            w.grad = torch.ones(1)
            self.assertIsNone(optimizer.step())
            schedule.step()
            first.remove()
        self.assertEqual(said, [("pre", True, True), "post", "post"])
        self.assertAlmostEqual(w.item(), 1 - 1 - 0.1, places=6)
        self.assertEqual(optimizer.step(lambda: 5), 5)

    def test_subclasses(self):
        class Clipped(torch.optim.SGD):
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.grad.clamp_(-1, 1)
                return super().step(closure)
        w = torch.tensor([5.0], requires_grad=True)
        optimizer = Clipped([w], lr=1.0)
        quadratic(w)
        optimizer.step()
        self.assertEqual(w.item(), 4.0)
        self.assertIsInstance(torch.optim.AdamW([w]), torch.optim.Adam)

    def test_what_is_not_there(self):
        w = torch.ones(1, requires_grad=True)
        optimizer = torch.optim.SparseAdam([w])
        self.assertEqual(optimizer.step(lambda: 3), 3)
        w.sum().backward()
        with self.assertRaisesRegex(RuntimeError, "^SparseAdam does not support dense gradients, please consider Adam instead"):
            optimizer.step()
        with self.assertRaisesRegex(ValueError, "^Invalid learning rate: -1$"):
            torch.optim.SparseAdam([w], lr=-1)
        with self.assertRaisesRegex(NotImplementedError, "differentiable=True"):
            torch.optim.SGD([w], differentiable=True)

    def test_nothing_leaks(self):
        class Holder(torch.optim.Adam):
            pass
        for ask in (False, True):
            w = torch.ones(3, requires_grad=True)
            optimizer = Holder([w])
            quadratic(w)
            optimizer.step()
            if ask:
                optimizer.state[w]["me"] = optimizer
            w.owner = optimizer  # a circle through the library's optimizer
            gone = weakref.ref(optimizer), weakref.ref(w)
            del optimizer, w
            gc.collect()
            self.assertEqual([g() for g in gone], [None, None])


if __name__ == "__main__":
    unittest.main()
