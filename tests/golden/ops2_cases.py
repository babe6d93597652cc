"""Cases of what programs do with tensors beyond arithmetic: order, counting, statistics, products, shapes, special functions."""

import elementwise_cases
import torch
from cases import B, F, H, I, MOVE, OUT, T, U, V, Lst, case

NAN, INF = float("nan"), float("inf")
REAL_AND_WHOLE = (F, H, I, U)


def distinct(*shape, **more):
    """Each value once, so that places are what every sort finds."""
    return T(*shape, **{"kind": "p", **more})


# ---- order ----


def sorting():
    for types in REAL_AND_WHOLE:
        x = distinct(2, 3, 4, 5) if types not in (U, H) else distinct(2, 3, 2, 4)
        layouts = None if types == F else "c"
        whole = {"whole": True, "ulp": 0}
        for dim, down in ((1, False), (-1, True), (0, False)):
            if types == U:
                x = T(2, 3, 4, low=0, high=3, kind="i")  # equal ones keep their order
            case("sort", lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True), types, layouts, **whole,
                 x=x, dim=dim, descending=down, indices=OUT)
            case("argsort", lambda x, dim, descending: torch.argsort(x, dim=dim, descending=descending, stable=True), types, layouts, **whole,
                 x=x, dim=dim, descending=down)
        x = distinct(2, 3, 4, 5) if types != U else distinct(2, 3, 4, kind="i", low=0, high=200)
        if types == U:
            x, layouts = T(2, 3, 2, 2, values=[i * 37 % 251 for i in range(24)]), None
        case("msort", lambda x: torch.msort(x), types, layouts, **whole, x=x)
        for k, dim, largest in ((2, -1, True), (1, 1, False), (0, 0, True)):
            case("topk", lambda x, k, dim, largest: torch.topk(x, k, dim, largest), types, layouts, **whole, grad=k > 0,
                 x=x, k=k, dim=dim, largest=largest, indices=OUT)
        for k, dim, keep in ((1, 0, False), (2, -1, True)):
            case("kthvalue", lambda x, k, dim, keepdim: torch.kthvalue(x, k, dim, keepdim), types, layouts, **whole,
                 x=x, k=k, dim=dim, keepdim=keep, indices=OUT)
        case("median", lambda x: torch.median(x), types, layouts, **whole, x=x)
        case("nanmedian", lambda x: torch.nanmedian(x), types, layouts, **whole, x=x)
        for dim, keep in ((0, True), (-1, False)):
            case("median_dim", lambda x, dim, keepdim: torch.median(x, dim, keepdim), types, layouts, **whole,
                 x=x, dim=dim, keepdim=keep, indices=OUT)
            case("nanmedian_dim", lambda x, dim, keepdim: torch.nanmedian(x, dim, keepdim), types, layouts, **whole,
                 x=x, dim=dim, keepdim=keep, indices=OUT)
    strange = T(2, 5, values=[1, NAN, -INF, 3, -0.0, INF, 2, NAN, 2, -7])
    for down in (False, True):
        case("sort", lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True), F, grad=False, ulp=0,
             x=strange, dim=1, descending=down, indices=OUT)
    case("median", lambda x: torch.median(x), F, "c", grad=False, x=strange)
    case("nanmedian", lambda x: torch.nanmedian(x), F, "c", grad=False, x=strange)
    case("nanmedian_dim", lambda x, dim, keepdim: torch.nanmedian(x, dim, keepdim), F, "c", grad=False, x=strange, dim=0,
         keepdim=False, indices=OUT)
    case("median_dim", lambda x, dim, keepdim: torch.median(x, dim, keepdim), F, "c", second=False, whole=True,
         x=T(2, 3, values=[1, NAN, 2, 5, 4, 6]), dim=1, keepdim=False, indices=OUT)
    case("median", lambda x: torch.median(x), F, "c", second=False, x=T(5, values=[2, 1, 2, 3, 2.0]))
    # rows longer than a block, and than what is sorted without working memory
    for n, down in ((300, False), (1500, True)):
        case("sort", lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True), F, grad=False, ulp=0,
             x=distinct(2, n), dim=1, descending=down, indices=OUT)
        case("sort", lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True), I + ("uint8",), "c", ulp=0,
             x=T(n, low=0, high=9, kind="i"), dim=0, descending=down, indices=OUT)
        case("topk", lambda x, k, dim, largest: torch.topk(x, k, dim, largest), F, grad=False, ulp=0,
             x=distinct(n, 2), k=7, dim=0, largest=down, indices=OUT)
    case("sort", lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True), H, "c", grad=False, ulp=0,
         x=T(700, low=-3, high=3), dim=0, descending=False, indices=OUT)
    case("sort", lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True), B, "c", grad=False,
         x=T(7, low=0, high=1), dim=0, descending=True, indices=OUT)
    for op, k in (("sort", {"descending": False}), ("topk", {"k": 1, "largest": True}), ("kthvalue", {"k": 1, "keepdim": False})):
        case(op, lambda x, dim, op=op, **k: getattr(torch, op)(x, dim=dim, **k), F, "c", ulp=0, x=T(), dim=0, indices=OUT, **k)


def mode(x, dim, keepdim):
    """The place is the last one, which torch gives for rows as short as these."""
    return torch.mode(x, dim, keepdim)


def frequent():
    for types in (F, I, U):
        x = T(3, 2, 2, 5, low=0, high=3, kind="i")
        for dim, keep in ((0, True), (1, False), (-1, True)):
            case("mode", mode, types, second=False, whole=True, ulp=0, x=x, dim=dim, keepdim=keep, indices=OUT)


def running():
    for types in REAL_AND_WHOLE:
        for name in ("cummax", "cummin"):
            f = getattr(torch, name)
            x = T(2, 3, 4, 2, low=0, high=5) if types == F else T(2, 3, 4, low=0, high=5, kind="i")
            for dim in (0, 1, -1):
                case(name, lambda x, dim: f(x, dim), types, None if types == F else "c", ulp=0, second=False, x=x, dim=dim, indices=OUT)
            case(name, lambda x, dim: f(x, dim), types, "c", ulp=0, grad=False, x=T(70, 3, low=0, high=9, kind="i"), dim=0, indices=OUT)
            if types == F:
                case(name, lambda x, dim: f(x, dim), F, "c", ulp=0, grad=False, x=distinct(5000), dim=0, indices=OUT)
                case(name, lambda x, dim: f(x, dim), F, "c", ulp=0, grad=False, x=T(5, values=[1, 3, NAN, 4, NAN]), dim=0, indices=OUT)
    for types in (F, H):
        for dim in (0, -1):
            case("logcumsumexp", lambda x, dim: torch.logcumsumexp(x, dim), types, x=T(3, 2, 2, 4), dim=dim)
    case("logcumsumexp", lambda x, dim: torch.logcumsumexp(x, dim), F, "c", grad=False, x=T(2, 300), dim=1)
    case("logcumsumexp", lambda x, dim: torch.logcumsumexp(x, dim), F, "c", second=False,
         x=T(4, values=[-INF, 1, 2, -INF]), dim=0)


def searching():
    for types in (F, H, I):
        edges = T(6, values=[-3, -1, -1, 0, 2, 3.0])
        v = T(3, 2, 2, 4, low=-4, high=4, kind="i")
        for right in (False, True):
            for small in (False, True):
                case("searchsorted", lambda sorted, values, right, out_int32: torch.searchsorted(
                    sorted, values, right=right, out_int32=out_int32), types, grad=False, sorted=edges, values=v, right=right,
                    out_int32=small)
            case("bucketize", lambda x, boundaries, right, out_int32: torch.bucketize(x, boundaries, right=right, out_int32=out_int32),
                 types, grad=False, x=v, boundaries=edges, right=right, out_int32=False)
        case("searchsorted", lambda sorted, values, right, out_int32: torch.searchsorted(sorted, values), types, grad=False,
             sorted=T(2, 3, values=[0, 1, 2, -3, 0, 3.0]), values=T(2, 4, low=-4, high=4, kind="i"), right=False, out_int32=False)
    case("searchsorted", lambda sorted, values, right, out_int32: torch.searchsorted(sorted, values), F, "c", grad=False,
         sorted=T(4, values=[0, 1, 2, NAN]), values=T(4, values=[NAN, 5, 1, -INF]), right=False, out_int32=False)


# ---- random ----


def draw(op, fn, seed=77, **args):
    case(op, fn, ("default",), "c", grad=False, bits=False, ulp=0, seed=seed, **args)


def seeded(f):
    def run(**args):
        torch.manual_seed(77)
        return f(**args)

    run.__signature__ = __import__("inspect").signature(f)
    return run


def random():
    for t in F + H:
        law = [(i * 37 % 11) / 11 for i in range(40)]
        p, rows = T(40, dtype=t, values=law), T(4, 10, dtype=t, values=law)
        for n, again in ((1, False), (7, False), (50, True), (1, True)):
            for x in (p, rows):
                draw("multinomial", seeded(lambda p, n, replacement: torch.multinomial(p, n, replacement)), p=x, n=n, replacement=again)
        draw("bernoulli", seeded(lambda p: torch.bernoulli(p)), p=p)
    for t in F:
        mean, std = T(20, dtype=t, low=-3, high=3), T(20, dtype=t, low=0.5, high=2)
        draw("normal", seeded(lambda mean, std: torch.normal(mean, std)), mean=mean, std=std)
        draw("normal_mean", seeded(lambda mean, std: torch.normal(mean, std)), mean=mean, std=1.5)
        draw("normal_std", seeded(lambda mean, std: torch.normal(mean, std)), mean=0.25, std=std)
        draw("exponential_", seeded(lambda t, **k: t.exponential_(k["lambda"])), t=T(20, dtype=t, values=[0.0] * 20), **{"lambda": 1.5})
    for t in F + H + I + U:
        draw("random_", seeded(lambda t: t.random_()), t=T(20, dtype=t, values=[0.0] * 20))
        draw("random_range_", seeded(lambda t, low, high: t.random_(low, high)), t=T(20, dtype=t, values=[0.0] * 20), low=3, high=50)


# ---- counting ----


def counting():
    def unique(x, dim=None, **k):
        return torch.unique(x, dim=dim, **k)

    for types in REAL_AND_WHOLE:
        x = T(3, 2, 2, 5, low=0, high=4, kind="i")
        rows = T(4, 2, 1, 2, low=0, high=1, kind="i")
        pairs = T(12, values=[1, 1, 2, 2, 2, 1, 3, 3, 0, 0, 0, 1.0])
        for name, f in (("unique", torch.unique), ("unique_consecutive", torch.unique_consecutive)):
            some = x if name == "unique" else pairs
            case(name, lambda x: f(x), types, grad=False, ulp=0, x=some)
            case(name, lambda x: f(x, return_inverse=True), types, grad=False, ulp=0, x=some, inverse=OUT)
            case(name, lambda x: f(x, return_counts=True), types, grad=False, ulp=0, x=some, counts=OUT)
            for dim in (0, -1):
                case(name + "_dim", lambda x, dim: f(x, dim=dim, return_inverse=True), types, grad=False, ulp=0, x=rows, dim=dim,
                     inverse=OUT)
                case(name + "_dim", lambda x, dim: f(x, dim=dim, return_counts=True), types, grad=False, ulp=0, x=rows, dim=dim,
                     counts=OUT)
        case("isin", lambda x, among, invert: torch.isin(x, among), types, grad=False, x=x,
             among=T(2, 2, values=[0, 2, 2, 5.0]), invert=False)
    case("unique", lambda x: torch.unique(x, return_counts=True), F, "c", grad=False, x=T(5, values=[1, NAN, -INF, NAN, 1]), counts=OUT)
    case("isin", lambda x, among, invert: torch.isin(x, among, invert=True), I, "c", grad=False, x=T(7, low=0, high=9, kind="i"),
         among=T(2, values=[1, 3.0]), invert=True)
    for types in (I, U):
        x = T(9, values=[1, 0, 5, 1, 1, 2, 0, 5, 5.0])
        case("bincount", lambda x, minlength: torch.bincount(x, minlength=minlength), types, x=x, minlength=0)
        case("bincount", lambda x, minlength: torch.bincount(x, minlength=minlength), types, "c", x=x, minlength=9)
        for t in ("float32", "float64", "int32"):
            case("bincount", lambda x, weights, minlength: torch.bincount(x, weights, minlength), ("default",), "c", grad=False,
                 x=T(9, dtype="int64", values=x.values), weights=T(9, dtype=t, low=0, high=5), minlength=2)
    for types in (F,):
        x = T(200, low=-1, high=2)
        for bins, low, high in ((4, 0.0, 1.0), (7, 0.0, 0.0), (1, -1.0, 2.0)):
            case("histc", lambda x, bins, low, high: torch.histc(x, bins, low, high), types, grad=False, ulp=0, x=x, bins=bins,
                 low=low, high=high)


# ---- statistics ----


def statistics():
    for types in REAL_AND_WHOLE:
        x = T(2, 3, 4, 2, low=0, high=5)
        case("aminmax", lambda x: torch.aminmax(x), types, ulp=0, x=x, largest=OUT)
        for dim, keep in ((1, False), (-1, True)):
            case("aminmax_dim", lambda x, dim, keepdim: torch.aminmax(x, dim=dim, keepdim=keepdim), types, ulp=0, x=x, dim=dim,
                 keepdim=keep, largest=OUT)
        case("nansum", lambda x: torch.nansum(x), types, x=x)
        case("nansum_dims", lambda x, dims, keepdim: torch.nansum(x, dims, keepdim), types, x=x, dims=(0, -1), keepdim=False)
        case("diff", lambda x, n, dim: torch.diff(x, n, dim), types, x=x, n=1, dim=1)
        case("diff", lambda x, n, dim: torch.diff(x, n, dim), types, x=x, n=2, dim=-1)
        case("isclose", lambda x, y, rtol, atol, equal_nan: torch.isclose(x, y, rtol, atol, equal_nan), types, grad=False,
             x=T(3, 2, 2, 4, low=0, high=2), y=T(3, 2, 2, 4, low=0, high=2), rtol=0.25, atol=0.5, equal_nan=False)
    holes = T(2, 4, values=[1, NAN, 2, 4, NAN, NAN, 3, 0.5])
    for types in (F, H):
        case("nansum", lambda x: torch.nansum(x), types, "c", second=False, x=holes)
        case("nanmean", lambda x: torch.nanmean(x), types, second=False, x=T(2, 3, 2, 2))
        case("nanmean_dims", lambda x, dims, keepdim: torch.nanmean(x, dims, keepdim), types, second=False, x=T(2, 3, 2, 2), dims=(1,),
             keepdim=True)
        case("isclose", lambda x, y, rtol, atol, equal_nan: torch.isclose(x, y, rtol, atol, equal_nan), types, "c", grad=False,
             x=T(6, values=[NAN, INF, -INF, 1, NAN, INF]), y=T(6, values=[NAN, INF, INF, 1, 2, 5]), rtol=1e-5, atol=1e-8, equal_nan=True)
    q = T(3, values=[0.1, 0.5, 0.875], grad=False)
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        x = T(3, 5)
        case("quantile", lambda x, q, interpolation: torch.quantile(x, q, interpolation=interpolation), F, x=x, q=q,
             interpolation=how)
        for dim, keep, of in ((0, False, q), (1, True, q), (-1, False, T(values=[0.3], grad=False)), (1, True, T(values=[0.3], grad=False))):
            case("quantile_dim", lambda x, q, dim, keepdim, interpolation: torch.quantile(
                x, q, dim, keepdim, interpolation=interpolation), F, x=x, q=of, dim=dim, keepdim=keep, interpolation=how)
        case("nanquantile", lambda x, q, interpolation: torch.nanquantile(x, q, interpolation=interpolation), F, "c", second=False,
             x=holes, q=q, interpolation=how)
        case("nanquantile_dim", lambda x, q, dim, keepdim, interpolation: torch.nanquantile(
            x, q, dim, keepdim, interpolation=interpolation), F, "c", second=False, x=holes, q=q, dim=1, keepdim=False, interpolation=how)
        case("quantile_dim", lambda x, q, dim, keepdim, interpolation: torch.quantile(
            x, q, dim, keepdim, interpolation=interpolation), F, "c", grad=False, x=holes, q=q, dim=0, keepdim=False, interpolation=how)
    for name in ("var", "std"):
        f = getattr(torch, name + "_mean")
        for types in (F, H):
            for dims, keep, correction in (((1,), False, 1), ((0, 2), True, 0)):
                case(name + "_mean_dims", lambda x, dims, correction, keepdim: f(x, dims, correction=correction, keepdim=keepdim), types, x=T(2, 3, 4, 2), dims=dims, correction=correction, keepdim=keep, mean=OUT)
    for x in (T(3, 5), T(5)):
        case("cov", lambda x, correction: torch.cov(x, correction=correction), F, bits=False, x=x, correction=1)
    case("cov", lambda x, correction: torch.cov(x, correction=correction), F, "c", bits=False, x=T(2, 4), correction=0)
    case("corrcoef", lambda x: torch.corrcoef(x), F, second=False, bits=False, x=T(3, 5))


# ---- shapes ----


def W(*shape, **more):
    """Small whole numbers: what is moved stays exact in every type."""
    return T(*shape, **{"low": 0, "high": 9, "kind": "i", **more})


def shapes():
    x = W(2, 3, 4, 2)
    for types in (MOVE, B):
        def put(op, fn, layouts=None, **args):
            case(op, fn, types, layouts, grad=types == MOVE, **args)

        put("movedim", lambda x, source, destination: torch.movedim(x, source, destination), x=x, source=(0,), destination=(-1,))
        put("movedim", lambda x, source, destination: torch.movedim(x, source, destination), x=x, source=(0, 2), destination=(1, 0))
        put("tile", lambda x, repeats: torch.tile(x, repeats), x=x, repeats=(2,))
        put("tile", lambda x, repeats: torch.tile(x, repeats), x=W(3), repeats=(2, 1, 3))
        put("roll_dims", lambda x, shifts, dims: torch.roll(x, shifts, dims), x=x, shifts=(1, -2), dims=(0, 2))
        put("roll_dims", lambda x, shifts, dims: torch.roll(x, shifts), x=x, shifts=(5,), dims=())
        for k in (1, 2, -1, 4):
            put("rot90", lambda x, k, dim0, dim1: torch.rot90(x, k, (dim0, dim1)), x=x, k=k, dim0=0, dim1=-1)
        times = T(3, dtype="int64", values=[2, 0, 3.0], grad=False)
        put("repeat_interleave_tensor", lambda x, repeats, dim: torch.repeat_interleave(x, repeats, dim), x=x, repeats=times, dim=1)
        put("diag", lambda x, diagonal: torch.diag(x, diagonal), x=W(3), diagonal=1)
        put("diag", lambda x, diagonal: torch.diag(x, diagonal), x=W(3, 4), diagonal=-1)
        put("diagflat", lambda x, offset: torch.diagflat(x, offset), x=W(2, 2), offset=-1)
        for offset, a, b in ((0, -2, -1), (1, 0, 2), (-2, 2, 1)):
            put("diag_embed", lambda x, offset, dim0, dim1: torch.diag_embed(x, offset, dim0, dim1), x=W(2, 3), offset=offset, dim0=a,
                dim1=b)
        put("take", lambda x, index: torch.take(x, index), x=x, index=W(2, 3, dtype="int64", values=[0, 5, -1, 5, 47, -48], grad=False))
        put("take_along_dim", lambda x, index, dim: torch.take_along_dim(x, index, dim), x=x,
            index=W(2, 1, 4, dtype="int64", low=0, high=2, kind="i", grad=False), dim=1)
        put("take_along_dim", lambda x, index, dim: torch.take_along_dim(x, index, dim), x=x,
            index=W(1, 5, 4, dtype="int64", low=0, high=2, kind="i", grad=False), dim=1)
        put("combinations", lambda x, r, with_replacement: torch.combinations(x, r, with_replacement), x=W(4), r=2,
            with_replacement=False)
        put("combinations", lambda x, r, with_replacement: torch.combinations(x, r, with_replacement), x=W(3), r=3,
            with_replacement=True)
        case("cartesian_prod", lambda tensors: torch.cartesian_prod(*tensors), types, grad=types == MOVE, tensors=Lst(W(2), W(3)))
    for types in REAL_AND_WHOLE:
        case("trace", lambda x: torch.trace(x), types, x=T(3, 4, low=0, high=3))
    for f in ("tril_indices", "triu_indices"):
        for r, c, k in ((3, 4, 0), (4, 2, 1), (2, 5, -1)):
            case(f, lambda rows, columns, offset: getattr(torch, f)(rows, columns, offset), ("default",), "c", bits=False, rows=r,
                 columns=c, offset=k)
    at = T(3, dtype="int64", values=[1, -1, 1], grad=False)
    case("put_", lambda t, index, src, accumulate: t.put_(index, src, accumulate=accumulate), F, "ct", grad=False, t=T(2, 3), index=at,
         src=T(3, values=[5, 6, 7.0]), accumulate=True)
    case("put_", lambda t, index, src, accumulate: t.put_(index, src, accumulate=accumulate), F, "ct", grad=False, t=T(2, 3),
         index=T(2, dtype="int64", values=[1, -1], grad=False), src=T(2), accumulate=False)


def scattering():
    at = T(2, 3, dtype="int64", values=[0, 1, 0, 2, 2, 3.0], grad=False)
    wide = T(2, 1, 3, 1, dtype="int64", values=at.values, grad=False)
    for types in REAL_AND_WHOLE:
        for how in ("sum", "prod", "mean", "amax", "amin"):
            low, high = (0.5, 2) if types == F else (1, 3)
            for own in (True, False):
                case("scatter_reduce", lambda x, dim, index, src, reduce, include_self: x.scatter_reduce(
                    dim, index, src, reduce, include_self=include_self), types, second=how not in ("amax", "amin"),
                     x=T(2, 1, 4, 2, low=low, high=high), dim=2, index=wide, src=T(2, 1, 3, 2, low=low, high=high), reduce=how, include_self=own)
                if how != "sum":
                    case("index_reduce", lambda x, dim, index, src, reduce, include_self: x.index_reduce(
                        dim, index, src, reduce, include_self=include_self), types, second=how not in ("amax", "amin"),
                         x=T(4, 2, 1, 2, low=low, high=high), dim=0, index=T(3, dtype="int64", values=[2, 0, 2.0], grad=False),
                         src=T(3, 2, 1, 2, low=low, high=high), reduce=how, include_self=own)
    for k, how in ((1, "prod"), (2, "amax"), (3, "amin")):
        case("scatter_join", lambda x, dim, index, src, how, name=how: x.scatter_reduce(dim, index, src, name), F, second=False,
             x=T(2, 1, 4, 2, low=0.5, high=2), dim=2, index=wide, src=T(2, 1, 3, 2, low=0.5, high=2), how=k)
    many = T(100, dtype="int64", low=0, high=4, kind="i", grad=False)
    for how in ("sum", "prod", "amax"):
        case("scatter_reduce", lambda x, dim, index, src, reduce, include_self: x.scatter_reduce(dim, index, src, reduce), F, "c",
             second=False, ulp=40, near=60.0, x=T(5, low=0.8, high=1.2), dim=0, index=many, src=T(100, low=0.8, high=1.2), reduce=how,
             include_self=True)


# ---- products and distances ----


def products():
    for types in (F, H, I):
        def f(op, fn, layouts=None, **args):
            case(op, fn, types, layouts, bits=types == I, **args)

        a, b = T(2, 3, 4, low=-2, high=2), T(4, 3, 5, low=-2, high=2)
        f("tensordot", lambda a, b, dims_a, dims_b: torch.tensordot(a, b, (dims_a, dims_b)), a=a, b=b, dims_a=(1, 2), dims_b=(1, 0))
        f("tensordot", lambda a, b, dims_a, dims_b: torch.tensordot(a, b, (dims_a, dims_b)), a=a, b=b, dims_a=(-1,), dims_b=(0,))
        f("tensordot", lambda a, b, dims_a, dims_b: torch.tensordot(a, b, (dims_a, dims_b)), a=T(2, 2, 3, 4), b=T(3, 2, 2, 2), dims_a=(2, 1), dims_b=(0, 3))
        f("tensordot", lambda a, b, dims_a, dims_b: torch.tensordot(a, b, 0), a=T(2), b=T(3), dims_a=(), dims_b=())
        f("inner", lambda a, b: torch.inner(a, b), a=T(2, 2, 2, 4), b=T(3, 1, 2, 4))
        f("inner", lambda a, b: torch.inner(a, b), a=T(4), b=T(4))
        f("kron", lambda a, b: torch.kron(a, b), a=T(2, 3, 1, 2), b=T(3, 1, 2, 2))
        f("kron", lambda a, b: torch.kron(a, b), a=T(2), b=T(3, 2))
        f("cross", lambda a, b, dim: torch.linalg.cross(a, b, dim=dim), a=T(2, 2, 2, 3), b=T(2, 2, 2, 3), dim=-1)
        f("cross", lambda a, b, dim: torch.linalg.cross(a, b, dim=dim), a=T(3, 2), b=T(3, 1), dim=0)
        more = {} if types == I else {"beta": 0.5, "alpha": 2.0}
        for extra in ({}, more):
            k = dict(extra)
            f("baddbmm", lambda input, batch1, batch2, **k: torch.baddbmm(input, batch1, batch2, **k), input=T(3, 1), batch1=T(2, 3, 4),
              batch2=T(2, 4, 5), **k)
            f("addbmm", lambda input, batch1, batch2, **k: torch.addbmm(input, batch1, batch2, **k), input=T(3, 5), batch1=T(2, 3, 4),
              batch2=T(2, 4, 5), **k)
            f("addmv", lambda input, mat, vec, **k: torch.addmv(input, mat, vec, **k), input=T(3), mat=T(3, 4), vec=T(4), **k)
            f("addr", lambda input, vec1, vec2, **k: torch.addr(input, vec1, vec2, **k), input=T(3, 4), vec1=T(3), vec2=T(4), **k)
    for p in (2.0, 1.0, 3.0, INF, 0.0):
        case("dist", lambda a, b, p: torch.dist(a, b, p), F, grad=p != 0.0, second=p in (2.0, 3.0), a=T(3, 2, 2, 4), b=T(3, 2, 2, 4), p=p)
        for m, n in ((3, 4), (30, 4)):
            case("cdist", lambda a, b, p: torch.cdist(a, b, p), F, grad=p != 0.0, second=False, bits=m < 30, ulp=4, near=200.0, a=T(2, 1, m, 5), b=T(n, 5), p=p)
    for p in (2.0, 1.0, 3.0):
        case("pairwise_distance", lambda a, b, **k: torch.nn.functional.pairwise_distance(a, b, **k), F, second=p != 1.0, a=T(3, 2, 2, 4),
             b=T(3, 2, 2, 4), p=p, eps=1e-6, keepdim=p == 1.0)
    case("pairwise_distance", lambda a, b: torch.nn.functional.pairwise_distance(a, b), F, "c", a=T(3, 4), b=T(4))
    for types in (F, H):
        case("cosine_similarity", lambda a, b, **k: torch.cosine_similarity(a, b, **k), types, second=False, a=T(3, 4, 2, 2, low=0.5),
             b=T(3, 4, 2, 2, low=0.5))
        case("cosine_similarity", lambda a, b, **k: torch.cosine_similarity(a, b, **k), types, second=False, a=T(3, 4, low=0.5),
             b=T(1, 4, low=0.5), dim=-1, eps=1e-6)


def sines():
    """At whole numbers the sine is nearly 0, and so is what it may be off by."""
    for types, low, high in ((F, 0.3, 0.9), (H, 0.3, 0.9), (I, -3, 3), (U, 0, 3), (B, 0, 1)):
        case("sinc", lambda x: torch.sinc(x), types, ulp=8, near=1.0 if types in (F, H) else 4.0, x=T(2, 3, 4, 2, low=low, high=high))
    case("sinc", lambda x: torch.sinc(x), F, "c", grad=False, ulp=8, near=1.0, x=T(6, values=[0, -0.0, 1, NAN, INF, 0.5]))


def steps():
    """torch wants the same type for both: what they promote to."""

    def heaviside(x, y):
        t = torch.result_type(x, y)
        return torch.heaviside(x.to(t), y.to(t) if isinstance(y, torch.Tensor) else torch.tensor(y, dtype=t))

    for types in (F, H, I, U, B):
        case("heaviside", heaviside, types, grad=False, ulp=0, x=T(2, 3, 4, 2, low=-1, high=1, kind="i" if types != U + B else None),
             y=T(2, 3, 4, 2))
        case("heaviside_scalar", heaviside, types, grad=False, ulp=0, x=T(2, 3, 4, 2, low=-1, high=1), y=V(True))
    case("heaviside_scalar", heaviside, F, "c", grad=False, ulp=0, x=T(5, values=[NAN, -INF, 0, -0.0, 3]), y=V(0.25))


ELEMENTWISE = (
    "copysign xlogy logaddexp logaddexp2 ldexp isposinf isneginf signbit gcd lcm erfinv".split()
)


def make(tables):
    sorting()
    frequent()
    running()
    searching()
    random()
    counting()
    statistics()
    shapes()
    scattering()
    products()
    sines()
    steps()
    elementwise_cases.make([row for row in tables["elementwise"] if row.name in ELEMENTWISE])
