"""torch.nn.functional: the functions behind the layers."""

import math
import warnings

from .. import _C

globals().update({name: f for name, f in vars(_C._nn).items() if not name.startswith("_")})

_bool = bool


def _in_place(function):
    def run(input, *args, **kwargs):
        return function(input, *args, inplace=True, **kwargs)

    run.__name__ = run.__qualname__ = function.__name__ + "_"
    more = ", 0.5, 0." if function.__name__ == "threshold" else ""
    run.__doc__ = (
        f"{function.__name__} that writes over its input; its other arguments are the same.\n\n"
        f"    >>> x = torch.tensor([-1.5, 2.])\n    >>> F.{function.__name__}_(x{more}) is x\n    True"
    )
    return run


for _name in ("relu", "elu", "selu", "celu", "leaky_relu", "hardtanh", "threshold", "rrelu"):
    if _name in globals():
        globals()[_name + "_"] = _in_place(globals()[_name])


# ---- pooling: the forms that give indices too, and torch's sizes ----


def _with_indices(name):
    def run(input, *args, return_indices=False, **kwargs):
        return globals()[name](input, *args, return_indices=True, **kwargs)

    run.__name__ = run.__qualname__ = name + "_with_indices"
    sides = ", 2" * int(name[-2])
    run.__doc__ = (
        f"{name} and where the largest elements were: (values, indices).\n\n"
        f"    >>> values, indices = F.{name}_with_indices(torch.ones(1, 1{sides}), 2)\n"
        "    >>> values.shape == indices.shape\n    True"
    )
    return run


for _name in (f"{a}max_pool{n}d" for a in ("", "adaptive_") for n in (1, 2, 3)):
    globals()[_name + "_with_indices"] = _with_indices(_name)


def _unpool(sides):
    inside = globals().get(f"max_unpool{sides}d")

    def run(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        size = None if output_size is None else tuple(output_size)[-sides:]
        return inside(input, indices, kernel_size, stride, padding, size)

    run.__name__ = run.__qualname__ = f"max_unpool{sides}d"
    run.__doc__ = inside.__doc__
    return run


for _n in (1, 2, 3):
    globals()[f"max_unpool{_n}d"] = _unpool(_n)
del _name, _n


def _avg_pool(sides):
    inside = globals()[f"avg_pool{sides}d"]

    def run(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        if divisor_override is None:
            return inside(input, kernel_size, stride, padding, ceil_mode, count_include_pad)
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        if ceil_mode:
            raise NotImplementedError(f"avg_pool{sides}d(): divisor_override with ceil_mode is not in Facula")
        window = (
            kernel_size**sides
            if isinstance(kernel_size, int)
            else math.prod(kernel_size) ** (sides if len(kernel_size) == 1 else 1)
        )
        return inside(input, kernel_size, stride, padding, False, True) * (window / divisor_override)

    run.__name__ = run.__qualname__ = f"avg_pool{sides}d"
    run.__doc__ = inside.__doc__
    return run


for _n in (2, 3):
    globals()[f"avg_pool{_n}d"] = _avg_pool(_n)
del _n


# ---- older names ----


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The older name of interpolate.

    >>> F.upsample(torch.tensor([[[1., 2.]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate by the nearest element.

    >>> F.upsample_nearest(torch.tensor([[[1., 2.]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate between four neighbours, corners aligned.

    >>> F.upsample_bilinear(torch.tensor([[[[1., 2.]]]]), scale_factor=2)
    tensor([[[[1.0000, 1.3333, 1.6667, 2.0000],
              [1.0000, 1.3333, 1.6667, 2.0000]]]])
    """
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# ---- losses ----


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """triplet_margin_loss with a distance of the caller's own.

    >>> F.triplet_margin_with_distance_loss(torch.tensor([[0., 0.]]), torch.tensor([[0., 1.]]), torch.tensor([[1., 1.]]))
    tensor(0.5858)
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = distance_function if distance_function is not None else pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _C.minimum(far, distance(positive, negative))
    loss = _C.clamp_min(margin + near - far, 0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


# ---- embedding ----


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Sums, means or largest elements of bags of embeddings: rows of a 2-d input, or pieces of a 1-d one that begin at offsets.

    >>> table = torch.tensor([[1., 2.], [3., 4.], [5., 6.]])
    >>> F.embedding_bag(torch.tensor([[0, 2]]), table, mode='sum')
    tensor([[6., 8.]])
    """
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NotImplementedError("embedding_bag(): max_norm, scale_grad_by_freq and sparse are not in Facula")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. "
                f"However, found offsets of type {type(offsets)}"
            )
        bags, most = input.size(0), input.size(1)
        bag = (
            _C.arange(bags, device=input.device).repeat_interleave(most)
            if most
            else _C.empty(0, dtype=_C.int64, device=input.device)
        )
        flat = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        starts = [*offsets.tolist()] if include_last_offset else [*offsets.tolist(), input.size(0)]
        if starts[0] != 0:
            raise ValueError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got"
                f" {starts[0]}"
            )
        sizes = [b - a for a, b in zip(starts, starts[1:])]
        bags = len(sizes)
        bag = _C.tensor([i for i, n in enumerate(sizes) for _ in range(n)], dtype=_C.int64, device=input.device)
        flat = input
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    rows = embedding(flat, weight, padding_idx)
    width = weight.size(1)
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum'"
            )
        rows = rows * per_sample_weights.unsqueeze(1)
    if padding_idx is not None:
        kept = (flat != (padding_idx if padding_idx >= 0 else padding_idx + weight.size(0))).nonzero().reshape(-1)
        rows, bag = rows.index_select(0, kept), bag.index_select(0, kept)
    if mode == "max":
        where = bag.unsqueeze(1).expand(rows.size(0), width)
        return _C.zeros(bags, width, dtype=rows.dtype, device=rows.device).scatter_reduce(
            0, where, rows, "amax", include_self=False
        )
    total = _C.zeros(bags, width, dtype=rows.dtype, device=rows.device).index_add(0, bag, rows)
    if mode == "sum":
        return total
    count = _C.zeros(bags, dtype=rows.dtype, device=rows.device).index_add(
        0, bag, _C.ones(bag.size(0), dtype=rows.dtype, device=rows.device)
    )
    return total / _C.clamp_min(count, 1).unsqueeze(1)


def pdist(input, p=2.0):
    """Distances of all pairs of rows, the upper triangle row by row.

    >>> F.pdist(torch.tensor([[0., 0.], [3., 4.], [0., 1.]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    n = input.size(0)
    i = [a for a in range(n) for _ in range(a + 1, n)]
    j = [b for a in range(n) for b in range(a + 1, n)]
    first, second = (input.index_select(0, _C.tensor(k, dtype=_C.int64, device=input.device)) for k in (i, j))
    return _C.norm(first - second, p, 1)


def multi_head_attention_forward(*args, **kwargs):
    """Not in Facula as a function: nn.MultiheadAttention computes it."""
    raise NotImplementedError(
        "multi_head_attention_forward is not in Facula: make an nn.MultiheadAttention, or use scaled_dot_product_attention"
    )
