"""Distributions over the real numbers."""
import math

from .. import _C
from .._types import finfo
from .base import Distribution, Size, broadcast


class _LocScale(Distribution):
    """Over all real numbers, symmetric around loc and stretched by scale."""
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)
        self._check_parameter("loc", self.loc, self.loc == self.loc, "Real()")
        self._check_parameter("scale", self.scale, self.scale > 0, "GreaterThan(lower_bound=0.0)")

    def _shown(self):
        return ("loc", "scale")

    @property
    def mean(self):
        return self.loc

    mode = mean


class Normal(_LocScale):
    """Normal(loc, scale, validate_args=None)

    The normal distribution with mean loc and standard deviation scale.

        >>> torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
        tensor(-0.9189)
    """

    @property
    def stddev(self):
        return self.scale

    @property
    def variance(self):
        return self.scale.pow(2)

    def expand(self, batch_shape):
        return Normal(self.loc.expand(batch_shape), self.scale.expand(batch_shape), validate_args=False)

    def rsample(self, sample_shape=Size()):
        noise = _C.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value):
        if self._validate_args:
            self._check_shape(value)
            self._check_value(value, value == value, "Real()")
        return -((value - self.loc) ** 2) / (2 * self.variance) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value):
        if self._validate_args:
            self._check_shape(value)
        return 0.5 * (1 + _C.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + _C.log(self.scale)


class Uniform(Distribution):
    """Uniform(low, high, validate_args=None)

    All numbers from low up to, not including, high, equally probable.

        >>> torch.distributions.Uniform(0.0, 2.0).log_prob(torch.tensor(1.0))
        tensor(-0.6931)
    """
    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)
        if self._validate_args and not _C.lt(self.low, self.high).all():
            raise ValueError(f"Uniform is not defined when low>= high: got low {self.low}, high {self.high}")

    def _shown(self):
        return ("low", "high")

    @property
    def mean(self):
        return (self.high + self.low) / 2

    @property
    def variance(self):
        return (self.high - self.low).pow(2) / 12

    def expand(self, batch_shape):
        return Uniform(self.low.expand(batch_shape), self.high.expand(batch_shape), validate_args=False)

    def rsample(self, sample_shape=Size()):
        rand = _C.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + rand * (self.high - self.low)

    def log_prob(self, value):
        if self._validate_args:
            self._check_shape(value)
            self._check_value(value, (self.low <= value) & (value <= self.high), "Interval(low, high)")
        inside = (self.low <= value) & (value < self.high)
        return _C.log(inside.to(self.low.dtype)) - _C.log(self.high - self.low)

    def cdf(self, value):
        if self._validate_args:
            self._check_shape(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def entropy(self):
        return _C.log(self.high - self.low)


class Laplace(_LocScale):
    """Laplace(loc, scale, validate_args=None)

    The distribution whose density falls off as exp(-|x - loc| / scale) on both sides.

        >>> torch.distributions.Laplace(0.0, 1.0).log_prob(torch.tensor(1.0))
        tensor(-1.6931)
    """

    @property
    def variance(self):
        return 2 * self.scale.pow(2)

    def expand(self, batch_shape):
        return Laplace(self.loc.expand(batch_shape), self.scale.expand(batch_shape), validate_args=False)

    def rsample(self, sample_shape=Size()):
        u = _C.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        u.uniform_(finfo(u.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * _C.log1p(-u.abs())

    def log_prob(self, value):
        if self._validate_args:
            self._check_shape(value)
            self._check_value(value, value == value, "Real()")
        return -_C.log(2 * self.scale) - _C.abs(value - self.loc) / self.scale

    def cdf(self, value):
        if self._validate_args:
            self._check_shape(value)
        return 0.5 - 0.5 * (value - self.loc).sign() * _C.expm1(-(value - self.loc).abs() / self.scale)

    def entropy(self):
        return 1 + _C.log(2 * self.scale)


class Exponential(Distribution):
    """Exponential(rate, validate_args=None)

    The times between events that happen rate times in a unit of time.

        >>> torch.distributions.Exponential(2.0).log_prob(torch.tensor(1.0))
        tensor(-1.3069)
    """
    has_rsample = True

    def __init__(self, rate, validate_args=None):
        self.rate, = broadcast(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)
        self._check_parameter("rate", self.rate, self.rate > 0, "GreaterThan(lower_bound=0.0)")

    def _shown(self):
        return ("rate",)

    @property
    def mean(self):
        return self.rate.reciprocal()

    stddev = mean

    @property
    def mode(self):
        return _C.zeros_like(self.rate)

    @property
    def variance(self):
        return self.rate.pow(-2)

    def expand(self, batch_shape):
        return Exponential(self.rate.expand(batch_shape), validate_args=False)

    def rsample(self, sample_shape=Size()):
        drawn = _C.empty(self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device)
        return drawn.exponential_() / self.rate

    def log_prob(self, value):
        if self._validate_args:
            self._check_shape(value)
            self._check_value(value, value >= 0, "GreaterThanEq(lower_bound=0.0)")
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        if self._validate_args:
            self._check_shape(value)
        return 1 - _C.exp(-self.rate * value)

    def entropy(self):
        return 1.0 - _C.log(self.rate)
