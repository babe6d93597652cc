"""Kinds of mistakes with devices, in programs as people write them: what the message must say, and that its cure, put into the program, mends it.

A case: its name, ! and words that must not be in the message, the words that must; the program; and after => the line that is put in its place
(a line with the same beginning as far as ~), or before the last one (+). Near misses (ok) run without an error."""

import os
import subprocess
import sys
import unittest

HEAD = """
import facula as torch
from facula import nn
import facula.nn.functional as F
from facula.utils.data import DataLoader
torch.manual_seed(0)
d = "cuda"
x, xd = torch.ones(2, 3, 8), torch.ones(2, 3, 8, device=d)
m, md, labels = torch.ones(2, 4), torch.ones(2, 4, device=d), torch.tensor([0, 1])
class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.build()
    def forward(self, x):
        return self.run(x)
"""

CASES = '''
position made in forward | index is an int64 tensor of shape [3] on cpu | p = p.to("cuda:0")
class Net(Holder):
    def build(self): self.pos = nn.Embedding(20, 8)
    def run(self, x):
        p = torch.arange(x.shape[1])
        return x + self.pos(p)
Net().to(d)(xd)
=>         p = ~ p = torch.arange(x.shape[1]).to("cuda:0")

sines made in forward | pe = pe.to("cuda:0")
class Net(Holder):
    def build(self): pass
    def run(self, x):
        pe = torch.zeros(x.shape[1], 8)
        return x + pe
Net().to(d)(xd)
=>         pe = ~ pe = torch.zeros(x.shape[1], 8).to("cuda:0")

slice of a plain attribute | self.register_buffer("pe", ...) in Net.__init__ instead of self.pe = ... | ! other =
class Net(Holder):
    def build(self):
        self.pe = torch.zeros(50, 8)
    def run(self, x): return x + self.pe[:x.shape[1]]
Net().to(d)(xd)
=>         self.pe ~ self.register_buffer("pe", torch.zeros(50, 8))

transposed plain attribute, the object called this | self.register_buffer("pe", ...) in Net.__init__
class Net(Holder):
    def build(this):
        this.pe = torch.zeros(8, 50)
    def run(this, x): return x + this.pe.t()[:x.shape[1]]
Net().to(d)(xd)
=>         this.pe ~ this.register_buffer("pe", torch.zeros(8, 50))

tensors in a dict | self.register_buffer(...) in Net.__init__ for each tensor of self.t: a plain dict is left behind
class Net(Holder):
    def build(self):
        self.t = {"a": [torch.ones(8)]}
    def run(self, x): return x * self.t["a"][0]
Net().to(d)(xd)
=>         self.t ~ self.register_buffer("t", torch.ones(8))
=>     def run ~ def run(self, x): return x * self.t

parameters in a list | nn.ParameterList or nn.ParameterDict for self.ws in Net.__init__ | a plain list of parameters | ! register_buffer | ! w = w.to
class Net(Holder):
    def build(self):
        self.ws = [nn.Parameter(torch.ones(8)) for _ in range(2)]
    def run(self, x):
        for w in self.ws: x = x * w
        return x
Net().to(d)(xd)
=>         self.ws ~ self.ws = nn.ParameterList([nn.Parameter(torch.ones(8)) for _ in range(2)])

lists of lists of layers | Linear is not registered in Net, so Net.to() leaves it behind: it is self.blocks[0][0] | nn.ModuleList
class Net(Holder):
    def build(self):
        self.blocks = [[nn.Linear(8, 8)], [nn.Linear(8, 8)]]
    def run(self, x):
        for block in self.blocks:
            for l in block: x = l(x)
        return x
Net().to(d)(xd)
=>         self.blocks ~ self.blocks = nn.ModuleList([nn.ModuleList([nn.Linear(8, 8)]), nn.ModuleList([nn.Linear(8, 8)])])

a tuple of Sequentials, the object called s | Sequential is not registered in Net, so Net.to() leaves it behind: it is self.blocks[0]
class Net(Holder):
    def build(s):
        s.blocks = (nn.Sequential(nn.Linear(8, 8), nn.ReLU()),)
    def run(s, x):
        for b in s.blocks: x = b(x)
        return x
Net().to(d)(xd)
=>         s.blocks ~ s.blocks = nn.ModuleList((nn.Sequential(nn.Linear(8, 8), nn.ReLU()),))

a layer made in forward | Linear(...).to("cuda:0") before it is called, or make it an attribute of Net in Net.__init__ | ! plain list
class Net(Holder):
    def build(self): pass
    def run(self, x): return nn.Linear(8, 8)(x)
Net().to(d)(xd)
=>     def build ~ def build(self): self.l = nn.Linear(8, 8)
=>     def run ~ def run(self, x): return self.l(x)

a layer in a lambda | l.to("cuda:0") before it is called, or make it an attribute of Net
class Net(Holder):
    def build(self):
        l = nn.Linear(8, 8)
        self.f = lambda x: l(x)
    def run(self, x): return self.f(x)
Net().to(d)(xd)
=>         self.f ~ self.l, self.f = l, lambda x: l(x)

a buffer assigned in forward | Net), its buffer avg | self.avg = self.avg.to("cuda:0") after the line in Net.run | ! before it is called
class Net(Holder):
    def build(self): self.register_buffer("avg", torch.zeros(8))
    def run(self, x):
        self.avg = torch.zeros(8) + 0.9
        return x - self.avg
Net().to(d)(xd)
=>         self.avg ~ self.avg = torch.zeros(8) + 0.9; self.avg = self.avg.to("cuda:0")

a hidden state kept between calls | Input and hidden tensors are not at the same device | self.h = self.h.to("cuda:0") in Net.run before it is used
class Net(Holder):
    def build(self): self.r, self.h = nn.GRU(8, 8), torch.zeros(1, 3, 8)
    def run(self, x):
        y, self.h = self.r(x, self.h)
        return y
Net().to(d)(xd)
=>         y, self.h ~ self.h = self.h.to("cuda:0"); y, self.h = self.r(x, self.h)

an input that the module keeps: it is no attribute to register | net.l (Linear), its parameter weight | inp = inp.to("cuda:0") | ! register_buffer
class Net(Holder):
    def build(self): self.l = nn.Linear(8, 8)
    def run(self, x):
        self.last = x
        return self.l(x)
net, inp = Net().to(d), torch.ones(2, 8)
net(inp)
=> net(inp) ~ inp = inp.to("cuda:0"); net(inp)

hidden states of an LSTM | found input tensor at cuda:0 and hidden tensor at cpu | hx is a float32 tensor of shape [1, 2, 8] on cpu | h0 = h0.to("cuda:0")
class Net(Holder):
    def build(self): self.rnn = nn.LSTM(8, 8, batch_first=True)
    def run(self, x):
        h0, c0 = torch.zeros(1, x.size(0), 8), torch.zeros(1, x.size(0), 8, device=x.device)
        return self.rnn(x, (h0, c0))
Net().to(d)(xd)
=>         return ~ h0 = h0.to("cuda:0"); return self.rnn(x, (h0, c0))

one of two hidden states | cx is a float32 tensor of shape [1, 2, 8] on cpu | c0 = c0.to("cuda:0") | ! h0 = h0
rnn, c0 = nn.LSTM(8, 8, batch_first=True).to(d), torch.zeros(1, 2, 8)
rnn(xd, (torch.zeros(1, 2, 8, device=d), c0))
=> rnn(xd ~ c0 = c0.to("cuda:0"); rnn(xd, (torch.zeros(1, 2, 8, device=d), c0))

the state of a cell | cell (GRUCell), its parameter weight_ih | h = h.to("cuda:0")
cell, h = nn.GRUCell(8, 8).to(d), torch.zeros(2, 8)
for t in range(3): h = cell(xd[:, t], h)
=> cell, h ~ cell, h = nn.GRUCell(8, 8).to(d), torch.zeros(2, 8); h = h.to("cuda:0")

a packed sequence | found input tensor at cpu and parameter tensor at cuda:0
packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True)
nn.LSTM(8, 8, batch_first=True).to(d)(packed)
=> packed = ~ packed = nn.utils.rnn.pack_padded_sequence(x.to("cuda:0"), torch.tensor([3, 2]), batch_first=True)

attention's mask | got attn_mask is on cpu | attn_mask is a bool tensor of shape [3, 3] on cpu | mask = mask.to("cuda:0")
mask = torch.triu(torch.ones(3, 3), 1).bool()
nn.MultiheadAttention(8, 2, batch_first=True).to(d)(xd, xd, xd, attn_mask=mask)
=> mask ~ mask = torch.triu(torch.ones(3, 3), 1).bool().to("cuda:0")

attention's padding | got key_padding_mask is on cpu | pad = pad.to("cuda:0")
pad = torch.zeros(2, 3).bool()
nn.MultiheadAttention(8, 2, batch_first=True).to(d)(xd, xd, xd, key_padding_mask=pad)
=> pad ~ pad = torch.zeros(2, 3).bool().to("cuda:0")

a bool mask of a transformer layer | attn_mask is a bool tensor of shape [3, 3] on cpu | mask = mask.to("cuda:0")
mask = torch.triu(torch.ones(3, 3), 1).bool()
nn.TransformerEncoderLayer(8, 2, batch_first=True).to(d)(xd, src_mask=mask)
=> mask ~ mask = torch.triu(torch.ones(3, 3), 1).bool().to("cuda:0")

padding of an encoder | key_padding_mask is a bool tensor of shape [2, 3] on cpu | padding = padding.to("cuda:0")
padding = torch.tensor([[1, 2, 0], [1, 2, 3]]) == 0
nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 2).to(d)(xd, src_key_padding_mask=padding)
=> padding ~ padding = (torch.tensor([[1, 2, 0], [1, 2, 3]]) == 0).to("cuda:0")

a generated mask | write .to("cuda:0") after the tensor that is given as attn_mask
net = nn.Transformer(8, 2, 1, 1, batch_first=True).to(d)
net(xd, xd, tgt_mask=net.generate_square_subsequent_mask(3))
=> net(xd ~ net(xd, xd, tgt_mask=net.generate_square_subsequent_mask(3).to("cuda:0"))

class weights | weight is a float32 tensor of shape [4] on cpu: criterion (CrossEntropyLoss), its buffer weight | criterion.to("cuda:0")
criterion = nn.CrossEntropyLoss(weight=torch.ones(4))
criterion(md, labels.to(d))
=> criterion = ~ criterion = nn.CrossEntropyLoss(weight=torch.ones(4)).to("cuda:0")

class weights of an unnamed loss | CrossEntropyLoss(...).to("cuda:0") | ! model.to
nn.CrossEntropyLoss(weight=torch.ones(4))(md, labels.to(d))
=> nn.Cross ~ nn.CrossEntropyLoss(weight=torch.ones(4)).to("cuda:0")(md, labels.to(d))

pos_weight | pos_weight is a float32 tensor of shape [4] on cpu | loss.to("cuda:0")
loss = nn.BCEWithLogitsLoss(pos_weight=torch.ones(4))
loss(md, torch.ones(2, 4, device=d))
=> loss = ~ loss = nn.BCEWithLogitsLoss(pos_weight=torch.ones(4)).to("cuda:0")

a loss given to a module's method | criterion.to("cuda:0") before it is called | ! plain list
class Net(Holder):
    def build(self): self.l = nn.Linear(4, 4)
    def run(self, x, y, criterion): return criterion(self.l(x), y)
criterion = nn.CrossEntropyLoss(weight=torch.ones(4))
Net().to(d).run(md, labels.to(d), criterion)
=> criterion = ~ criterion = nn.CrossEntropyLoss(weight=torch.ones(4)).to("cuda:0")

a teacher's output | write .to("cuda:0") after the tensor that is given as target
F.kl_div(F.log_softmax(md, 1), F.softmax(m, 1))
=> F.kl ~ F.kl_div(F.log_softmax(md, 1), F.softmax(m, 1).to("cuda:0"))

labels in a dict | target is an int64 tensor of shape [2] on cpu | batch = facula.to_device(batch, "cuda:0"), which moves every tensor in it
import facula
def step(batch):
    F.cross_entropy(net(batch["x"].to(d)), batch["y"])
net = nn.Linear(4, 4).to(d)
step({"x": torch.ones(2, 4), "y": torch.tensor([0, 1])})
=> def step ~ def step(batch): batch = facula.to_device(batch, "cuda:0"); F.cross_entropy(net(batch["x"].to(d)), batch["y"])
=>     F.cross ~ 

labels in a tuple | batch = facula.to_device(batch, "cuda:0")
import facula
batch = (torch.ones(2, 4), torch.tensor([0, 1]))
F.cross_entropy(nn.Linear(4, 4).to(d)(batch[0].to(d)), batch[1])
=> batch ~ batch = facula.to_device((torch.ones(2, 4), torch.tensor([0, 1])), "cuda:0")

the model of a trainer | self.model (Linear), its parameter weight | self.model.to("cuda:0")
class Trainer:
    def __init__(self): self.model = nn.Linear(4, 4)
    def step(self, batch): return self.model(batch)
Trainer().step(md)
=>     def __init__ ~ def __init__(self): self.model = nn.Linear(4, 4); self.model.to("cuda:0")

the tensors of a trainer | self.h = self.h.to("cuda:0")
class Trainer:
    def __init__(self): self.h = torch.zeros(2, 4)
    def step(self, batch): return batch + self.h
Trainer().step(md)
=>     def __init__ ~ def __init__(self): self.h = torch.zeros(2, 4); self.h = self.h.to("cuda:0")

a new head after the move | net.1 (Linear), its parameter weight | net.to("cuda:0")
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to(d)
net[1] = nn.Linear(4, 2)
net(md)
=> net(md) ~ net.to("cuda:0"); net(md)

a model on another device | weight is a float32 tensor of shape [4, 4] on cuda:1: net (Linear) | net.to("cuda:0")
net = nn.Linear(4, 4).to("cuda:1")
net(md)
=> net(md) ~ net.to("cuda:0"); net(md)

DataParallel of a model on the CPU | module must have its parameters and buffers on device cuda:0 | model.to('cuda:0')
model = nn.DataParallel(nn.Linear(4, 4))
model(md)
=> model(md) ~ model.to('cuda:0'); model(md)

a sum of losses kept in a CPU tensor | found at least two devices, cuda:0 and cpu! | input is a float32 tensor of shape [] on cpu | total = total.to("cuda:0")
total = torch.tensor(0.)
for _ in range(3): total += md.sum()
=> total ~ total = torch.tensor(0.).to("cuda:0")

the same by a method | found at least two devices, cuda:0 and cpu! | best = best.to("cuda:0")
best = torch.tensor(0.)
best.clamp_(min=md.max())
=> best = ~ best = torch.tensor(0.).to("cuda:0")

a flag | found at least two devices, cuda:0 and cpu! | fine = fine.to("cuda:0")
fine = torch.tensor(True)
fine &= (md > 0).all()
=> fine = ~ fine = torch.tensor(True).to("cuda:0")

out elsewhere | found at least two devices, cuda:0 and cpu! | out is a float32 tensor of shape [2, 4] on cpu | buf = buf.to("cuda:0")
buf = torch.empty(2, 4)
torch.mul(md, 2, out=buf)
=> buf ~ buf = torch.empty(2, 4).to("cuda:0")

out of a product | out is a float32 tensor of shape [2, 2] on cpu | buf = buf.to("cuda:0")
buf = torch.empty(2, 2)
torch.mm(md, md.t(), out=buf)
=> buf ~ buf = torch.empty(2, 2).to("cuda:0")

counts of a metric | correct = correct.to("cuda:0")
correct = torch.zeros(1)
correct += (md.argmax(1) == labels.to(d)).sum()
=> correct ~ correct = torch.zeros(1).to("cuda:0")

accuracy | other is an int64 tensor of shape [2] on cpu | labels = labels.to("cuda:0")
accuracy = (md.argmax(1) == labels).float().mean()
=> accuracy ~ labels = labels.to("cuda:0"); accuracy = (md.argmax(1) == labels).float().mean()

noise | write .to("cuda:0") after the tensor that is given as other
noisy = md + torch.randn(md.shape)
=> noisy ~ noisy = md + torch.randn(md.shape).to("cuda:0")

a bound | min is a float32 tensor of shape [4] on cpu | low = low.to("cuda:0")
low = torch.zeros(4)
md.clamp(min=low)
=> low ~ low = torch.zeros(4).to("cuda:0")

an upper bound | max is a float32 tensor of shape [4] on cpu | high = high.to("cuda:0") | ! min is
high = torch.ones(4)
md.clamp(max=high)
=> high ~ high = torch.ones(4).to("cuda:0")

membership | got test_elements is on cpu | labels = labels.to("cuda:0")
torch.isin(labels.to(d), labels)
=> torch ~ labels = labels.to("cuda:0"); torch.isin(labels.to(d), labels)

similarity | got x2 is on cpu | m = m.to("cuda:0")
F.cosine_similarity(md, m)
=> F.cos ~ m = m.to("cuda:0"); F.cosine_similarity(md, m)

added by index | got source is on cpu
md.index_add_(0, labels.to(d), torch.ones(2, 4))
=> md ~ md.index_add_(0, labels.to(d), torch.ones(2, 4).to("cuda:0"))

a mask on the device for a tensor of the CPU | indices should be either on cpu or on the same device as the indexed tensor (cpu) | .to('cpu')
index = md > 0
m[index]
=> index ~ index = (md > 0).to('cpu')

zeros joined in forward | tensors[1] is a float32 tensor of shape [2, 1] on cpu | write .to("cuda:0") after the tensor that is given as tensors[1]
class Pad(Holder):
    def build(self): pass
    def run(self, x): return torch.cat([x, torch.zeros(x.size(0), 1)], 1)
nn.Sequential(nn.Linear(4, 4), Pad()).to(d)(md)
=>     def run ~ def run(self, x): return torch.cat([x, torch.zeros(x.size(0), 1).to("cuda:0")], 1)

predictions of two devices | preds = facula.to_device(preds, "cuda:0")
import facula
preds = [torch.ones(2, device=d)]
preds.append(torch.ones(2))
torch.cat(preds)
=> torch ~ preds = facula.to_device(preds, "cuda:0"); torch.cat(preds)

a custom backward | Function ScaleBackward returned an invalid gradient at index 0 - expected device cuda:0 but got cpu | gradient.to(input.device)
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g):
        return torch.ones(4)
p = torch.ones(4, device=d, requires_grad=True)
Scale.apply(p).sum().backward()
=>         return ~ return torch.ones(4).to(g.device)

a hook | a gradient hook has changed the device of value (was cuda:0, got cpu)
p = torch.ones(4, device=d, requires_grad=True)
p.register_hook(lambda g: g.cpu())
p.sum().backward()
=> p.reg ~ p.register_hook(lambda g: g * 2)

a generator | Expected a 'cuda' device type for generator but found 'cpu' | facula.Generator(device) with the tensor's device, or leave generator= out
g = torch.Generator()
torch.randn(2, device=d, generator=g)
=> g = ~ g = torch.Generator(d)

numbers on the CPU may meet a device: nothing to say | ok
two = torch.tensor(2.)
xd * two, two * xd, xd == two, torch.where(xd > 0, two, xd), xd.clamp(min=two), xd.masked_fill(xd > 0, two), torch.lerp(xd, xd, two), torch.pow(two, xd)
xd[0] = two
xd[xd > 1] = two
xd[labels] = two
xd[torch.arange(2), labels] += two
total = torch.tensor(0., device=d)
total += two
assert F.mse_loss(total, two).device.type == F.l1_loss(two, total).device.type == F.huber_loss(total, two).device.type == "cuda"
w = torch.tensor(2., requires_grad=True)
(xd * w).sum().backward()
assert w.grad.device.type == "cpu"
p = torch.ones((), device=d, requires_grad=True)
F.mse_loss(p, w).backward()
assert p.grad.item() == -2 and w.grad.device.type == "cpu"

indices of the CPU serve everywhere | ok
xd[labels], xd[torch.arange(2), labels], xd[:, torch.tensor([True, False, True])]
xd.copy_(x), x.copy_(xd), xd[0].copy_(x[0])
m[0] = md[0]

optimizers and schedulers made before the move, states of other devices | ok
net = nn.Linear(4, 4)
opt = torch.optim.Adam(net.parameters())
plan = torch.optim.lr_scheduler.StepLR(opt, 1)
net(m).sum().backward(), opt.step()
net.to(d), opt.zero_grad(), net(md).sum().backward(), opt.step(), plan.step()
other = nn.Linear(4, 4)
other.load_state_dict(net.state_dict())
second = torch.optim.Adam(other.parameters())
second.load_state_dict(opt.state_dict())
assert other.weight.device == second.state[other.weight]["exp_avg"].device == torch.device("cpu")
other(m).sum().backward(), second.step()

a loader shuffles on the CPU whatever the default device is | ok
from facula.utils.data import TensorDataset, random_split, SubsetRandomSampler
torch.set_default_device("cuda:1")
try:
    rows = TensorDataset(torch.arange(6.))
    assert sorted(v for b, in DataLoader(rows, batch_size=2, shuffle=True) for v in b.tolist()) == [0, 1, 2, 3, 4, 5]
    assert [len(part) for part in random_split(rows, [4, 2])] == [4, 2] and sorted(SubsetRandomSampler([3, 5])) == [3, 5]
finally:
    torch.set_default_device("cpu")

devices chosen too late are told of once, and devices chosen in time not at all | ok
import os, warnings
def told():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert torch.cuda.device_count() == 2
    return [str(w.message) for w in seen]
assert told() == []
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
first, second = told(), told()
del os.environ["CUDA_VISIBLE_DEVICES"]
assert len(first) == 1 and "CUDA_VISIBLE_DEVICES was changed to '1' after the devices had been opened with '': it is read once" in first[0] and second == [], (first, second)

confusion matrices by elements of device tensors | ok
counts = torch.zeros(4, 4, dtype=torch.int64)
for a, b in zip(md.argmax(1), labels): counts[a, b] += 1
assert counts.sum() == 2
'''


def cases():
    for block in CASES.strip().split("\n\n"):
        head, *lines = block.splitlines()
        name, *words = head.split(" | ")
        yield name, words, [line for line in lines if not line.startswith("=>")], [line[3:] for line in lines if line.startswith("=>")]


def mended(lines, cures):
    lines = list(lines)
    for cure in cures:
        start, _, new = cure.partition(" ~ ") if " ~ " in cure else cure.partition(" ~")
        at = [i for i, line in enumerate(lines) if line.startswith(start)]
        assert at, (start, lines)
        lines[at[-1]] = (len(start) - len(start.lstrip())) * " " + new
    return lines


def outcome(lines):
    try:
        exec(compile(HEAD + "\n".join(lines), "program.py", "exec"), {"__name__": "__main__"})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


def main():
    bad = []
    for name, words, lines, cures in cases():
        found = outcome(lines)
        if words == ["ok"]:
            if found != "ok":
                bad.append(f"{name}: {found}")
            continue
        if found == "ok" or "Expected all" in found and "RuntimeError: " not in found:
            bad.append(f"{name}: {found}")
        bad += [f"{name}: '{w}' is {'not ' * (w[:2] != '! ')}in: {found}" for w in words if (w[:2] == "! ") == (w.removeprefix("! ") in found)]
        after = outcome(mended(lines, cures))
        if not cures or after != "ok":
            bad.append(f"{name}: mended as told, and {after}")
    print("\n\n".join(bad))
    sys.exit(bool(bad))


class Kinds(unittest.TestCase):
    def test_kinds(self):
        done = subprocess.run([sys.executable, "-B", "-W", "ignore", os.path.abspath(__file__), "kinds"], env={**{k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}, "FACULA_SIM": "cuda:2"},
                              capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    main() if sys.argv[1:] == ["kinds"] else unittest.main()
