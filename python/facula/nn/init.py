"""torch.nn.init: initial values, in place, with PyTorch's draws."""

import math
import warnings

from .. import _C

__all__ = [
    "calculate_gain",
    "uniform_",
    "normal_",
    "trunc_normal_",
    "constant_",
    "ones_",
    "zeros_",
    "eye_",
    "dirac_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "orthogonal_",
    "sparse_",
    "uniform",
    "normal",
    "constant",
    "eye",
    "dirac",
    "xavier_uniform",
    "xavier_normal",
    "kaiming_uniform",
    "kaiming_normal",
    "orthogonal",
    "sparse",
]

_GAINS = {
    "sigmoid": 1,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
    **{f"conv{t}{n}d": 1 for t in ("", "_transpose") for n in (1, 2, 3)},
    "linear": 1,
}


def calculate_gain(nonlinearity, param=None):
    """The factor that keeps the variance through a nonlinearity; param: leaky_relu's slope.

    >>> nn.init.calculate_gain('leaky_relu', 0.2)
    1.3867504905630728
    """
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _fill(tensor, method, *args, generator=None):
    with _C.no_grad():
        return getattr(tensor, method)(*args) if generator is None else getattr(tensor, method)(*args, generator=generator)


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Fills a tensor with numbers drawn from U(a, b).

    >>> generator = torch.manual_seed(0)
    >>> nn.init.uniform_(torch.empty(2), -1.0, 1.0)
    tensor([-0.0075,  0.5364])
    """
    return _fill(tensor, "uniform_", a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Fills a tensor with numbers drawn from N(mean, std^2).

    >>> generator = torch.manual_seed(0)
    >>> nn.init.normal_(torch.empty(2), mean=1.0, std=0.1)
    tensor([1.1541, 0.9707])
    """
    return _fill(tensor, "normal_", mean, std, generator=generator)


def constant_(tensor, val):
    """Fills a tensor with val everywhere.

    >>> nn.init.constant_(torch.empty(2), 0.3)
    tensor([0.3000, 0.3000])
    """
    return _fill(tensor, "fill_", val)


def ones_(tensor):
    """Fills a tensor with ones.

    >>> nn.init.ones_(torch.empty(2))
    tensor([1., 1.])
    """
    return _fill(tensor, "fill_", 1.0)


def zeros_(tensor):
    """Fills a tensor with zeros.

    >>> nn.init.zeros_(torch.empty(2))
    tensor([0., 0.])
    """
    return _fill(tensor, "zero_")


def _rejected(tensor, draw):
    """Draws all elements anew until each has been accepted once. draw() -> values, which of them are accepted."""
    values, kept = draw()
    while not bool(kept.all()):
        more, fine = draw()
        values = _C.where(kept, values, more)
        kept = kept | fine
    return tensor.copy_(values)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """N(mean, std^2) within [a, b]: normal numbers, or, where few of them would lie there, uniform ones, the others rejected.

    >>> generator = torch.manual_seed(0)
    >>> nn.init.trunc_normal_(torch.empty(2), std=0.02)
    tensor([ 0.0308, -0.0059])
    """

    def below(x):
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=2,
        )
    low, high = (a - mean) / std, (b - mean) / std
    peak = min(max(0.0, low), high)

    def normal():
        x = normal_(_C.empty_like(tensor), mean, std, generator)
        return x, (x >= a) & (x <= b)

    def uniform():
        x = uniform_(_C.empty_like(tensor), a, b, generator)
        u = uniform_(_C.empty_like(tensor), 0.0, 1.0, generator)
        return x, ~(u > _C.exp((peak**2 - ((x - mean) / std) ** 2) / 2))  # what float32 can't tell (nan) is accepted, as in PyTorch

    with _C.no_grad():
        return _rejected(tensor, normal if below(high) - below(low) > 0.3 else uniform)


def eye_(tensor):
    """The identity matrix.

    >>> nn.init.eye_(torch.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with _C.no_grad():
        tensor.copy_(_C.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))
    return tensor


def dirac_(tensor, groups=1):
    """A convolution's weight that hands its input through.

    >>> nn.init.dirac_(torch.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    dimensions = tensor.ndimension()
    if dimensions not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    each = sizes[0] // groups
    middle = tuple(n // 2 for n in sizes[2:])
    with _C.no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(each, sizes[1])):
                tensor[(g * each + d, d, *middle)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """U(-b, b) with b = gain sqrt(6 / (fan_in + fan_out)).

    >>> generator = torch.manual_seed(0)
    >>> nn.init.xavier_uniform_(torch.empty(1, 2), gain=1.0)
    tensor([[-0.0106,  0.7586]])
    """
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor)))))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """N(0, 2 gain^2 / (fan_in + fan_out)).

    >>> generator = torch.manual_seed(0)
    >>> nn.init.xavier_normal_(torch.empty(1, 2))
    tensor([[ 1.2582, -0.2396]])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor)))), generator)


def _kaiming(tensor, a, mode, nonlinearity):
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _empty(tensor):
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """U(-b, b) with b = gain sqrt(3 / fan).

    >>> generator = torch.manual_seed(0)
    >>> nn.init.kaiming_uniform_(torch.empty(1, 2), nonlinearity='relu')
    tensor([[-0.0130,  0.9291]])
    """
    if _empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """N(0, gain^2 / fan).

    >>> generator = torch.manual_seed(0)
    >>> nn.init.kaiming_normal_(torch.empty(1, 2), mode='fan_out')
    tensor([[ 2.1793, -0.4150]])
    """
    if _empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor, gain=1, generator=None):
    """A (semi) orthogonal matrix times gain.

    >>> w = nn.init.orthogonal_(torch.empty(2, 2))
    >>> torch.allclose(w @ w.t(), torch.eye(2), atol=1e-5)
    True
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    cols = tensor.numel() // rows
    with _C.no_grad():
        flat = normal_(_C.empty(rows, cols, dtype=tensor.dtype, device=tensor.device), 0, 1, generator)
        q = _orthogonal(flat if rows >= cols else flat.t())
        tensor.view(rows, cols).copy_(q if rows >= cols else q.t())
        tensor.mul_(gain)
    return tensor


def _orthogonal(a):
    """The columns of a, orthonormal: the Q of a = QR whose R has a positive diagonal. Gram and Schmidt, twice, in float64 on the CPU: not all devices have it."""
    columns = a.t().cpu().double().contiguous()
    q = _C.zeros_like(columns)
    for k in range(columns.size(0)):
        v = columns[k]
        for _ in range(2 if k else 0):
            v = v - q[:k].t().mv(q[:k].mv(v))
        q[k] = v / v.norm()
    return q.t().to(a.dtype)


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """N(0, std^2) with that fraction of each column zero.

    >>> w = nn.init.sparse_(torch.empty(4, 2), sparsity=0.5)
    >>> (w == 0).sum(0)
    tensor([2, 2])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with _C.no_grad():
        normal_(tensor, 0, std, generator)
        for col in range(cols):
            for row in _C.randperm(rows).tolist()[:zeros]:
                tensor[row, col] = 0
    return tensor


def _deprecated(name):
    function = globals()[name + "_"]

    def run(*args, **kwargs):
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"The older name of {name}_, which warns.\n\n>>> nn.init.{name}(torch.zeros(2, 2{', 1' * (name == 'dirac')}){', 1.0' * (name == 'constant')}{', 0.5' * (name == 'sparse')}).numel()\n4"
    return run


for _name in (
    "uniform",
    "normal",
    "constant",
    "eye",
    "dirac",
    "xavier_uniform",
    "xavier_normal",
    "kaiming_uniform",
    "kaiming_normal",
    "orthogonal",
    "sparse",
):
    globals()[_name] = _deprecated(_name)
del _name
