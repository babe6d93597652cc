"""PyTorch's side of bench/workloads.c: python torch_workloads.py NAME prints the name and the best time of one call in microseconds."""
import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


def best(call, seconds=0.6):
    call(), call()
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    inner = max(1, int(0.02 / max(once, 1e-7)))
    low, stop = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < stop:
        start = time.perf_counter()
        for _ in range(inner):
            call()
        low = min(low, (time.perf_counter() - start) / inner)
    return low * 1e6


def train(net, x, y, loss_fn, opt):
    def call():
        loss = loss_fn(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return call


def classify(net, x, opt, **options):
    return train(net, x, torch.randint(0, 10, (x.shape[0],)), nn.CrossEntropyLoss(), opt(net.parameters(), **options))


def mlp(hidden):
    return nn.Sequential(nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, 10))


def template_step():
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    return train(net, torch.rand(16, 10), torch.rand(16, 1), nn.MSELoss(), torch.optim.SGD(net.parameters(), lr=0.01))


def template_forward():
    net, x = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1)), torch.rand(2, 10)

    def call():
        with torch.no_grad():
            net(x)
    return call


def loader():
    data = torch.utils.data.TensorDataset(torch.rand(4096, 784), torch.randint(0, 10, (4096,)))
    batches = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)

    def call():
        for _ in batches:
            pass
    return call


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Sigmoid(), nn.AvgPool2d(2), nn.Flatten(),
                         nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(784, 10))


def on(tensor, f):
    return lambda: f(tensor)


def pair(n, f):
    a, b = torch.rand(n), torch.rand(n)
    return lambda: f(a, b)


WORK = {
    "template_step": template_step, "template_forward": template_forward, "add_3": lambda: pair(3, torch.add),
    "mlp_sgd": lambda: classify(mlp(256), torch.rand(256, 784), torch.optim.SGD, lr=0.01),
    "mlp_adam": lambda: classify(mlp(256), torch.rand(256, 784), torch.optim.Adam, lr=1e-3),
    "mlp_adamw_500": lambda: classify(mlp(500), torch.rand(500, 784), torch.optim.AdamW, lr=1e-3),
    "lenet": lambda: classify(lenet(), torch.rand(256, 1, 28, 28), torch.optim.SGD, lr=0.01),
    "cnn_relu": lambda: classify(cnn(), torch.rand(500, 1, 28, 28), torch.optim.AdamW, lr=1e-3),
    "softmax_1k": lambda: on(torch.rand(1024, 1024), lambda a: a.softmax(1)),
    "transpose_1k": lambda: on(torch.rand(1024, 1024), lambda a: a.t().contiguous()),
    "matmul_1k": lambda: on((torch.rand(1024, 1024), torch.rand(1024, 1024)), lambda p: p[0] @ p[1]),
    "randn_1m": lambda: (lambda: torch.randn(1000000)), "gelu_1m": lambda: on(torch.rand(1000000), nn.functional.gelu),
    "exp_1m": lambda: on(torch.rand(1000000), torch.exp), "sum_10m": lambda: on(torch.rand(10000000), torch.sum),
    "add_10m": lambda: pair(10000000, torch.add), "loader": loader,
}

if sys.argv[1:] == ["--list"]:
    sys.exit(print(*WORK, sep="\n"))
for name in sys.argv[1:] or WORK:
    print(f"{name} {best(WORK[name]()):.3f}", flush=True)
