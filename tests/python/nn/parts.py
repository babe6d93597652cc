"""nn.init, nn.utils, hooks, patched and replaced parts. parts.expected is what PyTorch prints."""
import torch, copy, warnings, math
from torch import nn
import torch.nn.functional as F


def e(n, f):
    try:
        print(n, "OK", f())
    except BaseException as x:
        print(n, type(x).__name__, str(x).split("\n\n")[0])


def r(t):
    return [round(v, 4) + 0.0 for v in t.detach().double().flatten().tolist()][:8]


# init
for n, a in [
    ("uniform_", ()),
    ("normal_", ()),
    ("trunc_normal_", ()),
    ("constant_", (3,)),
    ("ones_", ()),
    ("zeros_", ()),
    ("eye_", ()),
    ("xavier_uniform_", ()),
    ("xavier_normal_", ()),
    ("kaiming_uniform_", ()),
    ("kaiming_normal_", ()),
    ("orthogonal_", ()),
    ("sparse_", (0.3,)),
]:

    def f(n=n, a=a):
        torch.manual_seed(3)
        return r(getattr(nn.init, n)(torch.empty(5, 4), *a))

    e(n, f)
e("dirac", lambda: r(nn.init.dirac_(torch.empty(3, 2, 3))))
e("orth2", lambda: (torch.manual_seed(0), r(nn.init.orthogonal_(torch.empty(3, 5), gain=2)))[1])
e("gain", lambda: nn.init.calculate_gain("leaky_relu", 0.2))
e("gain", lambda: nn.init.calculate_gain("foo"))
e("fan", lambda: nn.init.xavier_uniform_(torch.empty(3)))
e("p", lambda: nn.init.normal_(nn.Parameter(torch.empty(2))).requires_grad)
# utils
torch.manual_seed(0)
m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
x = torch.randn(5, 3)
m(x).sum().backward()
e("clip", lambda: r(nn.utils.clip_grad_norm_(m.parameters(), 1.0)))
e("g", lambda: r(m[0].weight.grad))
e("clipv", lambda: nn.utils.clip_grad_value_(m.parameters(), 0.01))
e("g", lambda: r(m[0].weight.grad))
e("inf", lambda: r(nn.utils.clip_grad_norm_(m.parameters(), 1.0, norm_type=math.inf)))
v = nn.utils.parameters_to_vector(m.parameters())
print(v.shape)
nn.utils.vector_to_parameters(v * 0 + 1, m.parameters())
print(r(m[0].weight))
m.zero_grad()
print(m[0].weight.grad)
m(x).sum().backward()
m.zero_grad(set_to_none=False)
print(r(m[0].weight.grad))


def wn():
    torch.manual_seed(0)
    l = nn.utils.weight_norm(nn.Linear(3, 2))
    y = l(x)
    y.sum().backward()
    o = [sorted(k for k, _ in l.named_parameters()), r(y), r(l.weight_g.grad), r(l.weight_v.grad)]
    nn.utils.remove_weight_norm(l)
    return o, r(l(x)), sorted(k for k, _ in l.named_parameters())


e("weight_norm", wn)


def wn2():
    torch.manual_seed(0)
    l = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    y = l(x)
    y.sum().backward()
    return list(l.state_dict()), r(y), r(l.parametrizations.weight.original0.grad), str(l)


e("pweight_norm", wn2)


def sn():
    torch.manual_seed(0)
    l = nn.utils.spectral_norm(nn.Linear(3, 2))
    y = l(x)
    return list(l.state_dict()), r(y)


e("spectral", sn)


def sn2():
    torch.manual_seed(0)
    l = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
    y = l(x)
    return list(l.state_dict()), r(y)


e("pspectral", sn2)


class Sym(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).t()


def par():
    torch.manual_seed(0)
    l = nn.Linear(3, 3)
    nn.utils.parametrize.register_parametrization(l, "weight", Sym())
    a = torch.allclose(l.weight, l.weight.t())
    y = r(l(x))
    n = type(l).__name__
    nn.utils.parametrize.remove_parametrizations(l, "weight")
    return a, y, n, type(l).__name__, r(l(x)), sorted(k for k, _ in l.named_parameters())


e("parametrize", par)
# hooks
log = []
m = nn.Linear(3, 2)
m.register_full_backward_hook(
    lambda mod, gi, go: log.append(("b", [None if g is None else list(g.shape) for g in gi], [list(g.shape) for g in go]))
)
m.register_full_backward_pre_hook(lambda mod, go: log.append(("p", [list(g.shape) for g in go])))
xx = x.clone().requires_grad_()
m(xx).sum().backward()
print(log, xx.grad.shape)
log.clear()
with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter("always")
    m(x).sum().backward()
    print(log, [str(i.message)[:80] for i in w])
m2 = nn.Linear(3, 2)
m2.register_full_backward_hook(lambda mod, gi, go: (gi[0] * 2,))
xa = x.clone().requires_grad_()
m2(xa).sum().backward()
xb = x.clone().requires_grad_()
F.linear(xb, m2.weight, m2.bias).sum().backward()
print(torch.allclose(xa.grad, 2 * xb.grad))
calls = []
h = nn.modules.module.register_module_forward_hook(lambda mod, i, o: calls.append(type(mod).__name__))
nn.Sequential(nn.Linear(3, 2), nn.ReLU())(x)
print(calls)
h.remove()
nn.Linear(3, 2)(x)
print(calls)
f = nn.ReLU()
order = []
f.register_forward_hook(lambda *a: order.append(1))
f.register_forward_hook(lambda *a: order.append(2), prepend=True)
f(x)
print(order)
g = nn.Linear(3, 2)
g.register_forward_hook(lambda m, i, o: order.append("always"), always_call=True)
e("always", lambda: g(torch.ones(2, 7)))
print(order)
s = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
s[1].register_forward_hook(lambda m, i, o: o * 0)
print(r(s(x)))
s = nn.Linear(2, 2)
s._register_state_dict_hook(lambda m, sd, p, l: sd.update(extra=1))
print(list(s.state_dict()))
s.register_load_state_dict_pre_hook(lambda m, sd, *a: sd.pop("extra", None))
e("", lambda: s.load_state_dict(s.state_dict()))
s.register_load_state_dict_post_hook(lambda m, k: print("post", k))
s.load_state_dict(s.state_dict())


# class patches, instance forward
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)

    def forward(self, x, scale=1):
        return self.a(x) * scale


n = Net()
print(torch.equal(n(x, scale=2), 2 * n(x)), torch.equal(n(x=x), n(x)))
n.forward = lambda x: 5
print(n(x))
del n.forward
print(n(x).shape)
Net.forward = lambda self, x: 7
print(n(x))


class L2(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


l = L2(3, 2)
print(torch.allclose(l(x), F.linear(x, l.weight, l.bias) + 1))


class L3(nn.Linear):
    def __init__(self):
        super().__init__(3, 2)
        self.scale = nn.Parameter(torch.ones(1) * 3)

    def forward(self, x):
        return F.linear(x, self.weight * self.scale, self.bias)


l = L3()
print([k for k, _ in l.named_parameters()], copy.deepcopy(l)(x).shape, l)


class P(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Linear(1, 1)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.m, name)


p = P()
print(p.in_features, p.weight.shape)
e("", lambda: p.zzz)


class Q(nn.Module):
    @property
    def dev(self):
        return next(self.parameters()).device

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(1, 1)

    def __call__(self, *a):
        return "own", super().__call__(*a)

    def forward(self, x):
        return 3


print(Q().dev, Q()(1))
e("lam", lambda: nn.Sequential(nn.Linear(3, 2), nn.LSTM(2, 2))(torch.ones(2, 1, 3))[0].shape)
print(nn.Buffer(torch.ones(1)), isinstance(nn.Buffer(torch.ones(1)), nn.Buffer))


class Bf(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Buffer(torch.ones(2))
        self.c = nn.Buffer(torch.ones(1), persistent=False)


print(list(Bf().state_dict()), [k for k, _ in Bf().named_buffers()])
seq = nn.Sequential(nn.Linear(2, 2))
seq.add_module("act", nn.ReLU())
print(seq, seq.act)
seq.register_module("z", nn.Tanh())
print(list(seq._modules.keys()), seq._modules["act"])
seq._modules["act"] = nn.Sigmoid()
print(seq.act, seq[1])
seq._modules.pop("z")
print(len(seq))
del seq._modules["act"]
e("", lambda: seq.act)
for name, mod in list(seq.named_modules()):
    for k, c in mod.named_children():
        setattr(mod, k, nn.Identity())
print(seq, seq(x) is x)
w = nn.Linear(3, 2)
w.weight.requires_grad = False
print([p.requires_grad for p in w.parameters()])
w.weight = nn.Parameter(torch.ones(4, 3))
w.bias = None
print(w(x).shape, w)
del w.bias
e("nobias", lambda: w(x))
w.bias = nn.Parameter(torch.zeros(4))
print(w(x).shape)
w.register_parameter("bias", None)
print(w(x).shape)
c = nn.Conv2d(1, 1, 3)
c.padding = (1, 1)
print(c(torch.ones(1, 1, 4, 4)).shape)
c.stride = 2
print(c(torch.ones(1, 1, 4, 4)).shape)
b = nn.BatchNorm1d(2)
b.momentum = 0.5
b.eps = 1
b(torch.ones(3, 2))
print(b.running_mean, b.num_batches_tracked)
b.track_running_stats
d = nn.Dropout(0.5)
d.eval()
print(torch.equal(d(x), x))
d.train()
d.p = 1.0
print(r(d(x)))
print(
    F.relu_(torch.tensor([-1.0, 2.0])),
    F.max_pool1d_with_indices(torch.arange(4.0).view(1, 1, 4), 2)[1] if hasattr(F, "max_pool1d_with_indices") else "",
    F.normalize(torch.ones(1, 4)),
    F.one_hot(torch.tensor([1, 0])),
)
e("dp", lambda: nn.DataParallel(nn.Linear(3, 2))(x).shape)
