"""Cases of reductions, views, movement, indexing and of making tensors."""

import torch
from cases import B, F, H, I, MOVE, OUT, T, U, V, Lst, case

ALL = I + U + B + F + H


def W(*shape, **more):
    """Small whole numbers: what is moved stays exact in every type."""
    return T(*shape, **{"low": 0, "high": 9, "kind": "i", **more})


def positions(*shape, below):
    return T(*shape, dtype="int64", low=0, high=below - 1, kind="i", grad=False)


def move(op, fn, *inputs, **args):
    """The same case in every type, from whole numbers; inputs: shapes of x."""
    for shape in inputs:
        case(op, fn, MOVE, x=W(*shape), **args)


# ---- reductions ----

REDUCTIONS = {
    "sum": lambda x, **k: torch.sum(x, **k),
    "mean": lambda x, **k: torch.mean(x, **k),
    "prod": None,
    "amax": lambda x, **k: torch.amax(x, **k),
    "amin": lambda x, **k: torch.amin(x, **k),
    "any": lambda x, **k: torch.any(x, **k),
    "all": lambda x, **k: torch.all(x, **k),
    "sum_square": lambda x, **k: torch.sum(real(x) * x, **k),
    "norm1": lambda x, **k: torch.sum(torch.abs(real(x)), **k),
    "norm2": lambda x, **k: torch.linalg.vector_norm(x, **{**k, "dim": k.get("dim") or None}),
    "count_nonzero": lambda x, **k: (x != 0).sum(**k),
}


def real(x):
    """Not torch's own, of floating point like their kin."""
    if not x.is_floating_point():
        raise TypeError("floating point only")
    return x


def prod(x, dim=(), keepdim=False):
    """torch.prod takes one dimension."""
    n = max(x.dim(), 1)
    for d in sorted((d % n for d in (dim or range(n))), reverse=True):
        x = torch.prod(x, d, keepdim=keepdim)
    return x


def reduce_types(name):
    return {"mean": [F, H], "sum_square": [F, H], "norm1": [F, H], "norm2": [F, H]}.get(name, [F, H, I, U, B])


def reduction(name):
    f = REDUCTIONS[name] or prod
    low, high = (0.5, 1.5) if name == "prod" else (0, 1) if name in ("any", "all") else (-3, 3)
    derivative = name not in ("any", "all", "count_nonzero")
    exact = {"ulp": 0} if name in ("amax", "amin", "any", "all", "count_nonzero") else {"ulp": 40} if name == "prod" else {}

    def x(*shape):
        return T(*shape, low=low, high=high)

    def near(n):
        return {} if exact else {"ulp": 2, "near": 3.0 * n}

    for types in reduce_types(name):
        whole = types not in (F, H)
        if name == "prod" and whole:
            low, high = 0, 2
        case(name, lambda x: f(x), types, grad=derivative, **exact, **near(48), x=x(2, 3, 4, 2))
        for dims, keep in (((1,), False), ((0, 3), True), ((-1,), False), ((), True)):
            if name in ("any", "all") and not dims:
                continue  # torch.any and torch.all alone reduce nothing then
            case(
                name + "_dims",
                lambda x, dims, keepdim: f(x, dim=dims, keepdim=keepdim),
                types,
                grad=derivative and not keep,
                **exact,
                **near(48),
                x=x(2, 3, 4, 2),
                dims=dims,
                keepdim=keep,
            )
    # more than one block of 1,024, along both kinds of strides
    if name != "prod":
        for shape, dims in (((2, 2100), (1,)), ((1300, 3), (0,)), ((3, 1025, 2), (1,))):
            case(
                name + "_dims",
                lambda x, dims, keepdim: f(x, dim=dims, keepdim=keepdim),
                F,
                grad=False,
                **exact,
                **near(shape[0] * 1000),
                x=x(*shape),
                dims=dims,
                keepdim=False,
            )
        case(name, lambda x: f(x), F, grad=False, **exact, **near(5000), x=x(70, 71))
    case(name, lambda x: f(x), F, **exact, **near(3), grad=derivative, x=T(values=[2.5]))
    if name not in ("amax", "amin"):
        case(
            name + "_dims",
            lambda x, dims, keepdim: f(x, dim=dims, keepdim=keepdim),
            F,
            grad=False,
            **exact,
            **near(3),
            x=x(3, 0),
            dims=(1,),
            keepdim=False,
        )
    if name in ("amax", "amin"):
        case(name, lambda x: f(x), F, grad=False, **exact, x=T(4, values=[1.0, float("nan"), 3.0, float("-inf")]))
        case(
            name + "_dims",
            lambda x, dims, keepdim: f(x, dim=dims, keepdim=keepdim),
            F,
            second=False,
            **exact,
            x=T(2, 4, values=[1, 3, 3, 0, 2, 2, 2, 2.0]),
            dims=(1,),
            keepdim=False,
        )


def positions_of_extremes():
    for types in (F, I, U):
        for name in ("max", "min"):
            f = getattr(torch, name)
            case(
                name + "_dim",
                lambda x, dim, keepdim: f(x, dim, keepdim),
                types,
                ulp=0,
                second=False,
                x=T(2, 3, 4, 2),
                dim=2,
                keepdim=False,
                indices=OUT,
            )
            case(
                name + "_dim",
                lambda x, dim, keepdim: f(x, dim, keepdim),
                types,
                ulp=0,
                second=False,
                x=T(3, 5),
                dim=-2,
                keepdim=True,
                indices=OUT,
            )
            case(name, lambda x: f(x), types, ulp=0, second=False, x=T(2, 3, 4, 2))
            g = getattr(torch, "arg" + name)
            case("arg" + name, lambda x: g(x), types, grad=False, x=T(2, 3, 4, 2))
            for dim, keep in ((0, False), (3, True)):
                case(
                    f"arg{name}_dim",
                    lambda x, dim, keepdim: g(x, dim, keepdim),
                    types,
                    grad=False,
                    x=T(2, 3, 4, 2),
                    dim=dim,
                    keepdim=keep,
                )
    nan = T(2, 3, values=[1, float("nan"), float("nan"), 5, 5, 2])
    case("argmax_dim", lambda x, dim, keepdim: torch.argmax(x, dim, keepdim), F, grad=False, x=nan, dim=1, keepdim=False)
    case("argmin_dim", lambda x, dim, keepdim: torch.argmin(x, dim, keepdim), F, grad=False, x=nan, dim=1, keepdim=False)
    case(
        "max_dim",
        lambda x, dim, keepdim: torch.max(x, dim, keepdim),
        F,
        ulp=0,
        grad=False,
        x=nan,
        dim=1,
        keepdim=False,
        indices=OUT,
    )


def statistics():
    for types in (F, H):
        for name in ("var", "std"):
            f = getattr(torch, name)
            case(name, lambda x: f(x), types, x=T(2, 3, 4, 2))
            for dims, correction in (((1,), 1), ((0, 3), 0), ((), 2)):
                case(
                    name + "_dims",
                    lambda x, dims, correction, keepdim: f(x, dim=dims or None, correction=correction, keepdim=keepdim),
                    types,
                    x=T(2, 3, 4, 2),
                    dims=dims,
                    correction=correction,
                    keepdim=correction == 0,
                )
        for p in (1.0, 2.0, 3.0, float("inf")):
            case("norm", lambda x, p: torch.linalg.vector_norm(x, p), types, second=p < 9, x=T(2, 3, 2, 2), p=p)
            case(
                "norm_dims",
                lambda x, p, dims, keepdim: torch.linalg.vector_norm(x, p, dim=dims, keepdim=keepdim),
                types,
                second=p < 9,
                x=T(2, 3, 2, 2),
                p=p,
                dims=(1,),
                keepdim=True,
            )
        for dims, keep in (((1,), False), ((0, 2), True)):
            case(
                "logsumexp",
                lambda x, dims, keepdim: torch.logsumexp(x, dims, keepdim),
                types,
                x=T(2, 3, 4, 2),
                dims=dims,
                keepdim=keep,
            )
    case(
        "logsumexp",
        lambda x, dims, keepdim: torch.logsumexp(x, dims, keepdim),
        F,
        grad=False,
        x=T(2, 2, values=[1000.0, 1000.0, float("-inf"), float("-inf")]),
        dims=(1,),
        keepdim=False,
    )
    for types in (F, H, I, U, B):
        for dim in (0, 2, -1):
            case("cumsum", lambda x, dim: torch.cumsum(x, dim), types, near=40.0, x=T(2, 3, 4, 2), dim=dim)
    case("cumsum", lambda x, dim: torch.cumsum(x, dim), MOVE[:2], x=W(3, 70), dim=1)


# ---- views and movement ----


def views():
    s = (2, 3, 4, 2)
    move("view", lambda x, shape: x.view(shape), s, shape=(2, 3, 2, 2, 2))
    move("view", lambda x, shape: x.view(shape), s, layouts="c", shape=(6, -1))
    move("view", lambda x, shape: x.view(shape), (), (1,), shape=(1, 1))
    move("view", lambda x, shape: x.view(shape), (0, 3), shape=(3, 2, 0))
    move("reshape", lambda x, shape: x.reshape(shape), s, shape=(4, 3, -1))
    move("reshape", lambda x, shape: x.reshape(shape), (), (1,), shape=(1, 1))
    move("reshape", lambda x, shape: x.reshape(shape), (0, 3), shape=(3, 0))
    move("flatten", lambda x, start_dim, end_dim: torch.flatten(x, start_dim, end_dim), s, start_dim=1, end_dim=-1)
    move("flatten", lambda x, start_dim, end_dim: torch.flatten(x, start_dim, end_dim), (), (3, 2), start_dim=0, end_dim=-1)
    move("unflatten", lambda x, dim, shape: torch.unflatten(x, dim, shape), s, dim=2, shape=(2, -1))
    move("transpose", lambda x, dim0, dim1: x.transpose(dim0, dim1), s, dim0=-1, dim1=1)
    move("t", lambda x: x.t(), (3, 4), (5,))
    move("permute", lambda x, dims: x.permute(dims), s, dims=(2, 0, -1, 1))
    move("permute", lambda x, dims: x.permute(dims), (), dims=())
    move("expand", lambda x, shape: x.expand(shape), (2, 3, 1, 2), shape=(2, -1, 4, 2))
    move("expand", lambda x, shape: x.expand(shape), (), (3,), shape=(2, 3))
    move("expand_as", lambda x, like: x.expand_as(like), (3, 1, 1), like=W(2, 3, 4, 2, grad=False))
    move("squeeze", lambda x: x.squeeze(), (1, 3, 1, 2))
    move("squeeze_dim", lambda x, dim: x.squeeze(dim), (3, 1, 2, 2), (3, 2), dim=1)
    move("unsqueeze", lambda x, dim: x.unsqueeze(dim), (3, 2, 2, 2), dim=-1)
    move("narrow", lambda x, dim, start, length: x.narrow(dim, start, length), s, dim=2, start=1, length=2)
    move("select", lambda x, dim, index: x.select(dim, index), s, dim=1, index=-1)
    for dim, start, stop, step in ((2, 0, 4, 2), (1, -2, 9, 1), (0, 1, 1, 1), (2, 1, 4, 3)):
        move(
            "slice",
            lambda x, dim, start, stop, step: x[(slice(None),) * dim + (slice(start, stop, step),)],
            s,
            dim=dim,
            start=start,
            stop=stop,
            step=step,
        )
    move("unfold", lambda x, dim, size, step: x.unfold(dim, size, step), (2, 7, 2, 2), dim=1, size=3, step=2)
    move("unfold", lambda x, dim, size, step: x.unfold(dim, size, step), (), dim=0, size=1, step=1)
    move("diagonal", lambda x, offset, dim0, dim1: x.diagonal(offset, dim0, dim1), (3, 4, 2, 2), offset=1, dim0=0, dim1=1)
    move(
        "as_strided",
        lambda x, shape, strides, offset: x.as_strided(shape, strides, offset),
        (12,),
        layouts="c",
        shape=(2, 3),
        strides=(4, 2),
        offset=1,
    )
    move(
        "as_strided",
        lambda x, shape, strides, offset: x.as_strided(shape, strides, offset),
        (12,),
        layouts="c",
        shape=(3, 4),
        strides=(2, 1),
        offset=0,
    )
    move(
        "as_strided",
        lambda x, shape, strides, offset: x.as_strided(shape, strides, offset),
        (0,),
        shape=(0, 2),
        strides=(2, 1),
        offset=0,
    )
    move("alias", lambda x: x.view_as(x), s)
    move("clone", lambda x: x.clone(), s, (), (0, 2))
    move("contiguous", lambda x: x.contiguous(), s)
    move("sum_to", lambda x, shape: x.sum_to_size(shape).to(x.dtype), s, shape=(3, 1, 2))
    move("sum_to", lambda x, shape: x.sum_to_size(shape).to(x.dtype), (2, 3), (), shape=())
    for dims in ((0,), (1, 3), (-1,)):
        move("flip", lambda x, dims: x.flip(dims), s, dims=dims)
    for shift, dim in ((1, 0), (-2, 2), (5, 2)):
        move("roll", lambda x, shift, dim: x.roll(shift, dim), s, shift=shift, dim=dim)
    move("repeat", lambda x, repeats: x.repeat(repeats), (2, 1, 3, 2), repeats=(2, 1, 2, 1, 1))
    move(
        "repeat_interleave", lambda x, repeats, dim: x.repeat_interleave(repeats, dim), (2, 3, 1, 2), repeats=2, dim=1
    )
    for diagonal in (0, 1, -1):
        move("tril", lambda x, diagonal: x.tril(diagonal), (2, 2, 3, 4), diagonal=diagonal)
        move("triu", lambda x, diagonal: x.triu(diagonal), (2, 2, 3, 4), diagonal=diagonal)
    for dim in (0, 1, -1):
        case(
            "cat",
            lambda tensors, dim: torch.cat(tensors, dim),
            MOVE,
            tensors=Lst(*[W(*[2 + (k if d == dim % 4 else 0) for d in range(4)]) for k in range(3)]),
            dim=dim,
        )
        case(
            "stack",
            lambda tensors, dim: torch.stack(tensors, dim),
            MOVE,
            tensors=Lst(W(2, 3, 2, 2), W(2, 3, 2, 2)),
            dim=dim,
        )
    case(
        "cat",
        lambda tensors, dim: torch.cat(tensors, dim),
        ("default",),
        grad=False,
        tensors=Lst(W(2, dtype="int32"), W(1, dtype="float16"), W(0, dtype="bool")),
        dim=0,
    )


# ---- indexing ----


def indexing():
    s = (3, 4, 2, 2)
    rows = T(3, 2, 2, 1, dtype="int64", values=[0, 3, 1, 2, 3, 0, 2, 2, 1, 1, 0, 3], grad=False)
    once = T(2, 4, 2, 1, dtype="int64", values=[0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 2, 0, 1, 2], grad=False)
    case("gather", lambda x, dim, index: torch.gather(x, dim, index), MOVE, x=W(*s), dim=1, index=rows)
    case(
        "scatter",
        lambda x, dim, index, src: torch.scatter(x, dim, index, src),
        MOVE,
        x=W(*s),
        dim=0,
        index=once,
        src=W(2, 4, 2, 1),
    )
    case(
        "scatter_value",
        lambda x, dim, index, value: torch.scatter(x, dim, index, value),
        MOVE,
        x=W(*s),
        dim=0,
        index=once,
        value=V(7),
    )
    case(
        "scatter_add",
        lambda x, dim, index, src: torch.scatter_add(x, dim, index, src),
        MOVE,
        x=W(*s),
        dim=1,
        index=rows,
        src=W(3, 2, 2, 1),
    )
    case(
        "scatter_add",
        lambda x, dim, index, src: torch.scatter_add(x, dim, index, src),
        F,
        near=60.0,
        grad=False,
        x=T(3),
        dim=0,
        index=positions(300, below=3),
        src=T(300),
    )
    one = T(5, dtype="int64", values=[2, 0, 2, 1, 2], grad=False)
    case("index_select", lambda x, dim, index: torch.index_select(x, dim, index), MOVE, x=W(*s), dim=0, index=one)
    case("index_select", lambda x, dim, index: torch.index_select(x, dim, index), MOVE, x=W(*s), dim=-2, index=one)
    case(
        "index_add",
        lambda x, dim, index, src: torch.index_add(x, dim, index, src),
        MOVE,
        x=W(3, 2, 2, 2),
        dim=0,
        index=one,
        src=W(5, 2, 2, 2),
    )
    a, b = positions(3, 1, below=3), positions(2, below=4)
    for indices in (
        Lst(one),
        Lst(a, b),
        Lst(None, b),
        Lst(a, None, T(2, dtype="int64", values=[1, -2], grad=False)),
        Lst(None, None, b),
    ):
        if indices.tensors[-1] is b and len(indices.tensors) == 3:
            indices = Lst(None, None, positions(2, 2, below=2))
        where = indices.tensors
        case(
            "index",
            lambda x, indices: x[tuple(slice(None) if i is None else i for i in indices)],
            MOVE,
            x=W(*s),
            indices=indices,
        )
        shape = torch.zeros(s)[
            tuple(slice(None) if i is None else i.numbers(("int64",), 1, False).long() * 0 for i in where)
        ].shape
        case(
            "index_put",
            lambda x, indices, values, accumulate: put(x, indices, values, accumulate),
            MOVE,
            x=W(*s),
            indices=indices,
            values=W(*shape),
            accumulate=True,
        )
    rows2 = T(2, dtype="int64", values=[2, 0], grad=False)
    case(
        "index_put",
        lambda x, indices, values, accumulate: put(x, indices, values, accumulate),
        MOVE,
        x=W(*s),
        indices=Lst(rows2),
        values=W(2, 4, 2, 2),
        accumulate=False,
    )
    case(
        "index_put",
        lambda x, indices, values, accumulate: put(x, indices, values, accumulate),
        MOVE,
        x=W(*s),
        indices=Lst(None, rows2),
        values=W(2),
        accumulate=False,
    )
    mask = T(3, 4, dtype="bool", values=[1, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 0], grad=False)
    case("masked_select", lambda x, mask: torch.masked_select(x, mask), MOVE, x=W(3, 4), mask=mask)
    case("masked_select", lambda x, mask: torch.masked_select(x, mask), MOVE, x=W(3, 2, 2, 2), mask=mask.like((3, 2, 2, 1)))
    case("nonzero", lambda x: torch.nonzero(x), F, grad=False, x=T(2, 3, 2, 2, low=0, high=1, kind="i"))
    case(
        "nonzero",
        lambda x: torch.nonzero(x),
        F + I + U + B,
        grad=False,
        x=T(3, 4, values=[0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1]),
    )
    case("nonzero", lambda x: torch.nonzero(x), F, grad=False, x=T(2, 2, values=[0, 0, 0, 0]))
    case(
        "embedding",
        lambda weight, index, padding_idx: torch.nn.functional.embedding(index, weight),
        F + H,
        whole=True,
        weight=W(5, 3),
        index=T(dtype="int64", values=[4], grad=False),
        padding_idx=-1,
    )
    case(
        "embedding",
        lambda weight, index, padding_idx: torch.nn.functional.embedding(
            index, weight, padding_idx if padding_idx >= 0 else None
        ),
        F + H,
        whole=True,
        weight=W(5, 3),
        index=T(2, 2, 1, 2, dtype="int64", values=[0, 4, 4, 1, 2, 2, 4, 0], grad=False),
        padding_idx=-1,
    )
    case(
        "embedding",
        lambda weight, index, padding_idx: torch.nn.functional.embedding(index, weight, padding_idx),
        F + H,
        whole=True,
        weight=W(5, 3),
        index=T(2, 3, dtype="int64", values=[0, 4, 4, 1, 2, 2], grad=False),
        padding_idx=4,
    )
    case(
        "one_hot",
        lambda index, classes: torch.nn.functional.one_hot(index, classes),
        ("int64",),
        grad=False,
        index=T(2, 3, 2, 2, low=0, high=3),
        classes=5,
    )
    case(
        "one_hot",
        lambda index, classes: torch.nn.functional.one_hot(index, classes),
        ("default",),
        grad=False,
        index=T(3, dtype="int64", values=[2, 0, 3], grad=False),
        classes=-1,
    )


# ---- making tensors, casts ----


def casts():
    floats = [0.0, 1.5, -1.5, 2.7, -0.5, 100.0, -3.0, 0.1]
    for a in ALL:
        values = (
            floats
            if a in F + H
            else [0, 1, 2, 100, 77, 5, 3, 9] if a in U else [0, 1] * 4 if a in B else [0, 1, -2, 100, -77, 5, 3, 9]
        )
        for b in ALL:
            if b in U and a in F + H:
                values = [0.0, 1.5, 2.7, 100.0, 0.1, 3.0, 0.9, 254.99]
            x = torch.tensor(values, dtype=getattr(torch, a)).double().tolist()  # as the type holds them
            case(
                "to_dtype",
                lambda x, dtype: x.to(dtype),
                ("default",),
                ulp=0,
                grad=False,
                x=T(8, dtype=a, values=x),
                dtype=getattr(torch, b),
            )
    case("to_dtype", lambda x, dtype: x.to(dtype), ("float64",), whole=True, x=W(3, 2), dtype=torch.float32)
    case("to_dtype", lambda x, dtype: x.to(dtype), MOVE, grad=False, x=W(2, 3, 2, 2), dtype=torch.float32)
    case("to_dtype", lambda x, dtype: x.to(dtype), MOVE, grad=False, x=W(2, 3, 2, 2), dtype=torch.int16)


def making():
    for t in ALL:
        d = (t,)
        dtype = getattr(torch, t)
        for shape in ((2, 3), (), (0, 3)):
            case("zeros", lambda shape: torch.zeros(shape, dtype=dtype), d, grad=False, shape=shape)
            case("ones", lambda shape: torch.ones(shape, dtype=dtype), d, grad=False, shape=shape)
            case("full", lambda shape, value: torch.full(shape, value, dtype=dtype), d, grad=False, shape=shape, value=V(1))
        if t not in B:
            case(
                "arange",
                lambda start, end, step: torch.arange(start, end, step, dtype=dtype),
                d,
                ulp=1,
                grad=False,
                start=V(1),
                end=V(12),
                step=V(3),
            )
        for columns in (3, 0):
            case("eye", lambda rows, columns: torch.eye(rows, columns, dtype=dtype), d, grad=False, rows=2, columns=columns)
    for value in (True, 3, 2.5):
        case("full", lambda shape, value: torch.full(shape, value), ("default",), grad=False, shape=(), value=V(value))
    for start, end, step in ((0, 5, 1), (0.0, 1.0, 0.1), (5, 0, -2), (0, 3, 0.5), (1, 1, 1), (-1.0, 1.0, 0.3)):
        case(
            "arange",
            lambda start, end, step: torch.arange(start, end, step),
            ("default",),
            ulp=2,
            grad=False,
            start=V(start),
            end=V(end),
            step=V(step),
        )
    for start, end, steps in ((0.0, 1.0, 11), (-3.0, 7.0, 6), (2.0, 5.0, 1), (0.0, 1.0, 0)):
        case(
            "linspace",
            lambda start, end, steps: torch.linspace(start, end, steps, dtype=torch.float64),
            ("float32", "float64"),
            ulp=2,
            near=8.0,
            grad=False,
            start=start,
            end=end,
            steps=steps,
        )
    for name in ("zeros", "ones"):
        f = getattr(torch, name + "_like")
        case(name + "_like", lambda x: f(x), F + H + I + U, grad=False, x=W(3, 4))
    case("full_like", lambda x, value: torch.full_like(x, value), F + H + I + U, grad=False, x=W(3, 4), value=V(2))


def random():
    """Numbers drawn on the CPU after fa_manual_seed, PyTorch's bit for bit."""

    def draw(name, types=("default",), **args):
        def f(**k):
            torch.manual_seed(3)
            return RANDOM[name](**k)

        case(name, f, types, ulp=0, grad=False, bits=False, seed=3, **args)

    RANDOM = {
        "rand": lambda shape: torch.rand(shape),
        "randn": lambda shape: torch.randn(shape),
        "randint": lambda low, high, shape: torch.randint(low, high, shape),
        "randperm": lambda n: torch.randperm(n),
        "dropout": lambda x, p, training: torch.dropout(x, p, training),
    }
    for n in (5, 40):
        draw("rand", shape=(n,))
        draw("randn", shape=(n,))
        draw("randint", low=-3, high=17, shape=(n,))
        draw("randperm", n=n)
    draw("dropout", x=T(40, dtype="float32", values=[float(i) for i in range(40)]), p=0.5, training=True)


def put(x, indices, values, accumulate):
    return torch.index_put(x, tuple(at(x, indices)), values, accumulate)


def at(x, indices):
    """None takes the whole dimension, as a slice would: spelt out, for torch.index_put has no slices."""
    given = [k for k, i in enumerate(indices) if i is not None]
    n = torch.broadcast_shapes(*[indices[k].shape for k in given])
    together = given == list(range(given[0], given[-1] + 1))
    order = ([("whole", d) for d in range(given[0])] + [("given", 0)] if together else [("given", 0)]) + [
        ("whole", d) for d in range(x.dim()) if d not in given and not (together and d < given[0])
    ]
    total = len(n) + sum(kind == "whole" for kind, _ in order)
    place, out = 0, {}
    for kind, d in order:
        if kind == "given":
            for k in given:
                i = torch.where(indices[k] < 0, indices[k] + x.shape[k], indices[k]).expand(n)
                out[k] = i.reshape((1,) * place + tuple(n) + (1,) * (total - place - len(n)))
            place += len(n)
        else:
            out[d] = torch.arange(x.shape[d]).reshape((1,) * place + (-1,) + (1,) * (total - place - 1))
            place += 1
    return [out[d] for d in range(x.dim())]


def make():
    for name in REDUCTIONS:
        reduction(name)
    positions_of_extremes()
    statistics()
    views()
    indexing()
    casts()
    making()
    random()
