"""Kullback-Leibler divergences: one function for each pair of classes; register_kl adds a pair."""
from .. import _C
from .continuous import Normal, Uniform
from .discrete import Bernoulli, Categorical, OneHotCategorical
from .independent import Independent

_pairs = {}


def register_kl(type_p, type_q):
    """register_kl(type_p, type_q)

    A decorator: the function computes kl_divergence(p, q) for distributions of these two classes.

    >>> class Point(torch.distributions.Normal):
    ...     pass
    ...
    >>> @torch.distributions.register_kl(Point, Point)
    ... def distance(p, q):
    ...     return (p.loc - q.loc) ** 2
    ...
    >>> torch.distributions.kl_divergence(Point(0.0, 1.0), Point(3.0, 1.0))
    tensor(9.)
    """
    def note(function):
        _pairs[type_p, type_q] = function
        return function
    return note


def kl_divergence(p, q):
    """kl_divergence(p, q) -> Tensor

    How far q is from p: the mean of log(p / q) under p, of the shape of the batch.

    Errors: NotImplementedError for a pair of classes that no function is registered for.

        >>> N = torch.distributions.Normal
        >>> torch.distributions.kl_divergence(N(1.0, 1.0), N(0.0, 1.0))
        tensor(0.5000)
    """
    for class_p in type(p).__mro__:
        for class_q in type(q).__mro__:
            if (class_p, class_q) in _pairs:
                return _pairs[class_p, class_q](p, q)
    raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}: "
                              "register_kl adds one (torch.distributions.kl_divergence)")


@register_kl(Normal, Normal)
def _normals(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Categorical, Categorical)
def _categoricals(p, q):
    t = p.probs * (p.logits - q.logits)
    t = _C.where(q.probs == 0, float("inf"), t)
    return _C.where(p.probs == 0, 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hots(p, q):
    return _categoricals(p._categorical, q._categorical)


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p, q):
    softplus = _C._nn.softplus
    return p.probs * (p.logits - q.logits) - softplus(p.logits) + softplus(q.logits)


@register_kl(Uniform, Uniform)
def _uniforms(p, q):
    inside = (q.low <= p.low) & (q.high >= p.high)
    return _C.where(inside, _C.log((q.high - q.low) / (p.high - p.low)), float("inf"))


@register_kl(Independent, Independent)
def _independents(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: two Independent distributions must count the same number of dimensions as the "
                                  f"event, but got {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}")
    return p._sum(kl_divergence(p.base_dist, q.base_dist))
