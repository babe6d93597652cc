"""The rules of modules: registration, attributes, walks, state dicts, copies, containers. modules.expected is what PyTorch prints."""
import torch, copy, pickle, gc
from torch import nn
from collections import OrderedDict


def e(f):
    try:
        print("OK", f())
    except BaseException as x:
        print(type(x).__name__, str(x).split("\n\n")[0])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 3)
        self.act = nn.ReLU()
        self.fc2 = nn.Linear(3, 1)
        self.register_buffer("b1", torch.zeros(2))
        self.register_buffer("b2", torch.ones(1), persistent=False)
        self.w = nn.Parameter(torch.ones(2))
        self.n = None

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


torch.manual_seed(0)
n = Net()
print(n)
print([k for k, _ in n.named_parameters()])
print([k for k, _ in n.named_buffers()])
print([k for k, _ in n.named_modules()])
print([k for k, _ in n.named_children()])
print(list(n.state_dict()))
print(dict(n.state_dict()._metadata))
print(n(torch.ones(1, 2)))
e(lambda: setattr(n, "w", torch.ones(1)))
e(lambda: setattr(n, "w", 1))
e(lambda: setattr(n, "b1", 1))
e(lambda: setattr(n, "fc1", 5))
e(lambda: setattr(n.fc1, "weight", torch.ones(1)))
e(lambda: n.foo)
e(lambda: n.register_parameter("a.b", None))
e(lambda: n.register_parameter("", None))
e(lambda: n.register_parameter("forward", None))
e(lambda: n.register_parameter("q", torch.ones(1)))
e(lambda: n.register_buffer("q", 1))
e(lambda: n.register_buffer("a.b", None))
e(lambda: n.register_buffer("fc1", None))
e(lambda: n.add_module("a", 1))
e(lambda: n.add_module("y.z", nn.ReLU()))
e(lambda: n.add_module("", nn.ReLU()))
e(lambda: n.add_module("w", nn.ReLU()))
e(lambda: n.add_module(1, nn.ReLU()))
e(lambda: n.register_parameter(1, None))
e(lambda: n.register_parameter("z", nn.Parameter(torch.ones(1)) * 2))


class A(nn.Module):
    pass


class B(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(1, 1)


class C(nn.Module):
    def __init__(self):
        self.w = nn.Parameter(torch.ones(1))


class D(nn.Module):
    def __init__(self):
        self.x = 5
        self.t = torch.ones(2)
        super().__init__()


e(lambda: A()(1))
e(lambda: B())
e(lambda: C())
e(lambda: D().x)
e(lambda: A(5))
e(lambda: A(foo=5))
e(lambda: nn.Linear(1, 2)(torch.ones(1), 2))
e(lambda: nn.Linear(1))
e(lambda: nn.Linear(1, 2, 3, 4, 5, 6, 7))
e(lambda: nn.Linear(1, 2, foo=3))
e(lambda: nn.Linear(2, 3)(torch.ones(1, 4)))
e(lambda: nn.Linear(2, 3)(5))
e(lambda: nn.Linear(2, 3)())
e(lambda: n.train(1))
e(lambda: n.eval().training)
e(lambda: n.fc1.training)
e(lambda: n.train().fc1.training)
s = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
e(lambda: s[5])
e(lambda: s["a"])
e(lambda: s[0:2])
e(lambda: s[-1])
e(lambda: nn.Sequential(OrderedDict([("a", nn.ReLU()), ("b", nn.Tanh())])))
e(lambda: len(s))
e(lambda: s.append(nn.ReLU()))
e(lambda: s.insert(1, nn.Tanh()))
del s[0]
print(s)
e(lambda: s + nn.Sequential(nn.ReLU()))
e(lambda: nn.Sequential(1))
m = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
sd = m.state_dict()
sd.pop("0.weight")
sd.pop("0.bias")
sd["zz"] = torch.ones(1)
sd["1.bias"] = torch.ones(3)
e(lambda: m.load_state_dict(sd))
e(lambda: m.load_state_dict(sd, strict=False))
e(lambda: m.load_state_dict(m.state_dict()))
e(lambda: m.load_state_dict([]))
e(lambda: m.load_state_dict({"0.weight": 3}, strict=False))
sd = m.state_dict()
sd.pop("0.weight")
e(lambda: m.load_state_dict(sd, strict=False))
l = nn.Linear(2, 2)
t = nn.Sequential(l, l)
print(
    len(list(t.parameters())),
    len(list(t.named_parameters())),
    list(t.state_dict()),
    [k for k, _ in t.named_parameters(remove_duplicate=False)],
    len(list(t.modules())),
    len(list(t.children())),
    len(t),
)
c = copy.deepcopy(n)
print(type(c.w), c.w is n.w, c, torch.equal(c.fc1.weight, n.fc1.weight))
p = pickle.loads(pickle.dumps(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.3))))
print(p)
print(n.get_submodule("fc1"), n.get_parameter("fc1.weight").shape, n.get_buffer("b1"))
e(lambda: m.get_submodule("7"))
e(lambda: n.get_parameter("fc1"))
e(lambda: n.get_buffer("w"))
order = []
n.apply(lambda m: order.append(type(m).__name__))
print(order)
print(n.zero_grad(), n.requires_grad_(False) is n, n.w.requires_grad)
del n.fc1
print(n)
n.act = None
print(n)
e(lambda: n(torch.ones(1, 2)))
print(n._modules, list(n._parameters), "__call__" in dir(n), "fc2" in dir(n))
e(lambda: {n: 1}[n])
e(lambda: nn.Parameter([1.0]))
print(nn.Parameter(torch.ones(2)))
d = Net().double()
print({k: v.dtype for k, v in d.state_dict().items()})
e(lambda: d.to(torch.int32))
e(lambda: d.to(torch.float16).w.dtype)
e(lambda: d.to("cpu", torch.float32).w.dtype)
e(lambda: d.to("foo"))
b = nn.BatchNorm1d(2)
sd = b.state_dict()
e(lambda: b.load_state_dict(dict(sd)))
sd.pop("num_batches_tracked")
e(lambda: b.load_state_dict(dict(sd)))
e(lambda: b.load_state_dict(sd))
print(b.double().num_batches_tracked.dtype)
x = torch.ones(3, 2)
hooks = []
f = nn.Linear(2, 2)
h1 = f.register_forward_pre_hook(lambda m, a: (a[0] * 2,))
h2 = f.register_forward_hook(lambda m, a, o: (hooks.append((a[0].shape, o.shape)), o + 1)[1])
y = f(x)
print(torch.allclose(y, f.forward(x * 2) + 1), hooks)
h1.remove()
h2.remove()
print(torch.equal(f(x), f.forward(x)))
f.register_forward_hook(lambda m, a, k, o: print("kw", len(a), list(k)), with_kwargs=True)
f(input=x)
f(x)
ml = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1)])
ml.append(nn.ReLU())
ml.extend([nn.ReLU()])
ml.insert(0, nn.Tanh())
print(ml, len(ml), ml[1:3], ml[-1])
e(lambda: ml[9])
e(lambda: ml(1))
e(lambda: nn.ModuleList(5))
md = nn.ModuleDict({"a": nn.ReLU()})
md["b"] = nn.Tanh()
print(md, list(md), "a" in md, list(md.items()))
e(lambda: md["z"])
del md["a"]
print(md)
pl = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(3))])
print(len(pl), pl[0], list(pl.state_dict()), [k for k, _ in pl.named_parameters()])
print(pl)
pd = nn.ParameterDict({"a": torch.ones(2)})
print(pd, list(pd.keys()), pd["a"])
print(
    nn.Module.__name__,
    nn.Linear.__module__,
    nn.Conv2d.__module__,
    nn.MSELoss.__module__,
    nn.Sequential.__module__,
    nn.Parameter.__module__,
)
lin = nn.Linear(2, 3)
print(lin.in_features, lin.out_features, lin.bias.shape)
cv = nn.Conv2d(1, 2, 3, padding=1)
print(
    cv.kernel_size,
    cv.stride,
    cv.padding,
    cv.dilation,
    cv.groups,
    cv.padding_mode,
    cv.transposed if hasattr(cv, "transposed") else None,
    cv.output_padding,
)
bn = nn.BatchNorm2d(2)
print(bn.eps, bn.momentum, bn.affine, bn.track_running_stats, bn.num_features)
dr = nn.Dropout(0.3)
dr.p = 0.0
print(dr, torch.equal(dr(x), x))
print(nn.Conv2d(1, 2, 3, bias=False).bias, nn.Linear(2, 2, bias=False))
print(nn.Linear(2, 3, dtype=torch.float64, device="cpu").weight.dtype)
torch.manual_seed(1)
print(nn.Linear(2, 3, dtype=torch.float64).weight)
print(nn.Embedding(3, 2).weight, nn.Conv1d(1, 2, 2).weight)
