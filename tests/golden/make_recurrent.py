#!/usr/bin/env python3
"""Makes recurrent.h: what PyTorch (2.13, float64) computes for recurrent networks and transformers, for tests/test_recurrent.c and
tests/test_transformer.c. Both sides draw parameters and inputs from the same seed with the same generator, so that only results are
stored, and initial values are tested with them."""

import os
import sys

import torch
import torch.nn as nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

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
    if twice:
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


def main():
    networks()
    cells()
    with open(os.path.join(HERE, "recurrent.h"), "w") as f:
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
    print(f"{len(kept)} results, {at} numbers", file=sys.stderr)


if __name__ == "__main__":
    main()
