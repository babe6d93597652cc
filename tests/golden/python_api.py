"""What the Python parts must do as PyTorch does, written once for both: make_python.py runs it with torch and keeps the answers,
tests/python/test_golden.py runs it with facula and compares them, number for number.

Each case is a function of the module (torch or facula); its answer is plain data that JSON can hold.
"""
import itertools
import json
import warnings

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def plain(value):
    """Tensors, tuples and exceptions as JSON holds them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(v) for v in value]
    if isinstance(value, BaseException):
        return [type(value).__name__, str(value)]
    return value


def answer(function, module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(plain(function(module))))


def attempt(function):
    try:
        return function()
    except Exception as e:
        return e


# ---- schedules ----

def optimizer(T, lr=0.1, **defaults):
    class Plain(T.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": lr, **defaults})

        def step(self, closure=None):
            pass
    return Plain([{"params": [T.zeros(2, requires_grad=True)]}, {"params": [T.zeros(3, requires_grad=True)], "lr": 0.37}])


def schedules(T):
    L = T.optim.lr_scheduler
    made = {
        "lambda": lambda o: L.LambdaLR(o, [lambda e: 0.95 ** e, lambda e: 1 / (e + 1)]),
        "multiplicative": lambda o: L.MultiplicativeLR(o, lambda e: 0.93),
        "step": lambda o: L.StepLR(o, 3, 0.3), "step_default": lambda o: L.StepLR(o, 7),
        "multistep": lambda o: L.MultiStepLR(o, [2, 5, 5, 11], 0.37), "constant": lambda o: L.ConstantLR(o, 0.4, 6),
        "constant_default": lambda o: L.ConstantLR(o), "linear": lambda o: L.LinearLR(o, 0.2, 0.9, 8),
        "linear_default": lambda o: L.LinearLR(o), "exponential": lambda o: L.ExponentialLR(o, 0.89),
        "polynomial": lambda o: L.PolynomialLR(o, 12, 2.3), "polynomial_default": lambda o: L.PolynomialLR(o),
        "cosine": lambda o: L.CosineAnnealingLR(o, 7, 0.003), "cosine_one": lambda o: L.CosineAnnealingLR(o, 1),
        "restarts": lambda o: L.CosineAnnealingWarmRestarts(o, 4),
        "restarts_mult": lambda o: L.CosineAnnealingWarmRestarts(o, 2, 3, 0.01),
        "cyclic": lambda o: L.CyclicLR(o, 0.01, [0.1, 0.3], 4, 3),
        "cyclic2": lambda o: L.CyclicLR(o, 0.01, 0.1, 3, mode="triangular2"),
        "cyclic_exp": lambda o: L.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9),
        "cyclic_own": lambda o: L.CyclicLR(o, 0.01, 0.1, 3, scale_fn=lambda x: 0.5 ** x, cycle_momentum=False),
        "onecycle": lambda o: L.OneCycleLR(o, [0.1, 0.5], 26), "onecycle_linear": lambda o: L.OneCycleLR(
            o, 0.2, epochs=5, steps_per_epoch=6, anneal_strategy="linear", three_phase=True, pct_start=0.4),
        "sequential": lambda o: L.SequentialLR(o, [L.ConstantLR(o, 0.1, 3), L.ExponentialLR(o, 0.9), L.StepLR(o, 2)], [4, 9]),
        "chained": lambda o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 3), L.ExponentialLR(o, 0.9)]),
        "nested": lambda o: L.SequentialLR(o, [L.ChainedScheduler([L.LinearLR(o), L.ExponentialLR(o, 0.9)]),
                                               L.CosineAnnealingLR(o, 9)], [5]),
    }
    return made


def drive(T, make, epochs=25, **defaults):
    o = optimizer(T, momentum=0.9, **defaults)
    s = make(o)
    rows = [[g["lr"] for g in o.param_groups]]
    for _ in range(epochs):
        o.step()
        s.step()
        rows.append([[g["lr"], g["momentum"], g.get("betas")] for g in o.param_groups] + [s.get_last_lr()])
    state = {k: v for k, v in s.state_dict().items() if not callable(v)}
    return {"rates": rows, "state": state}


@case
def schedule_rates(T):
    return {name: attempt(lambda: drive(T, make)) for name, make in schedules(T).items()}


@case
def schedule_betas(T):
    made = schedules(T)
    return {name: attempt(lambda: drive(T, made[name], betas=(0.9, 0.99))) for name in ("cyclic", "onecycle", "onecycle_linear")}


@case
def schedule_epochs(T):
    """step(epoch): the closed forms, where there are some."""
    def jump(make):
        o = optimizer(T, momentum=0.9)
        s, rows = make(o), []
        for epoch in (None, 3, None, None, 0, 9, None):
            o.step()
            s.step() if epoch is None else s.step(epoch)
            rows.append(s.get_last_lr())
        return rows
    several = ("sequential", "chained", "nested")
    return {name: attempt(lambda: jump(make)) for name, make in schedules(T).items() if name not in several}


@case
def schedule_resume(T):
    """A state dict taken in the middle, loaded into a new schedule."""
    def resume(make):
        o = optimizer(T, momentum=0.9)
        s = make(o)
        for _ in range(6):
            o.step()
            s.step()
        saved, rates = s.state_dict(), [dict(g, params=None) for g in o.param_groups]
        o = optimizer(T, momentum=0.9)
        s = make(o)
        s.load_state_dict(saved)
        for g, old in zip(o.param_groups, rates):
            g.update(old, params=g["params"])
        rows = []
        for _ in range(8):
            o.step()
            s.step()
            rows.append(s.get_last_lr())
        return rows
    return {name: attempt(lambda: resume(make)) for name, make in schedules(T).items() if name != "cyclic_own"}


@case
def schedule_plateau(T):
    measures = [5, 4, 4, 4, 4.1, 4, 3.9999, 3, 3, 3, 3, 3, 3, 2, 7, 7, 7, 7, 7, 7]
    answers = []
    for mode, kind, patience, cooldown in itertools.product(("min", "max"), ("rel", "abs"), (0, 2), (0, 2)):
        o = optimizer(T)
        s = T.optim.lr_scheduler.ReduceLROnPlateau(o, mode, 0.3, patience, threshold_mode=kind, cooldown=cooldown,
                                                   min_lr=[0.001, 0.1])
        rows = []
        for m in measures:
            s.step(m)
            rows.append([s.get_last_lr(), s.num_bad_epochs, s.best])
        answers.append([rows, s.state_dict()])
    return answers


@case
def schedule_errors(T):
    L, o = T.optim.lr_scheduler, optimizer(T, momentum=0.9)
    bare = optimizer(T)
    tries = [lambda: L.StepLR(3, 2), lambda: L.LambdaLR(o, [abs]), lambda: L.ConstantLR(o, factor=2),
             lambda: L.LinearLR(o, start_factor=0),
             lambda: L.LinearLR(o, end_factor=2), lambda: L.CosineAnnealingWarmRestarts(o, 0),
             lambda: L.CosineAnnealingWarmRestarts(o, 2, 0),
             lambda: L.CosineAnnealingWarmRestarts(o, 2, 1, "x"), lambda: L.CosineAnnealingWarmRestarts(o, 2).step(-1),
             lambda: L.ReduceLROnPlateau(o, factor=1.0), lambda: L.ReduceLROnPlateau(3), lambda: L.ReduceLROnPlateau(o, mode="x"),
             lambda: L.ReduceLROnPlateau(o, threshold_mode="x"), lambda: L.ReduceLROnPlateau(o, min_lr=[1]),
             lambda: L.CyclicLR(3, 1, 2),
             lambda: L.CyclicLR(bare, 1, 2), lambda: L.CyclicLR(o, 1, 2, mode="x"), lambda: L.CyclicLR(o, [1], 2),
             lambda: L.OneCycleLR(o, 1),
             lambda: L.OneCycleLR(o, 1, -3), lambda: L.OneCycleLR(o, 1, 2.5), lambda: L.OneCycleLR(o, 1, epochs=3),
             lambda: L.OneCycleLR(o, 1, epochs=3, steps_per_epoch=0), lambda: L.OneCycleLR(o, 1, 9, pct_start=2),
             lambda: L.OneCycleLR(o, 1, 9, anneal_strategy="x"), lambda: L.OneCycleLR(bare, 1, 9),
             lambda: L.OneCycleLR(o, [1], 9),
             lambda: L.SequentialLR(o, [], []), lambda: L.SequentialLR(o, [L.StepLR(o, 2)], [1]),
             lambda: L.SequentialLR(o, [L.StepLR(o, 2), L.ReduceLROnPlateau(o)], [1]),
             lambda: L.SequentialLR(o, [L.StepLR(o, 2), 3], [1]),
             lambda: L.SequentialLR(o, [L.StepLR(o, 2), L.StepLR(bare, 2)], [1]), lambda: L.ChainedScheduler([]),
             lambda: L.ChainedScheduler([L.StepLR(o, 2), 3]), lambda: L.ChainedScheduler([L.ReduceLROnPlateau(o)]),
             lambda: L.StepLR(optimizer(T), 2, last_epoch=3), lambda: L.LRScheduler(o)]
    return [str(type(attempt(t)).__name__) if not isinstance(attempt(t), Exception) else attempt(t) for t in tries]


# ---- optimizers ----

@case
def optimizer_errors(T):
    p, q = T.ones(2, requires_grad=True), T.ones(3, requires_grad=True)

    class Own(T.optim.Optimizer):
        def __init__(self, params, **defaults):
            super().__init__(params, {"lr": 0.1, **defaults})
    tries = [lambda: Own(p), lambda: Own([]), lambda: Own([{"params": {p}}]), lambda: Own([1]), lambda: Own([p * 2]),
             lambda: Own(3),
             lambda: Own([{"params": [p]}, {"params": [p]}]), lambda: Own([p, [q]]), lambda: Own([p]).add_param_group([p]),
             lambda: Own([("a", p), q]), lambda: Own([p]).step(), lambda: Own([{"lr": 1}]),
             lambda: Own([p]).load_state_dict({"state": {}, "param_groups": []}), lambda: Own([p]).load_state_dict({}),
             lambda: Own([p]).load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]}),
             lambda: Own([p]).add_param_group({"params": [("a", q)]}), lambda: Own([p, p]), lambda: Own({"params": [p]})]
    return [repr(attempt(t)) if not isinstance(attempt(t), Exception) else attempt(t) for t in tries]


@case
def optimizer_state(T):
    p, q = T.ones(2, requires_grad=True), T.ones(3, requires_grad=True)
    o = optimizer(T, beta=(0.5, 0.6))
    o.add_param_group({"params": p, "lr": 7})
    o.state[p].update(step=T.tensor(3.0), m=T.ones(2, dtype=T.float64), l=[T.ones(1), 2], n=None)
    o.state["of all"] = 5
    saved = o.state_dict()
    new = optimizer(T, beta=(0.1, 0.2))
    new.add_param_group({"params": [q]})
    new.load_state_dict(saved)
    state = new.state[q]
    return [saved, new.state_dict(), repr(new), str(state["m"].dtype).split(".")[-1], state["m"] is saved["state"][2]["m"],
            [len(g["params"]) for g in new.param_groups], new.param_groups[2]["params"][0] is q]


# ---- data ----

def loaded(T, loader):
    return [batch[1] for batch in loader]


@case
def data_orders(T):
    D = T.utils.data
    x, y = T.arange(26.0).view(13, 2), T.arange(13)
    data = D.TensorDataset(x, y)

    class Plain(D.Dataset):
        def __len__(self):
            return 13

        def __getitem__(self, i):
            return x[i], y[i]

    def generator(n):
        return T.Generator().manual_seed(n)
    made = {
        "shuffle": lambda d: D.DataLoader(d, 4, shuffle=True),
        "drop_last": lambda d: D.DataLoader(d, 4, shuffle=True, drop_last=True),
        "in_order": lambda d: D.DataLoader(d, 5), "generator": lambda d: D.DataLoader(d, 4, shuffle=True, generator=generator(7)),
        "generator_in_order": lambda d: D.DataLoader(d, 4, generator=generator(7)),
        "replacement": lambda d: D.DataLoader(d, 4, sampler=D.RandomSampler(d, True, 70)),
        "more": lambda d: D.DataLoader(d, 3, sampler=D.RandomSampler(d, num_samples=30)),
        "fewer": lambda d: D.DataLoader(d, 3, sampler=D.RandomSampler(d, num_samples=5, generator=generator(2))),
        "weighted": lambda d: D.DataLoader(d, 4, sampler=D.WeightedRandomSampler([i + 1.0 for i in range(13)], 20)),
        "weighted_once": lambda d: D.DataLoader(d, 4, sampler=D.WeightedRandomSampler([i + 1.0 for i in range(13)], 9, False)),
        "subset": lambda d: D.DataLoader(d, 4, sampler=D.SubsetRandomSampler([3, 5, 7, 11, 2])),
        "split": lambda d: D.DataLoader(D.random_split(d, [8, 5])[0], 3, shuffle=True),
        "fractions": lambda d: D.DataLoader(D.random_split(d, [0.3, 0.7], generator=generator(1))[1], 4, shuffle=True),
        "nested": lambda d: D.DataLoader(D.Subset(D.Subset(d, range(2, 12)), [9, 1, 3, 5]), 3, shuffle=True),
        "concat": lambda d: D.DataLoader(D.ConcatDataset([d, d]), 9, shuffle=True),
        "batches": lambda d: D.DataLoader(d, batch_sampler=[[0, 5], [12], [3, 3, 3]]),
    }
    answers = {}
    for (name, make), kind in itertools.product(made.items(), (data, Plain())):
        T.manual_seed(11)
        loader = make(kind)
        answers[f"{name} {type(kind).__name__}"] = [loaded(T, loader), loaded(T, loader), T.rand(2), len(loader)]
    T.manual_seed(3)  # a loop that is left draws what it has used, and no more
    for _ in D.DataLoader(data, 2, shuffle=True):
        break
    answers["left"] = T.rand(2)
    return answers


@case
def data_distributed(T):
    D = T.utils.data
    answers = []
    for n, replicas, shuffle, drop in itertools.product((11, 12, 2), (1, 3), (True, False), (True, False)):
        for rank in range(replicas):
            s = D.DistributedSampler(range(n), replicas, rank, shuffle=shuffle, drop_last=drop)
            s.set_epoch(2)
            answers.append([attempt(lambda: list(s)), len(s)])
    return answers


@case
def data_errors(T):
    D = T.utils.data
    x = T.arange(12.0).view(6, 2)
    data = D.TensorDataset(x, T.arange(6))

    class Endless(D.IterableDataset):
        def __iter__(self):
            return iter(range(7))
    L = D.DataLoader
    tries = [lambda: D.Dataset()[0], lambda: len(D.Dataset()), lambda: D.TensorDataset(x, x[:3]), lambda: (data + data)[-13],
             lambda: D.ConcatDataset([]), lambda: D.ConcatDataset([Endless()]), lambda: list(D.ChainDataset([data])),
             lambda: D.StackDataset(data, a=x), lambda: D.StackDataset(), lambda: D.StackDataset(x, x[:2]),
             lambda: D.random_split(data, [5, 2]), lambda: D.random_split(data, [-0.1, 1.1]), lambda: D.RandomSampler([]),
             lambda: D.RandomSampler(data, 3), lambda: D.RandomSampler(data, num_samples=2.5),
             lambda: D.WeightedRandomSampler([[0.1]], 2),
             lambda: D.WeightedRandomSampler([0.1], 0), lambda: D.WeightedRandomSampler([0.1], 2, 3),
             lambda: D.BatchSampler(range(7), 0, False),
             lambda: D.BatchSampler(range(7), True, False), lambda: D.BatchSampler(range(7), 2, 1),
             lambda: D.DistributedSampler(range(3), 2, 2),
             lambda: D.default_collate([None]), lambda: D.default_collate([T.ones(2), T.ones(3)]),
             lambda: D.default_collate([[1, 2], [3]]),
             lambda: D.default_collate([]), lambda: D.default_collate([{"a": 1}, {"b": 1}]), lambda: D.default_collate([1j]),
             lambda: L(data, shuffle=True, sampler=[1]), lambda: L(data, 0), lambda: L(data, batch_sampler=[[1]], shuffle=True),
             lambda: L(data, None, drop_last=True), lambda: L(data, num_workers=-1), lambda: L(data, timeout=-1),
             lambda: L(data, prefetch_factor=2), lambda: L(data, persistent_workers=True), lambda: L(Endless(), shuffle=True),
             lambda: L(Endless(), sampler=[1]), lambda: L(data, multiprocessing_context="spawn"), lambda: L([], shuffle=True),
             lambda: L(data, num_workers=1, multiprocessing_context=3), lambda: setattr(L(data), "batch_size", 3),
             lambda: len(L(Endless())),
             lambda: list(L([1, None], 2))]
    return [str(type(attempt(t)).__name__) if not isinstance(attempt(t), Exception) else attempt(t) for t in tries]


@case
def data_collate(T):
    import collections
    D = T.utils.data
    Pair = collections.namedtuple("Pair", "a b")
    batches = [[1, 2], [1.5, 2], [True, False], ["a", "b"], [{"a": 1, "b": T.ones(2)}, {"a": 2, "b": T.zeros(2)}],
               [(1, 2.0), (3, 4.0)], [[1, 2], [3, 4]], [Pair(1, 2), Pair(3, 4)], [T.ones(2), T.zeros(2)], [range(3), range(3)],
               [collections.OrderedDict(a=1), collections.OrderedDict(a=2)], [(), ()], [2 ** 40, 1],
               [{"x": [("s", 1), ("t", 2.5)]}] * 2]
    answers = []
    for batch in batches:
        made = D.default_collate(batch)
        answers.append([type(made).__name__, made, str(getattr(made, "dtype", None)).split(".")[-1]])
    return answers
