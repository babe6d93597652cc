#!/usr/bin/env python3
"""Makes recurrent.h and transformer.h: what PyTorch (2.13, float64) computes for recurrent networks and transformers, for tests/test_recurrent.c and
tests/test_transformer.c. Both sides draw parameters and inputs from the same seed with the same generator, so that only results are
stored, and initial values are tested with them."""

import os
import sys

import torch
import torch.nn as nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = os.path.dirname(os.path.abspath(__file__))
kept = {}


def keep(name, t):
    """Every value of a small tensor; of a large one about 7 evenly spread ones, and their sum in front."""
    v = t.detach().double().flatten()
    step = max(1, v.numel() // 7)
    kept[name] = [v.sum().item()] + v[::step].tolist()


def weighted(t):
    """A number that depends on every element: sum of t times sin(1), sin(2), ..."""
    return (t * torch.sin(torch.arange(1, t.numel() + 1, dtype=torch.float64)).reshape(t.shape)).sum()


def derivatives(name, loss, net, inputs, twice=True):
    """First derivatives towards inputs and parameters; derivatives of the squares of those towards the inputs."""
    parameters = [p for p in net.parameters()]
    grads = torch.autograd.grad(loss, inputs + parameters, create_graph=True)
    for i, g in enumerate(grads):
        keep(f"{name} d{i}", g)
    if twice and inputs:
        square = sum((g * g).sum() for g in grads[: len(inputs)])
        for i, g in enumerate(torch.autograd.grad(square, inputs + parameters, allow_unused=True)):
            if g is not None:
                keep(f"{name} h{i}", g)


def draw(*shape):
    return torch.rand(*shape).double().requires_grad_()


NETWORKS = {
    "lstm": lambda: nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True),
    "lstm plain": lambda: nn.LSTM(5, 32),
    "lstm no bias": lambda: nn.LSTM(5, 4, bias=False),
    "lstm proj": lambda: nn.LSTM(5, 4, 2, proj_size=3, bidirectional=True),
    "lstm dropout": lambda: nn.LSTM(5, 4, 3, dropout=0.4),
    "gru": lambda: nn.GRU(5, 4, 2, batch_first=True, bidirectional=True),
    "gru plain": lambda: nn.GRU(5, 32),
    "gru no bias": lambda: nn.GRU(5, 4, bias=False),
    "rnn": lambda: nn.RNN(5, 4, 2, batch_first=True, bidirectional=True),
    "relu": lambda: nn.RNN(5, 32, nonlinearity="relu"),
}


def states(net, batch):
    layers = net.num_layers * (2 if net.bidirectional else 1)
    h = draw(layers, batch, net.proj_size or net.hidden_size)
    return [h, draw(layers, batch, net.hidden_size)] if isinstance(net, nn.LSTM) else [h]


def give(hx):
    return tuple(hx) if len(hx) == 2 else hx[0]


def run(name, net, x, hx, packed=None):
    seq = pack_padded_sequence(x, packed, net.batch_first, False) if packed is not None else x
    y, last = net(seq, give(hx))
    if packed is not None:
        keep(f"{name} data", y.data)
        y, _ = pad_packed_sequence(y, net.batch_first, 0.25)
    outputs = [y] + list(last if isinstance(last, tuple) else [last])
    for i, t in enumerate(outputs):
        keep(f"{name} {i}", t)
    derivatives(name, sum(weighted(t) for t in outputs), net, [x] + hx)


def networks():
    for seed, (name, make) in enumerate(NETWORKS.items()):
        torch.manual_seed(seed)
        net = make().double()
        x = draw(3, 2, 5)
        hx = states(net, 3 if net.batch_first else 2)
        run(name, net, x, hx)
        if "dropout" not in name:
            x = draw(3, 3, 5)
            run(f"{name} packed", net, x, states(net, 3), torch.tensor([2, 3, 1]))
    torch.manual_seed(100)
    net = nn.LSTM(5, 4, bidirectional=True).double()
    y, (h, c) = net(draw(3, 5))
    keep("one y", y)
    keep("one h", h)
    keep("one c", c)


def cells():
    for seed, (name, make) in enumerate({"lstm cell": nn.LSTMCell, "gru cell": nn.GRUCell, "rnn cell": nn.RNNCell}.items()):
        torch.manual_seed(200 + seed)
        net = make(5, 4).double()
        x, hx = draw(3, 5), [draw(3, 4) for _ in range(1 + (seed == 0))]
        out = net(x, give(hx))
        outputs = list(out) if seed == 0 else [out]
        for i, t in enumerate(outputs):
            keep(f"{name} {i}", t)
        derivatives(name, sum(weighted(t) for t in outputs), net, [x] + hx)
        one = net(draw(5))
        keep(f"{name} one", one[0] if seed == 0 else one)


ATTENTION = {
    "same": lambda: nn.MultiheadAttention(8, 2),
    "batch first": lambda: nn.MultiheadAttention(8, 4, batch_first=True, bias=False),
    "other sizes": lambda: nn.MultiheadAttention(8, 2, kdim=3, vdim=5),
    "longer": lambda: nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True),
    "dropout": lambda: nn.MultiheadAttention(8, 2, dropout=0.5),
}


def attention():
    for seed, (name, make) in enumerate(ATTENTION.items()):
        torch.manual_seed(300 + seed)
        net = make().double()
        q, k, v = draw(3, 2, 8), draw(4, 2, net.kdim), draw(4, 2, net.vdim)
        if net.batch_first:
            q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
        mask = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]], dtype=torch.bool)
        pad = torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0]], dtype=torch.bool)
        y, w = net(q, k, v, attn_mask=mask, key_padding_mask=pad)
        keep(f"{name} y0", y)
        keep(f"{name} w0", w)
        derivatives(name, weighted(y) + weighted(w), net, [])
        y, _ = net(q, k, v, need_weights=False)
        keep(f"{name} y1", y)
        y, w = net(q, q, q, average_attn_weights=False) if name in ("same", "batch first", "longer") else (y, y)
        keep(f"{name} y2", y)
        keep(f"{name} w2", w)
    torch.manual_seed(320)
    net = nn.MultiheadAttention(8, 2).double()
    x = draw(3, 8)
    y, w = net(x, x, x, attn_mask=nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64), is_causal=True)
    keep("one y", y)
    keep("one w", w)


LAYERS = {
    "encoder layer": lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0),
    "encoder first": lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True, bias=False),
    "decoder layer": lambda: nn.TransformerDecoderLayer(8, 2, 16, 0.0),
    "decoder first": lambda: nn.TransformerDecoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True),
    "transformer": lambda: nn.Transformer(8, 2, 2, 2, 16, 0.0),
    "with dropout": lambda: nn.Transformer(8, 2, 1, 1, 16, 0.3, batch_first=True),
}


def transformers():
    for seed, (name, make) in enumerate(LAYERS.items()):
        torch.manual_seed(400 + seed)
        net = make().double()
        x, other = draw(3, 3, 8), draw(3, 3, 8)
        causal = nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
        pad = torch.tensor([[0, 0, 1], [0, 0, 0], [0, 1, 1]], dtype=torch.bool)
        if "encoder" in name:
            y, inputs = net(x, causal, pad), [x]
        elif "decoder" in name:
            y, inputs = net(x, other, causal, None, None, pad), [x, other]
        else:
            y, inputs = net(x, other, tgt_mask=causal, src_key_padding_mask=pad, memory_key_padding_mask=pad), [x, other]
        keep(f"{name} y", y)
        derivatives(name, weighted(y), net, inputs, twice="layer" in name)


def write(file):
    with open(os.path.join(HERE, file), "w") as f:
        f.write("/* Made by tests/golden/make_recurrent.py with PyTorch: change that. */\n")
        f.write("static const double golden_values[] = {\n")
        at, places = 0, []
        for name, values in kept.items():
            f.write("".join(f"{v:.17g}," for v in values) + "\n")
            places.append((name, at, len(values)))
            at += len(values)
        f.write("};\nstatic const struct golden_place { const char *name; int at, n; } golden_places[] = {\n")
        f.writelines(f'{{"{name}",{at},{n}}},\n' for name, at, n in places)
        f.write("};\n")
    print(f"{file}: {len(kept)} results, {at} numbers", file=sys.stderr)
    kept.clear()


def main():
    networks()
    cells()
    write("recurrent.h")
    with sdpa_kernel(SDPBackend.MATH):  # the fused ones have no second derivative
        attention()
        transformers()
    write("transformer.h")


if __name__ == "__main__":
    main()
