"""Writes tests/golden/training.h and loading.h: what PyTorch 2.13's optimizers, schedules, clipping and loaders give.

    python3 tests/golden/make_training.py

Parameters and gradients are not stored: both sides draw them from the generator of README.md, number / 2^22 - 2.
"""
import os
import torch
from torch.utils.data import DataLoader, TensorDataset

STEPS, SHAPES = 20, [(3, 4), (5,)]
SKIPPED = 2  # in this step the second parameter has no gradient

OPTIMIZERS = [  # our options, torch's
    ("sgd", "sgd", dict(lr=0.1), torch.optim.SGD),
    ("sgd_decay", "sgd", dict(lr=0.1, weight_decay=0.01), torch.optim.SGD),
    ("sgd_momentum", "sgd", dict(lr=0.05, momentum=0.9), torch.optim.SGD),
    ("sgd_dampening", "sgd", dict(lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.02), torch.optim.SGD),
    ("sgd_nesterov", "sgd", dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01), torch.optim.SGD),
    ("sgd_maximize", "sgd", dict(lr=0.05, momentum=0.5, maximize=True), torch.optim.SGD),
    ("adam", "adam", dict(lr=0.01), torch.optim.Adam),
    ("adam_decay", "adam", dict(lr=0.02, beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.1), torch.optim.Adam),
    ("adam_low_beta", "adam", dict(lr=0.02, beta1=0.3), torch.optim.Adam),
    ("adam_amsgrad", "adam", dict(lr=0.01, amsgrad=True, maximize=True), torch.optim.Adam),
    ("adamw", "adamw", dict(lr=0.01), torch.optim.AdamW),
    ("adamw_amsgrad", "adamw", dict(lr=0.03, weight_decay=0.2, amsgrad=True), torch.optim.AdamW),
    ("adamw_maximize", "adamw", dict(lr=0.01, beta1=0.95, maximize=True), torch.optim.AdamW),
]
DEFAULTS = {"sgd": {}, "adam": dict(beta1=0.9, beta2=0.999, eps=1e-8), "adamw": dict(beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01)}


class Draw:
    def __init__(self, seed):
        self.s = seed

    def tensor(self, shape, dtype):
        out = []
        for _ in range(torch.Size(shape).numel()):
            self.s = (self.s * 6364136223846793005 + 1442695040888963407) % 2**64
            out.append((self.s >> 40) / 2**22 - 2)
        return torch.tensor(out, dtype=torch.float64).to(dtype).reshape(shape)


def hexes(values):
    return "{" + ", ".join(float(v).hex() for v in values) + "}"


def flat(tensors):
    return [float(v) for t in tensors for v in t.detach().flatten()]


def train(options, make, dtype, seed):
    draw = Draw(seed)
    parameters = [draw.tensor(s, dtype).requires_grad_() for s in SHAPES]
    options = dict(options)
    if "beta1" in options or "beta2" in options:
        options["betas"] = (options.pop("beta1", 0.9), options.pop("beta2", 0.999))
    optimizer = make(parameters, **options)
    for step in range(STEPS):
        for i, p in enumerate(parameters):
            p.grad = draw.tensor(p.shape, dtype)
            if i == 1 and step == SKIPPED:
                p.grad = None
        optimizer.step()
    return flat(parameters)


def optimizers():
    out = ["typedef struct training_case { const char *name, *rule; fa_sgd_options sgd; fa_adam_options adam; uint64_t seed;",
           "    double f32[17], f64[17]; } training_case;", "static const training_case training_cases[] = {"]
    for seed, (name, rule, options, make) in enumerate(OPTIMIZERS, 1):
        given = ", ".join(f".{k} = {str(v).lower()}" for k, v in (DEFAULTS[rule] | options).items())
        field = "sgd" if rule == "sgd" else "adam"
        out.append(f'    {{"{name}", "{rule}", .{field} = {{sizeof(fa_{field}_options), {given}}}, .seed = {seed},')
        out.append(f"     .f32 = {hexes(train(options, make, torch.float32, seed))},")
        out.append(f"     .f64 = {hexes(train(options, make, torch.float64, seed))}}},")
    return out + ["};"]


def rates(make, lr=1.0, n=14):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    schedule, out = make(optimizer), []
    for _ in range(n):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return out


def schedules():
    s = torch.optim.lr_scheduler
    made = {"step": lambda o: s.StepLR(o, 2, 0.1), "exponential": lambda o: s.ExponentialLR(o, 0.5),
            "cosine": lambda o: s.CosineAnnealingLR(o, 4), "cosine_min": lambda o: s.CosineAnnealingLR(o, 3, 0.01),
            "lambda": lambda o: s.LambdaLR(o, lambda epoch: 1 / (epoch + 2))}
    return [f"static const double rates_{k}[14] = {hexes(rates(v, 0.1 if k == 'cosine_min' else 1.0))};" for k, v in made.items()]


def clipping():
    out = ["typedef struct clip_case { double max_norm, norm_type; uint64_t seed; double f32[18], f64[18]; } clip_case;",
           "/* the norm before it, then the gradients */", "static const clip_case clip_cases[] = {"]
    for seed, (most, kind) in enumerate([(1.0, 2.0), (1.5, 1.0), (0.5, float("inf")), (100.0, 2.0), (2.0, 3.0)], 50):
        values = []
        for dtype in (torch.float32, torch.float64):
            draw = Draw(seed)
            parameters = [torch.zeros(s, dtype=dtype, requires_grad=True) for s in SHAPES]
            for p in parameters:
                p.grad = draw.tensor(p.shape, dtype)
            norm = torch.nn.utils.clip_grad_norm_(parameters, most, kind)
            values.append(hexes([float(norm)] + flat([p.grad for p in parameters])))
        kind = "INFINITY" if kind == float("inf") else kind
        out.append(f"    {{{most}, {kind}, {seed}, {values[0]},\n     {values[1]}}},")
    return out + ["};"]


def loaders():
    out = ["typedef struct loader_case { bool shuffle, drop_last, own; int size, n; int64_t seen[40]; double after; } loader_case;",
           "/* two epochs of 10 samples; -1 ends a batch, -2 an epoch; then torch.rand(1) */", "static const loader_case loader_cases[] = {"]
    for shuffle, drop, own, size in [(0, 0, 0, 3), (1, 0, 0, 3), (1, 1, 0, 3), (1, 0, 1, 3), (1, 1, 1, 4), (0, 1, 0, 4)]:
        torch.manual_seed(0)
        g = torch.Generator().manual_seed(7) if own else None
        loader = DataLoader(TensorDataset(torch.arange(10)), batch_size=size, shuffle=bool(shuffle), drop_last=bool(drop), generator=g)
        seen = []
        for _ in range(2):
            for (batch,) in loader:
                seen += batch.tolist() + [-1]
            seen.append(-2)
        after = float(torch.rand(1)).hex()
        out.append(f"    {{{shuffle}, {drop}, {own}, {size}, {len(seen)}, {{{', '.join(map(str, seen))}}}, {after}}},")
    return out + ["};"]


def write(name, lines):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), "w") as f:
        f.write("\n".join(["/* Written by tests/golden/make_training.py from PyTorch; change that. */"] + lines) + "\n")


if __name__ == "__main__":
    write("training.h", optimizers() + schedules() + clipping())
    write("loading.h", loaders())
