"""Cases of what programs do with tensors beyond arithmetic: order, counting, statistics, products, shapes, special functions."""

import torch
from cases import B, F, H, I, MOVE, OUT, T, U, Lst, case

NAN, INF = float("nan"), float("inf")
ALL = "ctsfnM"
REAL_AND_WHOLE = (F, H, I, U)


def distinct(*shape, **more):
    """Each value once, so that places are what every sort finds."""
    return T(*shape, **{"kind": "p", **more})


# ---- order ----


def sorting():
    for types in REAL_AND_WHOLE:
        x = distinct(2, 3, 4, 5) if types not in (U, H) else distinct(2, 3, 2, 4)
        layouts = ALL if types == F else "c"
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
            x = T(3, 4, values=[7, 200, 3, 9, 1, 0, 255, 4, 90, 80, 70, 60.0])
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
        case("sort", lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True), F, "cts", grad=False, ulp=0,
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
        case("sort", lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True), F, "cs", grad=False, ulp=0,
             x=distinct(2, n), dim=1, descending=down, indices=OUT)
        case("sort", lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True), I + ("uint8",), "c", ulp=0,
             x=T(n, low=0, high=9, kind="i"), dim=0, descending=down, indices=OUT)
        case("topk", lambda x, k, dim, largest: torch.topk(x, k, dim, largest), F, "ct", grad=False, ulp=0,
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
        x = T(3, 5, low=0, high=3, kind="i")
        for dim, keep in ((0, True), (1, False), (-1, True)):
            case("mode", mode, types, "cts", second=False, whole=True, ulp=0, x=x, dim=dim, keepdim=keep, indices=OUT)


def running():
    for types in REAL_AND_WHOLE:
        for name in ("cummax", "cummin"):
            f = getattr(torch, name)
            x = T(2, 3, 4, low=0, high=5) if types == F else T(2, 3, 4, low=0, high=5, kind="i")
            for dim in (0, 1, -1):
                case(name, lambda x, dim: f(x, dim), types, "ctsf" if types == F else "c", ulp=0, second=False, x=x, dim=dim, indices=OUT)
            case(name, lambda x, dim: f(x, dim), types, "c", ulp=0, grad=False, x=T(70, 3, low=0, high=9, kind="i"), dim=0, indices=OUT)
            if types == F:
                case(name, lambda x, dim: f(x, dim), F, "c", ulp=0, grad=False, x=distinct(5000), dim=0, indices=OUT)
                case(name, lambda x, dim: f(x, dim), F, "c", ulp=0, grad=False, x=T(5, values=[1, 3, NAN, 4, NAN]), dim=0, indices=OUT)
    for types in (F, H):
        for dim in (0, -1):
            case("logcumsumexp", lambda x, dim: torch.logcumsumexp(x, dim), types, "cts", x=T(3, 4), dim=dim)
    case("logcumsumexp", lambda x, dim: torch.logcumsumexp(x, dim), F, "c", grad=False, x=T(2, 300), dim=1)
    case("logcumsumexp", lambda x, dim: torch.logcumsumexp(x, dim), F, "c", second=False,
         x=T(4, values=[-INF, 1, 2, -INF]), dim=0)


def searching():
    for types in (F, H, I):
        edges = T(6, values=[-3, -1, -1, 0, 2, 3.0])
        v = T(3, 4, low=-4, high=4, kind="i")
        for right in (False, True):
            for small in (False, True):
                case("searchsorted", lambda sorted, values, right, out_int32: torch.searchsorted(
                    sorted, values, right=right, out_int32=out_int32), types, "cts", grad=False, sorted=edges, values=v, right=right,
                    out_int32=small)
            case("bucketize", lambda x, boundaries, right, out_int32: torch.bucketize(x, boundaries, right=right, out_int32=out_int32),
                 types, "cts", grad=False, x=v, boundaries=edges, right=right, out_int32=False)
        case("searchsorted", lambda sorted, values, right, out_int32: torch.searchsorted(sorted, values), types, "cts", grad=False,
             sorted=T(2, 3, values=[0, 1, 2, -3, 0, 3.0]), values=T(2, 4, low=-4, high=4, kind="i"), right=False, out_int32=False)
    case("searchsorted", lambda sorted, values, right, out_int32: torch.searchsorted(sorted, values), F, "c", grad=False,
         sorted=T(4, values=[0, 1, 2, NAN]), values=T(4, values=[NAN, 5, 1, -INF]), right=False, out_int32=False)


def make(tables):
    sorting()
    frequent()
    running()
    searching()
