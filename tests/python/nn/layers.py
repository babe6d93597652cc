"""What layers, losses and networks compute. layers.expected is what PyTorch prints."""
import torch, copy, pickle
from torch import nn
import torch.nn.functional as F

torch.set_printoptions(precision=4)


def e(n, f):
    try:
        print(n, "OK", f())
    except BaseException as x:
        print(n, type(x).__name__, str(x).split("\n\n")[0])


def r(t):
    return [round(v, 4) + 0.0 for v in t.detach().double().flatten().tolist()][:8]


def mod(n, make, *xs):
    def f():
        torch.manual_seed(0)
        m = make()
        ys = m(*[x.clone() if isinstance(x, torch.Tensor) else x for x in xs])
        flat = []

        def go(y):
            if isinstance(y, torch.Tensor):
                flat.append((list(y.shape), r(y)))
            elif isinstance(y, (tuple, list)):
                [go(i) for i in y]
            else:
                flat.append(y)

        go(ys)
        return flat

    e(n, f)


torch.manual_seed(1)
x1 = torch.randn(2, 4)
x2 = torch.randn(2, 4, 6)
x3 = torch.randn(2, 4, 6, 6)
x4 = torch.randn(2, 4, 4, 4, 4)
for n in [
    "ReLU",
    "ReLU6",
    "LeakyReLU",
    "ELU",
    "SELU",
    "CELU",
    "GELU",
    "SiLU",
    "Mish",
    "Sigmoid",
    "Tanh",
    "Softplus",
    "Hardtanh",
    "Hardsigmoid",
    "Hardswish",
    "Hardshrink",
    "Softshrink",
    "LogSigmoid",
    "Softsign",
    "Tanhshrink",
    "RReLU",
    "PReLU",
    "Identity",
    "Flatten",
    "GLU",
    "Dropout",
    "AlphaDropout",
]:
    mod(n, getattr(nn, n), x1)
    if n in ("ReLU", "LeakyReLU", "ELU", "SELU", "CELU", "SiLU", "Mish", "Hardtanh", "Dropout", "RReLU", "Hardswish"):

        def f(n=n):
            torch.manual_seed(0)
            z = x1.clone()
            y = getattr(nn, n)(inplace=True)(z)
            return y is z, r(z)

        e(n + " in", f)
for n in ["Softmax", "LogSoftmax", "Softmin"]:
    mod(n, lambda n=n: getattr(nn, n)(1), x1)
    mod(n, lambda n=n: getattr(nn, n)(), x1)
mod("gelu tanh", lambda: nn.GELU("tanh"), x1)
mod("c1", lambda: nn.Conv1d(4, 2, 3), x2)
mod("c2", lambda: nn.Conv2d(4, 2, 3, stride=2, padding=1), x3)
mod("c3", lambda: nn.Conv3d(4, 2, 2), x4)
mod("c2same", lambda: nn.Conv2d(4, 2, 3, padding="same"), x3)
mod("c2r", lambda: nn.Conv2d(4, 2, 3, padding=1, padding_mode="reflect"), x3)
mod("c2g", lambda: nn.Conv2d(4, 4, 3, groups=2, bias=False), x3)
mod("c2valid", lambda: nn.Conv2d(4, 2, (3, 2), padding="valid"), x3)
mod("ct2", lambda: nn.ConvTranspose2d(4, 2, 3, 2, 1, 1), x3)
mod("ct1", lambda: nn.ConvTranspose1d(4, 2, 3), x2)
mod("ct2o", lambda: (lambda m: (lambda x: m(x, output_size=[12, 12])))(nn.ConvTranspose2d(4, 2, 3, 2, 1)), x3)
for n, x in [("BatchNorm1d", x2), ("BatchNorm2d", x3), ("BatchNorm3d", x4), ("InstanceNorm1d", x2), ("InstanceNorm2d", x3)]:
    mod(n, lambda n=n: getattr(nn, n)(4), x)
    mod(n, lambda n=n: getattr(nn, n)(4, affine=True, track_running_stats=True).eval(), x)
mod("bnNone", lambda: nn.BatchNorm1d(4, momentum=None), x2)
mod("bnbias", lambda: nn.BatchNorm1d(4, bias=False), x2)
mod("bntrack", lambda: nn.BatchNorm1d(4, track_running_stats=False).eval(), x2)
mod("ln", lambda: nn.LayerNorm(4), x1)
mod("ln2", lambda: nn.LayerNorm((4, 6)), x2)
mod("gn", lambda: nn.GroupNorm(2, 4), x3)
mod("rms", lambda: nn.RMSNorm(4), x1)
mod("lrn", lambda: nn.LocalResponseNorm(2), x3)
for n, x in [("MaxPool1d", x2), ("MaxPool2d", x3), ("MaxPool3d", x4), ("AvgPool1d", x2), ("AvgPool2d", x3), ("AvgPool3d", x4)]:
    mod(n, lambda n=n: getattr(nn, n)(2), x)
for n, x in [("MaxPool1d", x2), ("MaxPool2d", x3), ("MaxPool3d", x4)]:
    mod(n, lambda n=n: getattr(nn, n)(2, return_indices=True), x)
mod("mp", lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True), x3)
mod("ap", lambda: nn.AvgPool2d(2, divisor_override=3), x3)
mod("aap", lambda: nn.AdaptiveAvgPool2d((None, 2)), x3)
mod("aap1", lambda: nn.AdaptiveAvgPool2d(1), x3)
mod("amp", lambda: nn.AdaptiveMaxPool2d(2, return_indices=True), x3)
mod("amp1", lambda: nn.AdaptiveMaxPool1d(2), x2)
mod("lp", lambda: nn.LPPool2d(2, 3), x3.abs())


def unp():
    p = nn.MaxPool2d(2, return_indices=True)
    y, i = p(x3)
    return r(nn.MaxUnpool2d(2)(y, i)), r(nn.MaxUnpool2d(2)(y, i, output_size=x3.size()))


e("unpool", unp)
for n, a in [
    ("ZeroPad2d", (1,)),
    ("ConstantPad2d", (1, 2.0)),
    ("ReflectionPad2d", (1,)),
    ("ReplicationPad2d", ((1, 0, 2, 1),)),
    ("CircularPad2d", (1,)),
]:
    mod(n, lambda n=n, a=a: getattr(nn, n)(*a), x3)
mod("emb", lambda: nn.Embedding(5, 3), torch.tensor([0, 2, 4]))
mod("embp", lambda: nn.Embedding(5, 3, padding_idx=0), torch.tensor([[0, 1]]))
mod("embm", lambda: nn.Embedding.from_pretrained(torch.arange(6.0).view(3, 2)), torch.tensor([1, 2]))
mod("embag", lambda: nn.EmbeddingBag(5, 3), torch.tensor([0, 2, 4, 1]), torch.tensor([0, 2]))
mod("embag2", lambda: nn.EmbeddingBag(5, 3, mode="sum"), torch.tensor([[0, 2], [4, 1]]))
mod("embagm", lambda: nn.EmbeddingBag(5, 3, mode="max"), torch.tensor([[0, 2], [4, 1]]))
mod("up", lambda: nn.Upsample(scale_factor=2), x3)
mod("upb", lambda: nn.Upsample(size=(3, 4), mode="bilinear"), x3)
mod("upn", lambda: nn.UpsamplingNearest2d(scale_factor=2), x3)
mod("ps", lambda: nn.PixelShuffle(2), x3)
mod("unf", lambda: nn.Unfold(2), x3)
mod("fold", lambda: nn.Fold((3, 3), 2), torch.randn(1, 8, 4))
mod("unfl", lambda: nn.Unflatten(1, (2, 2)), x1)
mod("bil", lambda: nn.Bilinear(4, 4, 2), x1, x1)
mod("cs", lambda: nn.ChannelShuffle(2), x3)
mod("cos", nn.CosineSimilarity, x1, x1 + 1)
mod("pd", nn.PairwiseDistance, x1, x1 + 1)
t = torch.randn(2, 4)
c = torch.tensor([1, 3])
s = torch.tensor([1.0, -1.0])
for n, a in [
    ("MSELoss", (x1, t)),
    ("L1Loss", (x1, t)),
    ("SmoothL1Loss", (x1, t)),
    ("HuberLoss", (x1, t)),
    ("CrossEntropyLoss", (x1, c)),
    ("NLLLoss", (F.log_softmax(x1, 1), c)),
    ("BCELoss", (x1.sigmoid(), t.sigmoid())),
    ("BCEWithLogitsLoss", (x1, t.sigmoid())),
    ("KLDivLoss", (F.log_softmax(x1, 1), t.softmax(1))),
    ("SoftMarginLoss", (x1, t.sign())),
    ("HingeEmbeddingLoss", (x1, t.sign())),
    ("PoissonNLLLoss", (x1, t.abs())),
    ("GaussianNLLLoss", (x1, t, t.abs() + 1)),
    ("MultiMarginLoss", (x1, c)),
    ("MultiLabelMarginLoss", (x1, torch.tensor([[1, 0, -1, 2], [3, -1, 0, 1]]))),
    ("MultiLabelSoftMarginLoss", (x1, (t > 0).float())),
    ("MarginRankingLoss", (x1[:, 0], t[:, 0], s)),
    ("CosineEmbeddingLoss", (x1, t, s)),
    ("TripletMarginLoss", (x1, t, x1 + 1)),
    ("TripletMarginWithDistanceLoss", (x1, t, x1 + 1)),
]:
    for k in ({}, {"reduction": "sum"}, {"reduction": "none"}):
        mod(n + str(k), lambda: getattr(nn, n)(**k), *a)
mod("ce", lambda: nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0]), ignore_index=1, label_smoothing=0.1), x1, c)
mod("size_average", lambda: nn.MSELoss(size_average=False), x1, t)
mod("reduce", lambda: nn.MSELoss(reduce=False), x1, t)
e("badred", lambda: nn.MSELoss(reduction="foo")(x1, t))
S = torch.randn(5, 2, 4)
for cls in (nn.RNN, nn.LSTM, nn.GRU):
    mod(cls.__name__, lambda: cls(4, 3), S)
    mod(cls.__name__, lambda: cls(4, 3, 2, bidirectional=True, batch_first=True), S)
    mod(cls.__name__, lambda: cls(4, 3), S[:, 0])

    def pk(cls=cls):
        torch.manual_seed(0)
        m = cls(4, 3)
        p = nn.utils.rnn.pack_padded_sequence(S, torch.tensor([3, 5]), enforce_sorted=False)
        y, h = m(p)
        out, l = nn.utils.rnn.pad_packed_sequence(y)
        return list(out.shape), r(out), l, r(h[0] if isinstance(h, tuple) else h), type(y).__name__

    e("packed", pk)
mod("lstm h", lambda: nn.LSTM(4, 3, proj_size=2), S)
mod("h0", lambda: nn.LSTM(4, 3), S, (torch.ones(1, 2, 3), torch.ones(1, 2, 3)))
mod("g0", lambda: nn.GRU(4, 3), S, torch.ones(1, 2, 3))
for cls in (nn.RNNCell, nn.LSTMCell, nn.GRUCell):
    mod(cls.__name__, lambda: cls(4, 3), x1)
    mod(cls.__name__, lambda: cls(4, 3), x1[0])
e("rnnerr", lambda: nn.LSTM(3, 2)(torch.ones(1, 1, 4)))
e("rnnerr", lambda: nn.LSTM(3, 2)(torch.ones(3)))
e("rnnerr", lambda: nn.LSTM(3, 2)(torch.ones(1, 1, 3), (torch.ones(1, 2, 2), torch.ones(1, 2, 2))))
e("", lambda: nn.LSTM(3, 0))
e("", lambda: nn.RNN(2, 3, nonlinearity="x"))
print(list(nn.LSTM(2, 3, 2, bidirectional=True).state_dict()))
Q = torch.randn(3, 2, 4)
mod("mha", lambda: nn.MultiheadAttention(4, 2), Q, Q, Q)
mod(
    "mha2",
    lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=5, batch_first=True),
    torch.randn(2, 3, 4),
    torch.randn(2, 3, 3),
    torch.randn(2, 3, 5),
)
mod("mha3", lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True), Q, Q, Q)
e("mhaerr", lambda: nn.MultiheadAttention(4, 3))
e(
    "mhamask",
    lambda: r(nn.MultiheadAttention(4, 2).eval()(Q, Q, Q, attn_mask=torch.ones(3, 3).triu(1).bool(), need_weights=False)[0])[
        :0
    ],
)
mod("tel", lambda: nn.TransformerEncoderLayer(4, 2, 8).eval(), Q)
mod(
    "te",
    lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, 8, activation="gelu", batch_first=True, norm_first=True), 2
    ).eval(),
    Q,
)
mod("td", lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 2, nn.LayerNorm(4)).eval(), Q, Q)
mod("tr", lambda: nn.Transformer(4, 2, 1, 1, 8).eval(), Q, Q)
print(nn.Transformer.generate_square_subsequent_mask(3))
print([k for k, _ in nn.MultiheadAttention(4, 2).named_parameters()], nn.MultiheadAttention(4, 2).bias_k)
print(
    copy.deepcopy(nn.MultiheadAttention(4, 2)), list(copy.deepcopy(nn.MultiheadAttention(4, 2, add_bias_kv=True)).state_dict())
)


def lz():
    torch.manual_seed(0)
    l = nn.LazyLinear(3)
    print(l, isinstance(l.weight, nn.UninitializedParameter))
    w = l.weight
    y = l(x1)
    return l, r(y), type(l).__name__, l.weight is w


e("lazy", lz)


def lz2():
    torch.manual_seed(0)
    n = nn.Sequential(nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    y = n(x3)
    return n, r(y)


e("lazy", lz2)
e("converr", lambda: nn.Conv2d(3, 4, 3)(torch.ones(1, 2, 5, 5)))
e("converr", lambda: nn.Conv2d(3, 4, 3, groups=2))
e("converr", lambda: nn.Conv2d(2, 4, 3)(torch.ones(5, 5)))
e("conv", lambda: nn.Conv2d(2, 4, 3, stride=2, padding="same"))
e("bn", lambda: nn.BatchNorm2d(2)(torch.ones(2, 2)))
e("bn", lambda: nn.BatchNorm1d(2)(torch.ones(1, 2)))
e("ln", lambda: nn.LayerNorm(3)(torch.ones(2, 4)))
e("emb", lambda: nn.Embedding(3, 2, padding_idx=5))
e("emb", lambda: nn.Embedding(3, 2)(torch.tensor([5])))
