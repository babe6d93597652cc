"""Writes tests/golden/rules.h: what PyTorch 2.13's optimizers beside SGD and Adam give, as make_training.py does for those.

    python3 tests/golden/make_rules.py
"""
import os
import torch
from make_training import SHAPES, SKIPPED, STEPS, Draw, flat, hexes

PAIRS = {"beta1": ("betas", 0), "beta2": ("betas", 1), "eta_minus": ("etas", 0), "eta_plus": ("etas", 1),
         "step_size_min": ("step_sizes", 0), "step_size_max": ("step_sizes", 1)}
OPTIONS = {  # in the order of the C rule, with torch's defaults
    "rmsprop": dict(lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, maximize=False),
    "adagrad": dict(lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, maximize=False),
    "adadelta": dict(lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, maximize=False),
    "adamax": dict(lr=2e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0, maximize=False),
    "nadam": dict(lr=2e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0, momentum_decay=4e-3, decoupled_weight_decay=False,
                  maximize=False),
    "radam": dict(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0, decoupled_weight_decay=False, maximize=False),
    "asgd": dict(lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, maximize=False),
    "rprop": dict(lr=1e-2, eta_minus=0.5, eta_plus=1.2, step_size_min=1e-6, step_size_max=50, maximize=False),
}
MAKE = {"rmsprop": torch.optim.RMSprop, "adagrad": torch.optim.Adagrad, "adadelta": torch.optim.Adadelta,
        "adamax": torch.optim.Adamax,
        "nadam": torch.optim.NAdam, "radam": torch.optim.RAdam, "asgd": torch.optim.ASGD, "rprop": torch.optim.Rprop}
CASES = [
    ("rmsprop", {}), ("rmsprop", dict(lr=0.05, alpha=0.3, momentum=0.9, weight_decay=0.1)),
    ("rmsprop", dict(centered=True, alpha=0.9)),
    ("rmsprop", dict(centered=True, momentum=0.5, eps=1e-3, maximize=True)),
    ("adagrad", {}), ("adagrad", dict(lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.5, maximize=True)),
    ("adadelta", {}), ("adadelta", dict(lr=0.5, rho=0.7, eps=1e-4, weight_decay=0.1, maximize=True)),
    ("adamax", {}), ("adamax", dict(lr=0.1, beta1=0.3, beta2=0.8, weight_decay=0.1, maximize=True)),
    ("nadam", {}), ("nadam", dict(lr=0.05, beta1=0.8, beta2=0.9, weight_decay=0.1, momentum_decay=0.05)),
    ("nadam", dict(lr=0.05, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("radam", {}), ("radam", dict(lr=0.05, beta1=0.8, beta2=0.9, weight_decay=0.1)),
    ("radam", dict(lr=0.05, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("asgd", {}), ("asgd", dict(lr=0.1, lambd=0.1, alpha=0.5, t0=3, weight_decay=0.1, maximize=True)),
    ("rprop", {}), ("rprop", dict(lr=0.1, eta_minus=0.3, eta_plus=1.5, step_size_min=0.05, step_size_max=0.2, maximize=True)),
]
FALL = 10  # from this step on the rate is a half


def train(rule, options, dtype, seed):
    draw = Draw(seed)
    parameters = [draw.tensor(s, dtype).requires_grad_() for s in SHAPES]
    given = {}
    for name, value in options.items():
        pair, part = PAIRS.get(name, (None, 0))
        if pair is None:
            given[name] = value
        else:
            given[pair] = (*given.get(pair, ()), value)
    optimizer = MAKE[rule](parameters, **given)
    for step in range(STEPS):
        if step == FALL:
            optimizer.param_groups[0]["lr"] *= 0.5
        for i, p in enumerate(parameters):
            p.grad = draw.tensor(p.shape, dtype)
            if i == 1 and step == SKIPPED:
                p.grad = None
        optimizer.step()
    return flat(parameters) + flat(optimizer.state[parameters[0]][name] for name in KEPT.get(rule, ()))


KEPT = {"nadam": ["mu_product"], "asgd": ["eta", "mu"]}


def lines():
    out = ["/* Parameters after 20 steps, whose rate is halved after 10; then what the rule keeps beside states. */",
           "typedef struct rule_case { const char *rule; double option[8]; uint64_t seed; double f32[19], f64[19]; } rule_case;",
           "static const rule_case rule_cases[] = {"]
    for seed, (rule, changed) in enumerate(CASES, 100):
        options = OPTIONS[rule] | changed
        numbers = ", ".join(str(float(v)) for v in options.values())
        out.append(f'    {{"{rule}", {{{numbers}}}, {seed},')
        out.append(f"     {hexes(train(rule, options, torch.float32, seed))},")
        out.append(f"     {hexes(train(rule, options, torch.float64, seed))}}},")
    return out + ["};"]


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "rules.h"), "w") as f:
        f.write("\n".join(["/* Written by tests/golden/make_rules.py from PyTorch; change that. */"] + lines()) + "\n")
