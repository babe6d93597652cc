"""Bad and odd indices on a device: every operator that takes one, with every kind, does what it does on the CPU, in the same words; a
bad index from the host is told at the call, also after deepcopy, a loader with pinned memory and a copy that nobody waited for; one that
the device computed is told by the next wait; other work is right, the device goes on and memory comes back.

test-env: FACULA_SIM=cuda:1
test-env: FACULA_SIM=cuda:1 CUDA_LAUNCH_BLOCKING=1
test-env-opencl: FACULA_OPENCL=cpu
"""
import copy
import os
import sys
import unittest

if not {"FACULA_SIM", "FACULA_OPENCL", "FACULA_PLUGINS"} & set(os.environ):
    os.environ["FACULA_SIM"] = "cuda:1"
    os.execv(sys.executable, [sys.executable, "-B"] + sys.argv)
import facula as torch

F = torch.nn.functional
WAITS = "CUDA_LAUNCH_BLOCKING" in os.environ
DEVICE = torch.device(torch.accelerator.current_accelerator().type, 0)


def whole(*values):
    return torch.tensor(values, dtype=torch.int64)


KINDS = {
    "right": whole(0, 2), "too large": whole(0, 4), "classes": whole(1, 3), "-1": whole(-1, 0), "too low": whole(0, -5),
    "-100": whole(0, -100), "empty": whole(), "int32": whole(0, 9).to(torch.int32), "uint8": whole(0, 1).to(torch.uint8),
    "float": torch.tensor([0.0, 1.0]), "mask": torch.tensor([True, False]), "two dimensions": whole(0, 1).reshape(1, 2),
}


def written(x, index, value):
    y = x.clone()
    y[index] = value
    return y


def column(i):
    return i.reshape(-1, 1)


OPERATORS = {
    "x[i]": lambda x, i: x[i],
    "x[:, i]": lambda x, i: x[:, i],
    "x[i, i]": lambda x, i: x[i, i],
    "x[i] = tensor": lambda x, i: written(x, i, torch.ones(2, 3).to(x.device)),
    "x[i] = number": lambda x, i: written(x, i, 5.0),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding, padding": lambda x, i: F.embedding(i, x, padding_idx=0),
    "embedding_bag": lambda x, i: F.embedding_bag(i.reshape(1, -1), x),
    "gather": lambda x, i: torch.gather(x, 0, column(i)),
    "scatter": lambda x, i: x.scatter(0, column(i), torch.ones(i.numel(), 1).to(x.device)),
    "scatter_": lambda x, i: x.clone().scatter_(0, column(i), 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, column(i), torch.ones(i.numel(), 1).to(x.device)),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, column(i), torch.ones(i.numel(), 1).to(x.device), "amax"),
    "index_select": lambda x, i: torch.index_select(x, 0, i),
    "index_add": lambda x, i: x.index_add(0, i, torch.ones(i.numel(), 3).to(x.device)),
    "index_copy": lambda x, i: x.index_copy(0, i, torch.ones(i.numel(), 3).to(x.device)),
    "index_fill": lambda x, i: x.index_fill(0, i, 2.0),
    "index_put": lambda x, i: x.index_put((i,), torch.ones(3).to(x.device)),
    "index_put, added": lambda x, i: x.index_put((i,), torch.ones(3).to(x.device), accumulate=True),
    "take": lambda x, i: torch.take(x[:2, :2], i),
    "take_along_dim": lambda x, i: torch.take_along_dim(x, column(i), 0),
    "put_": lambda x, i: x[:1].clone().put_(i, torch.ones(i.numel()).to(x.device)),
    "nll_loss": lambda x, i: F.nll_loss(x[:2], i),
    "cross_entropy": lambda x, i: F.cross_entropy(x[:2], i),
    "cross_entropy, smooth": lambda x, i: F.cross_entropy(x[:2], i, label_smoothing=0.1),
    "cross_entropy, -1 ignored": lambda x, i: F.cross_entropy(x[:2], i, ignore_index=-1),
    "cross_entropy, planes": lambda x, i: F.cross_entropy(x[:2].reshape(1, 3, 2), i.reshape(1, -1)),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x[:2], i),
    "one_hot": lambda x, i: F.one_hot(i, 4),
    "masked_select": lambda x, i: torch.masked_select(x, i != 0),
}


def table():
    return torch.arange(12.0).reshape(4, 3)


def outcome(operator, x, index):
    try:
        return operator(x, index).cpu()
    except Exception as e:
        return "%s: %s" % (type(e).__name__, e)


def launched(operator, x, index):
    """What the call itself says."""
    try:
        operator(x, index)
    except Exception as e:
        return "%s: %s" % (type(e).__name__, e)
    return ""


def synchronized():
    try:
        torch.accelerator.synchronize(DEVICE)
    except Exception as e:
        return "%s: %s" % (type(e).__name__, e)
    return ""


class Indices(unittest.TestCase):
    def tearDown(self):
        self.assertEqual(synchronized(), "")

    def test_every_operator_with_every_kind(self):
        told = 0
        for name, operator in OPERATORS.items():
            for kind, index in KINDS.items():
                here, there = outcome(operator, table(), index), outcome(operator, table().to(DEVICE), index.to(DEVICE))
                with self.subTest(operator=name, kind=kind):
                    self.assertEqual(type(here), type(there), (here, there))
                    if isinstance(here, str):
                        self.assertEqual(here, there)
                        self.assertEqual(launched(operator, table().to(DEVICE), index.to(DEVICE)), here)
                        told += 1
                    else:
                        self.assertTrue(torch.allclose(here.to(torch.float64), there.to(torch.float64), equal_nan=True), (here, there))
        self.assertGreater(told, 100)

    def test_what_the_device_computed(self):
        """The next wait tells, once, in the same words; with CUDA_LAUNCH_BLOCKING=1 the call does."""
        late = 0
        for name, operator in OPERATORS.items():
            for index in (whole(0, 4), whole(0, -5)):
                here = outcome(operator, table(), index)
                other = torch.ones(5).to(DEVICE)
                x, computed = table().to(DEVICE), index.to(DEVICE) * 1
                call = launched(operator, x, computed)
                other += 1
                with self.subTest(operator=name, index=index):
                    if isinstance(here, str):
                        late += not call
                        self.assertEqual(call or synchronized(), here)
                    self.assertEqual(synchronized(), "")
                    self.assertEqual(other.tolist(), [2.0] * 5)
                    self.assertEqual(x.tolist(), table().tolist())
        self.assertTrue(late == 0 if WAITS else late > 30, late)

    def test_where_the_index_comes_from(self):
        """All of these are told at the call."""
        x, bad = table().to(DEVICE), whole(1, 2, 7)
        noise = torch.randn(2, 9).to(DEVICE)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(bad), batch_size=3, pin_memory=True)
        sources = {
            "to": bad.to(DEVICE), "view": bad.to(DEVICE)[1:], "clone": bad.to(DEVICE).clone(), "deepcopy": copy.deepcopy(bad.to(DEVICE)),
            "int": bad.to(DEVICE).int(), "copy_": torch.zeros(3, dtype=torch.int64).to(DEVICE).copy_(bad),
            "loader": next(iter(loader))[0].to(DEVICE, non_blocking=True), "selected": bad.to(DEVICE)[torch.randperm(3).to(DEVICE)],
            "arange": torch.arange(7, device=DEVICE), "randperm": torch.randperm(7, device=DEVICE), "full": torch.full((3,), 7, device=DEVICE),
            "randint": torch.randint(5, 9, (3,), device=DEVICE), "argmax": torch.eye(9).to(DEVICE).argmax(1), "sort": noise.sort(1).indices[0],
            "topk": noise.topk(9).indices[0], "list": bad.tolist(),
        }
        for name, index in sources.items():
            with self.subTest(source=name):
                self.assertRegex(launched(lambda t, i: t[i], x, index), "^IndexError: index . is out of bounds for dimension 0 with size 4")

    def test_what_fits_waits_for_nothing(self):
        if WAITS or DEVICE.type != "cuda":
            return
        x, index = torch.zeros(9, 3).to(DEVICE), whole(0, 8, 3).to(DEVICE)
        logits, labels = torch.zeros(4, 3).to(DEVICE), whole(0, -100, 2, 1).to(DEVICE)
        torch.cuda.set_sync_debug_mode("error")
        try:
            x[index], F.embedding(index, x), F.cross_entropy(logits, labels), x[torch.zeros(2, 9).to(DEVICE).argmax(1)]
            x[index * 1]
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def test_an_address_that_somebody_has(self):
        """Whoever has it may write there: nothing is known of the memory any more."""
        x, index = table().to(DEVICE), whole(0, 7).to(DEVICE)
        self.assertTrue(launched(lambda t, i: t[i], x, index))
        index.data_ptr()
        call = launched(lambda t, i: t[i], x, index)
        self.assertEqual(bool(call), WAITS)
        self.assertIn("index 7 is out of bounds for dimension 0 with size 4", call or synchronized())

    def test_training_goes_on(self):
        """Memory comes back, gradients and weights are as without the mistakes."""
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Flatten(), torch.nn.Linear(8, 3)).to(DEVICE)
        twin = copy.deepcopy(model)
        inputs, labels = whole(0, 1, 2, 3).reshape(2, 2).to(DEVICE), whole(0, 2).to(DEVICE)

        def step(net):
            net.zero_grad()
            F.cross_entropy(net(inputs), labels).backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0.1 * p.grad

        used = []
        for _ in range(6):
            for wrong in (labels + 1, whole(0, 3).to(DEVICE)):
                self.assertIn("Target 3 is out of bounds", launched(lambda x, i: F.cross_entropy(model(x), i), inputs, wrong) or synchronized())
            self.assertIn("index out of range in self", launched(lambda x, i: model(i), None, inputs + 3) or synchronized())
            wrong = None
            step(model), step(twin)
            torch.accelerator.synchronize(DEVICE)
            used.append(torch.accelerator.memory_allocated(DEVICE))
        self.assertEqual(used[1:], used[1:2] * 5)
        for a, b in zip(model.parameters(), twin.parameters()):
            self.assertEqual(a.tolist(), b.tolist())


if __name__ == "__main__":
    unittest.main()
