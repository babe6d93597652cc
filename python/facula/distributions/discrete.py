"""Distributions over the numbers of classes, over one-hot rows, and over 0 and 1.

probs and logits are two ways to say the same; the one that was not given is computed when it is first asked for.
"""
from .. import _C
from .._types import finfo
from .base import Distribution, Size, broadcast, one_of


class Categorical(Distribution):
    """Categorical(probs=None, logits=None, validate_args=None)

    The numbers 0 ... k - 1 with the probabilities in the last dimension of probs (need not add up to 1), or exp(logits).

        >>> torch.distributions.Categorical(torch.tensor([1.0, 3.0])).log_prob(torch.tensor(1))
        tensor(-0.2877)
    """

    def __init__(self, probs=None, logits=None, validate_args=None):
        one_of("Categorical", probs, logits)
        given = logits if probs is None else probs
        name = "logits" if probs is None else "probs"
        if not isinstance(given, _C.Tensor) or given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional. (Categorical: give a tensor of a row of "
                             f"{name})")
        self._given, self._num_events = name, given.size(-1)
        super().__init__(given.size()[:-1], validate_args=validate_args)
        if probs is None:
            self._check_parameter(name, given, given == given, "IndependentConstraint(Real(), 1)")
            self._logits, self._probs = given - given.logsumexp(-1, keepdim=True), None
        else:
            total = given.sum(-1, keepdim=True)
            self._check_parameter(name, given, (given >= 0) & (total > 0), "Simplex()")
            self._logits, self._probs = None, given / total

    @property
    def logits(self):
        """The logarithms of probs."""
        if self._logits is None:
            self._logits = logs(self._probs)
        return self._logits

    @property
    def probs(self):
        """The probabilities; each row adds up to 1."""
        if self._probs is None:
            self._probs = _C.softmax(self._logits, -1)
        return self._probs

    param_shape = property(lambda self: getattr(self, self._given).size())

    def _shown(self):
        return (self._given,)

    @property
    def mode(self):
        return self.probs.argmax(-1)

    def expand(self, batch_shape):
        shape = tuple(batch_shape) + (self._num_events,)
        return Categorical(**{self._given: getattr(self, self._given).expand(shape)}, validate_args=False)

    def sample(self, sample_shape=Size()):
        """sample(sample_shape=torch.Size()) -> Tensor

        Numbers of classes drawn at random."""
        count = Size(sample_shape).numel()
        drawn = _C.multinomial(self.probs.detach().reshape(-1, self._num_events), count, True).t()
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._check_shape(value)
            good = (value >= 0) & (value < self._num_events) & (value.long() == value)
            self._check_value(value, good, f"IntegerInterval(lower_bound=0, upper_bound={self._num_events - 1})")
        value = value.long().unsqueeze(-1)
        value, rows = _C.broadcast_tensors(value, self.logits)
        return rows.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        # A class of probability 0 adds nothing, where 0 times its logit, -inf, would give nan.
        least = finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        """enumerate_support(expand=True) -> Tensor

        All values, along a new first dimension."""
        values = _C.arange(self._num_events, device=self.probs.device).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values


class OneHotCategorical(Distribution):
    """OneHotCategorical(probs=None, logits=None, validate_args=None)

    A Categorical whose values are rows with a 1 at the class and 0 elsewhere.

        >>> torch.distributions.OneHotCategorical(torch.tensor([1.0, 3.0])).log_prob(torch.tensor([0.0, 1.0]))
        tensor(-0.2877)
    """

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    probs = property(lambda self: self._categorical.probs, doc="The probabilities; each row adds up to 1.")
    logits = property(lambda self: self._categorical.logits, doc="The logarithms of probs.")
    mean = probs

    def _shown(self):
        return self._categorical._shown()

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):
        """sample(sample_shape=torch.Size()) -> Tensor

        One-hot rows drawn at random."""
        drawn = self._categorical.sample(sample_shape).unsqueeze(-1)
        rows = _C.zeros(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return rows.scatter(-1, drawn, 1.0)

    def log_prob(self, value):
        if self._validate_args:
            self._check_shape(value)
            good = ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)
            self._check_value(value, good, "OneHot()")
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self):
        return self._categorical.entropy()


class Bernoulli(Distribution):
    """Bernoulli(probs=None, logits=None, validate_args=None)

    1 with probability probs (or sigmoid(logits)), else 0.

        >>> torch.distributions.Bernoulli(torch.tensor(0.25)).log_prob(torch.tensor(1.0))
        tensor(-1.3863)
    """

    def __init__(self, probs=None, logits=None, validate_args=None):
        one_of("Bernoulli", probs, logits)
        self._given = "logits" if probs is None else "probs"
        given, = broadcast(logits if probs is None else probs)
        super().__init__(given.size(), validate_args=validate_args)
        self._probs, self._logits = (None, given) if probs is None else (given, None)
        if probs is None:
            self._check_parameter("logits", given, given == given, "Real()")
        else:
            self._check_parameter("probs", given, (given >= 0) & (given <= 1), "Interval(lower_bound=0.0, upper_bound=1.0)")

    @property
    def logits(self):
        """log(probs / (1 - probs))."""
        if self._logits is None:
            self._logits = logs(self._probs) - _C.log1p(-inner(self._probs))
        return self._logits

    @property
    def probs(self):
        """The probability of 1."""
        if self._probs is None:
            self._probs = _C.sigmoid(self._logits)
        return self._probs

    param_shape = property(lambda self: getattr(self, self._given).size())

    def _shown(self):
        return (self._given,)

    @property
    def mean(self):
        return self.probs

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def expand(self, batch_shape):
        return Bernoulli(**{self._given: getattr(self, self._given).expand(batch_shape)}, validate_args=False)

    def sample(self, sample_shape=Size()):
        """sample(sample_shape=torch.Size()) -> Tensor

        0 and 1 drawn at random."""
        return _C.bernoulli(self.probs.detach().expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._check_shape(value)
            self._check_value(value, (value == 0) | (value == 1), "Boolean()")
        return value * self.logits - _C._nn.softplus(self.logits)

    def entropy(self):
        return _C._nn.softplus(self.logits) - self.probs * self.logits


def inner(probs):
    """probs, a little away from 0 and 1, so that its logarithms are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logs(probs):
    return _C.log(inner(probs))
