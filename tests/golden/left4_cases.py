"""Sums and differences with alpha, rounding quotients, writes at an index or a mask, running products."""

import elementwise_cases
import tensor_cases
import torch
from cases import B, F, H, I, MOVE, T, U, V, case


def with_alpha(f):
    return lambda x, y, alpha: f(x, y, alpha=alpha if x.is_floating_point() or y.is_floating_point() else int(alpha))


ROWS = {
    "add_alpha": with_alpha(torch.add),
    "sub_alpha": with_alpha(torch.sub),
    "div_floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "round_scaled": lambda x, up, down: torch.round(tensor_cases.real(x) * up / down) / up * down,
}


def index_copy(x, dim, index, src):
    return torch.index_copy(x, dim, index, src)


def index_fill(x, dim, index, value):
    return torch.index_fill(x, dim, index, value)


def masked_scatter(x, mask, src):
    return torch.masked_scatter(x, mask, src)


def masked_fill(x, y, z):
    return torch.masked_fill(x, y, z)


def cumprod(x, dim):
    return torch.cumprod(x, dim)


def indices(*values):
    return T(len(values), values=[int(v) for v in values], dtype="int64", grad=False)


def copies():
    for dim, at, shape in ((1, (2, 0), (2, 2, 4, 2)), (-2, (3, 1, 0), (2, 3, 3, 2)), (0, (1,), (1, 3, 4, 2))):
        for types in (F, H, I, U, B):
            case("index_copy", index_copy, types,
                 grad=types == F, x=T(2, 3, 4, 2), dim=dim, index=indices(*at), src=T(*shape))
    case("index_copy", index_copy, F, x=T(3), dim=0, index=indices(2), src=T())
    case("index_copy", index_copy, F, x=T(), dim=0, index=indices(0), src=T(1))
    case("index_copy", index_copy, F, x=T(2, 3), dim=1, index=T(0, values=[], dtype="int64", grad=False),
         src=T(2, 0))


def fills():
    for dim, at in ((1, (2, 0)), (-2, (3, 1, 1)), (0, (1,))):
        for types in (F, H, I, U, B):
            case("index_fill_scalar", index_fill, types,
                 grad=types == F, x=T(2, 3, 4, 2), dim=dim, index=indices(*at), value=V(1 if types in (I, U, B) else 2.5))
            case("index_fill", index_fill, types, grad=types == F, x=T(2, 3, 4, 2),
                 dim=dim, index=indices(*at), value=T())
    # PyTorch's own derivative fails for indices from the end
    case("index_fill_scalar", index_fill, MOVE, grad=False, x=T(2, 3, 4, low=0, high=9, kind="i"), dim=-1,
         index=indices(-1, 0), value=V(2))
    case("index_fill", index_fill, F, x=T(), dim=0, index=indices(0), value=T())
    case("index_fill_scalar", index_fill, I, grad=False, x=T(4), dim=0, index=indices(1), value=V(2.75))


def masks():
    def mask(*shape, low=0):
        return T(*shape, low=low, high=1, dtype="bool", grad=False)

    for types in (F, H, I, U, B):
        for x, m, src in (((2, 3, 4, 2), (2, 3, 4, 2), (7, 7)), ((2, 3, 4), (3, 1), (24,)), ((4,), (2, 3, 4), (24,))):
            case("masked_scatter", masked_scatter, types, grad=types == F,
                 x=T(*x), mask=mask(*m), src=T(*src))
    case("masked_scatter", masked_scatter, F, x=T(2, 3), mask=T(2, 3, values=[0] * 6, dtype="bool", grad=False), src=T(0))
    case("masked_scatter", masked_scatter, F, x=T(), mask=T(values=[1], dtype="bool", grad=False), src=T(3))
    # a value that is a tensor without dimensions, of the same and of another type
    for types in (F, H, I, U, B):
        case("masked_fill", masked_fill, types, grad=types == F, x=T(2, 3, 4),
             y=mask(2, 3, 4), z=T())
    case("masked_fill", masked_fill, I + U, grad=False, x=T(2, 3), y=mask(2, 3),
         z=T(values=[2.75], dtype="float64", grad=False))
    case("masked_fill", masked_fill, ("float32",), grad=False, x=T(2, 3), y=mask(2, 3),
         z=T(values=[2.75], dtype="float64", grad=False))


def products():
    for types in (F, H, I, U, B):
        for dim in (0, 2, -1):
            case("cumprod", cumprod, types, ulp=4, near=8.0, grad=types == F, x=T(2, 3, 4, 2, low=-2, high=2), dim=dim)
    case("cumprod", cumprod, F, ulp=40, x=T(3, 35, low=0.8, high=1.25), dim=1)
    case("cumprod", cumprod, F, x=T(3, 5, values=[2, 0, 3, 0, 4, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4]), dim=1)
    case("cumprod", cumprod, F, x=T(), dim=0)
    case("cumprod", cumprod, F, x=T(0, 3), dim=0)


def make(tables):
    elementwise_cases.ELEMENTWISE.update(ROWS)
    elementwise_cases.CANCELS.update({"add_alpha": 12.0, "sub_alpha": 12.0})
    elementwise_cases.make([r for r in tables["elementwise"] if r.name in ROWS])
    copies()
    fills()
    masks()
    products()
