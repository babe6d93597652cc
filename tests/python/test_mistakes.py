"""The mistakes that people make with devices, three or more ways to make each: the message names what is where and how to mend it.

Each line of CASES is a program's statement; what it must raise, and words that its message must have. Run with two simulated GPUs.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import unittest

# statement | error | words, separated by two spaces
CASES = """
-- the model moved, the data not
net(batch) | RuntimeError | Expected all tensors to be on the same device, but got input is on cpu  net.layers.0 (Linear), its parameter weight  batch = batch.to("cuda:0")
net.norm(batch) | RuntimeError | input is a float32 tensor of shape [2, 4] on cpu  net.norm (BatchNorm1d), its buffer running_mean  batch = batch.to("cuda:0")
nn.Conv2d(1, 1, 3).cuda()(torch.ones(1, 1, 5, 5)) | RuntimeError | Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same  but got input is on cpu  (Conv2d), its parameter weight
nn.LayerNorm(4).cuda()(batch) | RuntimeError | got input is on cpu  batch = batch.to("cuda:0")
nn.LSTM(4, 8).cuda()(batch) | RuntimeError | Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at cuda:0  (LSTM), its parameter weight_ih_l0
nn.Embedding(10, 4).cuda()(labels) | RuntimeError | got index is on cpu, different from other tensors on cuda:0  labels = labels.to("cuda:0")
-- the data moved, the model not
cpu_net(batch.cuda()) | RuntimeError | got weight is on cpu  cpu_net.layers.0 (Linear), its parameter weight  cpu_net.to("cuda:0") before it is called
nn.Conv1d(4, 1, 1)(batch.cuda().T) | RuntimeError | Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same  to("cuda:0")
cpu_net.norm(batch.to('cuda:1')) | RuntimeError | cpu_net.norm (BatchNorm1d), its parameter weight  cpu_net.to("cuda:1")
-- labels forgotten
nn.functional.cross_entropy(net(dev), labels) | RuntimeError | got target is on cpu  labels = labels.to("cuda:0")
nn.MSELoss()(net(dev), batch) | RuntimeError | found at least two devices, cuda:0 and cpu  batch = batch.to("cuda:0")
nn.BCEWithLogitsLoss()(net(dev), batch) | RuntimeError | on the same device  batch = batch.to("cuda:0")
(net(dev).argmax(1) == labels).sum() | RuntimeError | found at least two devices, cuda:0 and cpu!  other is an int64 tensor of shape [2] on cpu
-- a hidden state or a mask made on the CPU
nn.LSTM(4, 8).cuda()(dev, (torch.zeros(1, 8), torch.zeros(1, 8))) | RuntimeError | Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu  hx is a float32 tensor
nn.GRU(4, 8).cuda()(dev[None], hidden) | RuntimeError | hidden tensor at cpu  hidden = hidden.to("cuda:0")
nn.RNN(4, 8).cuda()(dev[None], hidden) | RuntimeError | hidden tensor at cpu  hidden = hidden.to("cuda:0")
dev.masked_fill(mask, 0) | RuntimeError | mask is a bool tensor of shape [2, 4] on cpu  mask = mask.to("cuda:0")
torch.where(mask, dev, dev) | RuntimeError | condition is a bool tensor  mask = mask.to("cuda:0")
-- a plain attribute instead of a buffer, modules in a plain list
net.masked(dev) | RuntimeError | self.register_buffer("mask", ...) in Net.__init__ instead of self.mask = ...
net.shifted(dev) | RuntimeError | self.register_buffer("shift", ...) in Net.__init__
net.deep(dev) | RuntimeError | self.register_buffer("scale", ...) in Inner.__init__
net.listed(dev) | RuntimeError | Linear is not registered in Net, so Net.to() leaves it behind  nn.ModuleList  .check(model)
net.keyed(dev) | RuntimeError | nn.ModuleDict
-- tensors of one call on two devices, and .to() that was not assigned
[batch.to('cuda'), dev + batch] | RuntimeError | found at least two devices, cuda:0 and cpu!  other is a float32 tensor of shape [2, 4] on cpu  batch = batch.to("cuda:0"). Tensor.to() gives a new tensor
torch.cat([dev, batch]) | RuntimeError | got tensors is on cpu  tensors[1] is a float32 tensor
torch.stack([batch, dev]) | RuntimeError | tensors[0] is a float32 tensor of shape  on cpu
dev @ batch.T | RuntimeError | got other is on cpu
torch.mm(dev, batch.T) | RuntimeError | got mat2 is on cpu
torch.bmm(dev[None], batch.T[None]) | RuntimeError | got mat2 is on cpu
dev.add_(batch) | RuntimeError | found at least two devices, cuda:0 and cpu!
dev + batch.to('cuda:1') | RuntimeError | found at least two devices, cuda:0 and cuda:1!
torch.lerp(dev, batch, 0.5) | RuntimeError | end is a float32 tensor
torch.addcmul(dev, dev, batch) | RuntimeError | tensor2 is a float32 tensor
dev.gather(1, labels[:, None]) | RuntimeError | got index is on cpu
torch.ones(2)[torch.tensor([0], device='cuda')] | RuntimeError | indices should be either on cpu or on the same device
-- numpy
dev.numpy() | TypeError | can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.
net(dev).numpy() | RuntimeError | detach()
weight.numpy() | RuntimeError | Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.
-- a device that is not there
torch.ones(1, device='cuda:7') | AcceleratorError | CUDA error: invalid device ordinal  cuda:7 was asked for, but there are 2 devices
net.to('cuda:2') | AcceleratorError | invalid device ordinal  cuda:0 to cuda:1
torch.ones(1).to('xpu') | RuntimeError | Found no xpu device  FACULA_SIM=cuda:2,xpu:1
torch.device('gpu') | RuntimeError | Expected one of cpu, cuda  write one of them
torch.device('cuda:01') | RuntimeError | Invalid device string: 'cuda:01'
-- indices that do not exist
nn.Embedding(4, 2).cuda()(torch.tensor([9]).cuda()).sum().item() | IndexError | index out of range in self. Index 9 was found
nn.functional.cross_entropy(dev, torch.tensor([1, 7]).cuda()).item() | IndexError | Target 7 is out of bounds.
nn.Embedding(4, 2).cuda()(torch.tensor([-1]).cuda()).sum().item() | IndexError | index out of range in self. Index -1 was found
-- optimizers, batches
torch.optim.SGD(lost.parameters(), lr=0.1) | ValueError | optimizer got an empty parameter list. lost has none, but lost.layers[0] is a Linear in a plain list  nn.ModuleList
torch.optim.Adam([]) | ValueError | optimizer got an empty parameter list  .check(model)
used(torch.optim.SGD, net) | ValueError | optimizer got an empty parameter list  it is empty the second time
nn.BatchNorm1d(4)(torch.ones(1, 4)) | ValueError | Expected more than 1 value per channel when training  drop_last=True
nn.BatchNorm2d(2).cuda()(torch.ones(1, 2, 1, 1).cuda()) | ValueError | drop_last=True
torch.pick_device('xpu') | RuntimeError | pick_device(): require='xpu', but there is none. Found no xpu device
"""


def world():
    """The variables of the statements."""
    import facula as torch
    from facula import nn

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.ones(4)

        def forward(self, x):
            return x * self.scale

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            self.norm = nn.BatchNorm1d(4)
            self.mask, self.shift = torch.ones(4), torch.ones(4)
            self.inner = Inner()
            self.plain, self.named = [nn.Linear(4, 4)], {"a": nn.Linear(4, 4)}

        def forward(self, x):
            return self.layers(x)

        def masked(self, x):
            return x * self.mask

        def shifted(self, x):
            return torch.add(x, self.shift)

        def deep(self, x):
            return self.inner(x)

        def listed(self, x):
            return self.plain[0](x)

        def keyed(self, x):
            return self.named["a"](x)

    class Lost(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(2, 2)]

    def used(optimizer, model):
        parameters = model.parameters()
        list(parameters)
        return optimizer(parameters, lr=0.1)

    batch = torch.ones(2, 4)
    return {"torch": torch, "nn": nn, "net": Net().to("cuda"), "cpu_net": Net(), "lost": Lost(), "used": used, "batch": batch, "dev": batch.to("cuda"),
            "labels": torch.tensor([1, 0]), "mask": batch > 0, "hidden": torch.zeros(1, 2, 8), "weight": nn.Linear(2, 2).weight}


def answers():
    """Every statement's error, printed for the parent process."""
    lines, import_lines = [], [line for line in CASES.strip().splitlines() if not line.startswith("--")]
    variables = world()
    for line in import_lines:
        statement = line.split(" | ")[0]
        try:
            exec(statement, variables)
            lines.append(("none", "no error"))
        except Exception as error:
            lines.append((type(error).__name__, str(error)))
        assert (variables["dev"] + 1).sum().item() == 16, "the device does not work any more"
    sys.stdout.buffer.write(pickle.dumps(lines))


def helpers():
    """check, device_of, to_device, move, pick_device on two devices."""
    import facula as torch
    from facula import nn
    v = world()
    net = v["net"]
    found = torch.check(net)
    for name in ("mask", "shift", "inner.scale", "plain[0]", "named['a']"):
        assert sum(line.startswith(name + " is ") for line in found) == 1, (name, found)
    assert len(found) == 5, found
    good = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    good.also = [good[0], good[0].weight]  # known by another name: nothing is lost
    assert torch.check(good) == []
    good.half = good[0].weight.detach()[:1]
    assert torch.check(good)[0].startswith(("half is a view of 0.weight", "half is a tensor")), torch.check(good)
    del good.half
    good[1].to("cuda:1")
    assert torch.device_of(good).startswith("mixed: 2 on cpu (0.weight, 0.bias); 5 on cuda:1 ("), torch.device_of(good)
    assert torch.check(good)[0].startswith("parameters and buffers are mixed: "), torch.check(good)
    assert torch.device_of(good.to("cuda:1")) == torch.device("cuda:1") and torch.device_of([3]) is None
    from collections import OrderedDict, namedtuple
    Pair = namedtuple("Pair", "a b")
    moved = torch.to_device([Pair(torch.ones(1), {"x": (torch.ones(1), "text")}), OrderedDict(y=torch.ones(1)), 3], "cuda:1")
    assert type(moved[0]) is Pair and type(moved[1]) is OrderedDict and moved[2] == 3 and moved[0].b["x"][1] == "text"
    assert {t.device for t in (moved[0].a, moved[0].b["x"][0], moved[1]["y"])} == {torch.device("cuda:1")}
    loop = []
    loop.append(loop)
    try:
        torch.to_device(loop, "cuda")
        raise AssertionError("no error")
    except ValueError as error:
        assert "contains itself" in str(error)
    for rule, options in (("SGD", {"lr": 0.1, "momentum": 0.9}), ("Adam", {}), ("AdamW", {}), ("RMSprop", {}), ("Adagrad", {})):
        for how in ("model", "optimizer"):  # either moves between two steps: the numbers are those of the CPU
            results = []
            for there in ("cpu", "cuda:1"):
                torch.manual_seed(0)
                model = nn.Linear(3, 2)
                optimizer = getattr(torch.optim, rule)(model.parameters(), **options)
                for step in range(3):
                    if step == 1:
                        torch.move(model if how == "model" else optimizer, there)
                    device = model.weight.device
                    optimizer.zero_grad()
                    model(torch.ones(4, 3, device=device)).pow(2).sum().backward()
                    optimizer.step()
                assert device == torch.device(there)
                results.append(model.weight.detach().cpu())
            assert torch.allclose(*results, rtol=1e-5), (rule, how, results)
    assert torch.pick_device(verbose=False) == torch.device("cuda:0") and torch.pick_device("cpu", verbose=False).type == "cpu"


class ForkedSet:
    """A data set that uses a device in a worker."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        import facula as torch
        return torch.ones(2, device="cuda")


def forked():
    """The error of a data set that uses the device in a forked worker: three kinds of data set."""
    import facula as torch
    from facula.utils.data import DataLoader, IterableDataset

    class Stream(IterableDataset):
        def __iter__(self):
            yield torch.ones(2).cuda()

    class Held:
        held = torch.ones(2, device="cuda")

        def __len__(self):
            return 2

        def __getitem__(self, i):
            return self.held + 1

    for dataset, place in ((ForkedSet(), "ForkedSet.__getitem__"), (Stream(), "Stream.__iter__"), (Held(), "Held.__getitem__")):
        try:
            list(DataLoader(dataset, num_workers=1, multiprocessing_context="fork"))
            raise AssertionError("no error")
        except RuntimeError as error:
            text = str(error)
        for part in ("Cannot re-initialize CUDA in forked subprocess", f"in a DataLoader worker in {place}, line ", "test_mistakes.py", "Return CPU tensors", "spawn"):
            assert part in text, (part, text)


def without():
    """No device at all: what is said, and how a checkpoint comes back."""
    import facula as torch
    for make in (lambda: torch.ones(1).cuda(), lambda: torch.nn.Linear(1, 1).to("cuda"), lambda: torch.zeros(1, device="cuda")):
        try:
            make()
            raise AssertionError("no error")
        except RuntimeError as error:
            assert str(error).startswith("Found no NVIDIA driver on your system.") and "FACULA_SIM=cuda:2" in str(error), error
    try:
        torch.load(sys.argv[2])
        raise AssertionError("no error")
    except RuntimeError as error:
        assert f"torch.load('{sys.argv[2]}', map_location='cpu')" in str(error) and "is_available() is False" in str(error), error
    assert torch.load(sys.argv[2], map_location="cpu")["w"].device.type == "cpu"
    assert torch.load(sys.argv[2], map_location=lambda storage, location: storage)["w"].tolist() == [1, 1]
    assert torch.pick_device(verbose=False).type == "cpu"
    try:
        torch.pick_device("gpu")
        raise AssertionError("no error")
    except RuntimeError as error:
        assert "Found no NVIDIA driver" in str(error), error


def start(what, *more, simulated="cuda:2"):
    env = {k: v for k, v in os.environ.items() if k != "FACULA_SIM"}
    env.update({"FACULA_SIM": simulated} if simulated else {"CUDA_VISIBLE_DEVICES": ""})
    return subprocess.run([sys.executable, "-B", os.path.abspath(__file__), what, *more], env=env, capture_output=True, timeout=100)


class Mistakes(unittest.TestCase):
    def test_messages(self):
        done = start("answers")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        cases = [line.split(" | ") for line in CASES.strip().splitlines() if not line.startswith("--")]
        found = pickle.loads(done.stdout)
        self.assertEqual(len(found), len(cases))
        for (statement, kind, words), (error, text) in zip(cases, found):
            if "numpy()" in statement and "NumPy" in text:
                continue  # a Python without it
            for word in words.split("  "):
                with self.subTest(statement=statement, word=word):
                    self.assertEqual(error, kind, text)
                    self.assertIn(word.strip(), text)

    def run_part(self, *what, **options):
        done = start(*what, **options)
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_helpers(self):
        self.run_part("helpers")

    def test_fork(self):
        self.run_part("forked")

    def test_no_device(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "saved.pt")
            self.run_part("save", path)
            self.run_part("without", path, simulated=None)


def save():
    import facula as torch
    torch.save({"w": torch.ones(2, device="cuda")}, sys.argv[2])


if __name__ == "__main__":
    parts = {"answers": answers, "helpers": helpers, "forked": forked, "without": without, "save": save}
    parts[sys.argv[1]]() if len(sys.argv) > 1 and sys.argv[1] in parts else unittest.main()
