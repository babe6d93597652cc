"""Mixed precision in Python: types against PyTorch's table, the scaler's life and its errors, contexts, decorators, custom functions."""
import copy
import gzip
import os
import pickle
import subprocess
import sys
import unittest
import warnings

import facula as torch
from facula import nn

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
SIMULATED = "FACULA_SIM" in os.environ
MIXES = ("f", "l", "o", "d", "fl", "lf", "lo")  # as in autocast_cases.py


def warned(call):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    return [(w.category.__name__, str(w.message)) for w in told]


# Where Facula's types are not PyTorch's table, on purpose: device, letters of the mixes (None: all), names or beginnings, and why.
# "!": only Facula refuses.
DIFFERS = (
    ("cpu", None, ("nn.LSTM(",), "PyTorch's own kernel for the CPU takes some mixtures and not others; here all compute in the lower type"),
    ("cpu", None, ("F.mse_loss(X, X, weight=X)",), "in float32 as without weight"),
    ("cuda", None, ("F.affine_grid",), "PyTorch's kernel is made of a batched product, which is cast; fake tensors do not look inside"),
    ("cuda", ("fl", "lf", "lo"), ("torch.normal(X, X)",), "as on the CPU: the mean's type"),
    ("cuda", ("fl", "lf", "lo"), ("torch.linalg.cross",), "fake tensors take the first type; here both promote"),
    ("cuda", "!l o", ("torch.cholesky", "torch.det", "torch.qr", "torch.svd", "Tensor.cholesky", "Tensor.det", "Tensor.qr", "Tensor.svd", "torch.linalg."),
     "fake tensors do not say that LAPACK has no lower precision"),
    ("cuda", "!fl lf lo", ("torch.index_", "Tensor.index_", "X.index_", "Tensor.put_", "X.put_", "Tensor.addmm_", "X.clone().index_put_"),
     "fake tensors do not say that two tensors must have one type"),
    ("cuda", "!d", ("nn.",), "fake tensors do not say that a product's tensors must have one type: float64 by a float32 weight"),
    ("cuda", "!f l o", ("nn.Linear(4, 3).double()",), "the same"),
)


def differs(kind, name, mix, refuses):
    for where, mixes, names, _ in DIFFERS:
        only = isinstance(mixes, str)
        if where == kind and name.startswith(names) and (mixes is None or mix in (mixes[1:].split() if only else mixes)) and (refuses or not only):
            return True
    return False


class Autocast(unittest.TestCase):
    def test_types_are_pytorchs(self):
        # what PyTorch refuses ("!") may be given here
        done = subprocess.run([sys.executable, "-B", "-m", "facula", os.path.join(GOLDEN, "autocast_cases.py")], capture_output=True, text=True, timeout=100,
                              env={**os.environ, "FACULA_SIM": "cuda:1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        with gzip.open(os.path.join(GOLDEN, "autocast.txt.gz"), "rt", encoding="utf-8") as golden:
            expected, found = golden.read().splitlines(), done.stdout.splitlines()
        self.assertEqual(len(expected), len(found), "the cases changed: tests/golden/autocast_cases.py --write")
        compared, wrong = 0, []
        for want, have in zip(expected, found):
            kind, name, _, wanted = want.split(" | ")
            self.assertEqual([kind, name], have.split(" | ")[:2])
            wanted, had = wanted.split(), have.split(" | ")[3].split()
            self.assertEqual(len(wanted), len(had), name)
            mixes = MIXES[:len(wanted) // 2] * 2
            compared += len(wanted) - wanted.count("!")
            wrong += [f"{kind}: {name} of {mix}: {h}, but PyTorch's is {w}" for mix, w, h in zip(mixes, wanted, had)
                      if w not in ("!", h) and not differs(kind, name, mix, h == "!")]
        self.assertEqual(wrong, [])
        self.assertGreater(compared, 20000)

    def test_what_fake_tensors_can_not_tell(self):
        code = """
import torch, torch.nn.functional as F
x = torch.tensor([3., 0.3], device='cuda').half()
with torch.autocast('cuda'):
    assert F.gaussian_nll_loss(x, x, x).dtype == torch.float32
    assert (2 / x).tolist() == (x.float().reciprocal() * 2).tolist()
    assert torch.cov(torch.eye(2, device='cuda')).dtype == torch.float16
    a = torch.tensor([[2., 0.], [0., 3.]], device='cuda')
    assert torch.linalg.pinv(a).allclose(torch.linalg.inv(a), 1e-6) and torch.linalg.pinv(a).dtype == torch.float32
    try:
        F.binary_cross_entropy(x, x)
    except RuntimeError as error:
        print(error)
assert (2 / x).dtype == torch.float16 and (2 / x).tolist() == (2 / x.double()).half().tolist()
"""
        done = subprocess.run([sys.executable, "-B", "-m", "facula", "-c", code], capture_output=True, text=True, timeout=100, env={**os.environ, "FACULA_SIM": "cuda:1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, """torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.
Many models use a sigmoid layer right before the binary cross entropy layer.
In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits
or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are
safe to autocast.
""")

    def test_decorator_and_state(self):
        @torch.autocast("cpu", dtype=torch.float16)
        def product(x):
            return x @ x, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        result, on, dtype = product(torch.ones(2, 2))
        self.assertEqual((result.dtype, on, dtype), (torch.float16, True, torch.float16))
        self.assertEqual((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")), (False, torch.bfloat16))
        with self.assertRaises(KeyError):
            with torch.autocast("cpu"):
                raise KeyError
        self.assertFalse(torch.is_autocast_enabled("cpu"))

    def test_nested(self):
        w, x, seen = nn.Parameter(torch.eye(2)), torch.eye(2), []
        with torch.autocast("cpu"):
            seen.append((x @ w).dtype)
            with torch.autocast("cpu", dtype=torch.float16):  # the weight is kept in bfloat16, which does not serve
                seen.append((x @ w).dtype)
            with torch.autocast("cpu", enabled=False):
                seen.append(((x @ w).dtype, torch.is_autocast_enabled("cpu")))
                with torch.autocast("cpu"):
                    seen.append((x @ w).dtype)
            with torch.autocast("cpu", cache_enabled=False):
                seen.append(torch.is_autocast_cache_enabled())
            seen.append((torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()))
        self.assertEqual(seen, [torch.bfloat16, torch.float16, (torch.float32, False), torch.bfloat16, False, (torch.bfloat16, True)])

    def test_warnings(self):
        told = warned(lambda: torch.autocast("cpu", dtype=torch.float64))
        self.assertEqual(told, [("UserWarning", "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                                 "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.")])
        told = warned(lambda: torch.autocast("xpu"))
        self.assertEqual(told, [("UserWarning", "User provided device_type of 'xpu', but XPU is not available. Disabling")])
        if not SIMULATED:
            none = [("UserWarning", "CUDA is not available or torch_xla is imported. Disabling autocast.")]
            self.assertEqual(warned(lambda: torch.autocast("cuda")), none)
            self.assertEqual(warned(lambda: torch.cuda.amp.autocast())[0][0], "FutureWarning")
        with self.assertRaisesRegex(ValueError, "Expected `device_type` of type `str`"):
            torch.autocast(3)
        for around in (torch.amp.custom_fwd, torch.amp.custom_bwd):
            with self.assertRaisesRegex(ValueError, "Expected `device_type` of type `str`, got: `<class 'int'>`"):
                around(len, device_type=3)

    def test_custom_functions(self):
        seen = []

        class Product(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cpu")
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x @ x

            @staticmethod
            @torch.amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                seen.append(torch.is_autocast_enabled("cpu"))
                x, = ctx.saved_tensors
                return (g @ x.t() + x.t() @ g).float()

        class InFloat(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
            def forward(ctx, x):
                seen.append((x.dtype, torch.is_autocast_enabled("cpu")))
                return x * 1

            @staticmethod
            @torch.amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                seen.append(torch.is_autocast_enabled("cpu"))
                return g

        x = torch.rand(3, 3, requires_grad=True)
        with torch.autocast("cpu"):
            y = Product.apply(x)
            z = InFloat.apply(y)
        z.sum().backward()
        self.assertEqual(y.dtype, torch.bfloat16)
        self.assertEqual(seen, [(torch.float32, False), False, True])
        self.assertEqual(x.grad.dtype, torch.float32)


class Scaler(unittest.TestCase):
    def setUp(self):
        self.p = nn.Parameter(torch.ones(2))
        self.optimizer = torch.optim.SGD([self.p], lr=0.5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

    def loss(self):
        return (self.p * 0.25).sum()

    def test_a_training_step(self):
        for scale in (4.0, 8.0):
            self.optimizer.zero_grad()
            self.scaler.scale(self.loss()).backward()
            self.assertEqual(self.p.grad.tolist(), [1.0, 1.0])
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.assertEqual(self.scaler.get_scale(), scale)
        self.assertEqual(self.p.tolist(), [0.75, 0.75])

    def test_a_step_left_out(self):
        self.scaler.scale((self.p * float("inf")).sum()).backward()
        self.assertIsNone(self.scaler.step(self.optimizer))
        self.scaler.update()
        self.assertEqual((self.p.tolist(), self.scaler.get_scale()), ([1.0, 1.0], 2.0))

    def test_two_optimizers(self):
        # PyTorch's numbers: infinity in one gradient leaves out that optimizer's step alone, and the scale goes down for both
        q = nn.Parameter(torch.tensor([3.0, 4.0]))
        adam = torch.optim.Adam([q], lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3, growth_factor=3.0, backoff_factor=0.25)
        inf, nan, seen = float("inf"), float("nan"), []
        for x, y in ((1, 1), (inf, 1), (1, inf), (1, 1), (1, 1), (1, 1), (1, 1), (nan, nan), (1, 1)):
            self.optimizer.zero_grad(), adam.zero_grad()
            scaler.scale((self.p * x).sum() + (q * q * y).sum()).backward()
            scaler.unscale_(self.optimizer)
            scaler.step(self.optimizer), scaler.step(adam)
            scaler.update()
            seen.append((scaler.get_scale(), scaler.state_dict()["_growth_tracker"], self.p[0].item(), round(q[0].item(), 4)))
        self.assertEqual(seen, [(8.0, 1, 0.5, 2.9), (2.0, 0, 0.5, 2.8001), (0.5, 0, 0.0, 2.8001), (0.5, 1, -0.5, 2.7004), (0.5, 2, -1.0, 2.6009),
                                (1.5, 0, -1.5, 2.5018), (1.5, 1, -2.0, 2.4031), (0.375, 0, -2.0, 2.4031), (0.375, 1, -2.5, 2.3049)])

    def test_errors(self):
        s, o = self.scaler, self.optimizer
        for call, words in ((lambda: s.step(o), "Attempted step but _scale is None.  This may indicate"), (s.update, "Attempted update but _scale is None."),
                            (lambda: s.unscale_(o), "Attempted unscale_ but _scale is None.")):
            with self.assertRaisesRegex(AssertionError, words):
                call()
        s.scale(self.loss())
        with self.assertRaisesRegex(AssertionError, "No inf checks were recorded for this optimizer."):
            s.step(o)
        with self.assertRaisesRegex(AssertionError, "No inf checks were recorded prior to update."):
            s.update()
        s = torch.amp.GradScaler("cpu")
        s.scale(self.loss()).backward()
        s.unscale_(o)
        with self.assertRaisesRegex(RuntimeError, r"unscale_\(\) has already been called on this optimizer since the last update\(\)."):
            s.unscale_(o)
        s.step(o)
        with self.assertRaisesRegex(RuntimeError, r"step\(\) has already been called since the last update\(\)."):
            s.step(o)
        with self.assertRaisesRegex(RuntimeError, r"unscale_\(\) is being called after step\(\)."):
            s.unscale_(o)
        with self.assertRaisesRegex(RuntimeError, "Closure use is not currently supported if GradScaler is enabled."):
            s.step(o, closure=lambda: 0)
        with self.assertRaisesRegex(AssertionError, "The growth factor must be > 1.0."):
            torch.amp.GradScaler("cpu", growth_factor=1.0)
        with self.assertRaisesRegex(AssertionError, "The backoff factor must be < 1.0."):
            torch.amp.GradScaler("cpu", backoff_factor=1.0)
        half = nn.Parameter(torch.ones(2, dtype=torch.float16))
        s.scale((half * 2).sum()).backward()
        with self.assertRaisesRegex(ValueError, "Attempting to unscale FP16 gradients."):
            s.unscale_(torch.optim.SGD([half], lr=0.1))
        with self.assertRaisesRegex(ValueError, "outputs must be a Tensor or an iterable of Tensors"):
            s.scale(3)
        with self.assertRaisesRegex(RuntimeError, "The source state dict is empty"):
            s.load_state_dict({})

    def test_state(self):
        state = self.scaler.state_dict()
        self.assertEqual(state, {"scale": 4.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2, "_growth_tracker": 0})
        other = torch.amp.GradScaler("cpu")
        other.load_state_dict(state)
        self.assertEqual(other.state_dict(), state)
        self.scaler.set_growth_factor(3.0), self.scaler.set_backoff_factor(0.25), self.scaler.set_growth_interval(7)
        for same in (copy.deepcopy(self.scaler), pickle.loads(pickle.dumps(self.scaler))):
            self.assertEqual((same.get_growth_factor(), same.get_backoff_factor(), same.get_growth_interval()), (3.0, 0.25, 7))
        other.update(16.0)
        self.assertEqual([t.tolist() for t in other.scale([torch.ones(1), torch.ones(1)])], [[16.0], [16.0]])
        off = torch.amp.GradScaler("cpu", enabled=False)
        self.assertEqual((off.get_scale(), off.state_dict(), off.is_enabled()), (1.0, {}, False))

    def test_without_cuda(self):
        if not SIMULATED:
            told = warned(lambda: torch.amp.GradScaler())
            self.assertEqual(told, [("UserWarning", "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")])
        told = warned(lambda: torch.cpu.amp.GradScaler())
        self.assertEqual(told, [("FutureWarning", "`torch.cpu.amp.GradScaler(args...)` is deprecated. Please use `torch.amp.GradScaler('cpu', args...)` instead.")])


TRAINING = """
import torch, torch.nn.functional as F
from torch import nn
for dtype in (torch.float16, torch.bfloat16):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 10)).cuda()
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    scaler = torch.amp.GradScaler('cuda', enabled=dtype == torch.float16)
    x = torch.rand(64, 1, 8, 8, device='cuda')
    y = (x.mean((1, 2, 3)) * 100).long() % 10
    losses = []
    for step in range(25):
        optimizer.zero_grad()
        with torch.autocast('cuda', dtype=dtype):
            out = net(x)
            loss = F.cross_entropy(out, y)
        assert out.dtype == dtype and loss.dtype == torch.float32
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert net[0].weight.grad.dtype == torch.float32
    assert losses[-1] < 0.5 * losses[0], losses
print('trained')
"""


class Device(unittest.TestCase):
    def test_a_network_learns_on_a_simulated_device(self):
        done = subprocess.run([sys.executable, "-B", "-m", "facula", "-c", TRAINING], capture_output=True, text=True, timeout=100,
                              env={**os.environ, "FACULA_SIM": "cuda:1"})
        self.assertEqual((done.returncode, done.stdout), (0, "trained\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
