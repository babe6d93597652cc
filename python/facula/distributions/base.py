"""What all distributions share: the shapes of a batch and of an event, and the checks of parameters and values.

A distribution holds a batch of `batch_shape` distributions whose values have the shape `event_shape` each. `sample_shape` of
sample() stands before both.
"""
from .. import _C

Size = _C.Size


class Distribution:
    """Distribution(batch_shape=torch.Size(), event_shape=torch.Size(), validate_args=None)

    The base class. validate_args=False turns off the checks of parameters and values for one distribution,
    Distribution.set_default_validate_args(False) for all to come.

    >>> normal = torch.distributions.Normal(torch.zeros(2), 1.0)
    >>> isinstance(normal, torch.distributions.Distribution), normal.batch_shape
    (True, torch.Size([2]))
    """
    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value):
        """set_default_validate_args(value)

        Whether distributions made from now on check their parameters and values."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: value must be True or False, but got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape=Size(), event_shape=Size(), validate_args=None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args

    @property
    def batch_shape(self):
        """How many distributions this is, by dimension."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one value."""
        return self._event_shape

    @property
    def stddev(self):
        """The square root of variance."""
        return self.variance.sqrt()

    def _absent(self, what):
        raise NotImplementedError(f"{type(self).__name__}.{what} is not in Facula (torch.distributions)")

    @property
    def mean(self):
        """The mean of each distribution of the batch."""
        self._absent("mean")

    @property
    def mode(self):
        """The most probable value of each distribution of the batch."""
        self._absent("mode")

    @property
    def variance(self):
        """The variance of each distribution of the batch."""
        self._absent("variance")

    @property
    def param_shape(self):
        """The shape of probs or logits, whichever was given."""
        self._absent("param_shape")

    def expand(self, batch_shape):
        """expand(batch_shape) -> Distribution

        The same distribution with a larger batch, whose parameters share memory."""
        self._absent("expand")

    def log_prob(self, value):
        """log_prob(value) -> Tensor

        The logarithm of the probability, or of its density, at value; shape: batch_shape, broadcast with value's.

        Errors: ValueError where value has another shape or lies outside the support, unless validate_args is False."""
        self._absent("log_prob")

    def cdf(self, value):
        """cdf(value) -> Tensor

        The probability of at most value."""
        self._absent("cdf")

    def entropy(self):
        """entropy() -> Tensor

        The entropy in nats; shape: batch_shape."""
        self._absent("entropy")

    def sample(self, sample_shape=Size()):
        """sample(sample_shape=torch.Size()) -> Tensor

        Values drawn at random, without derivatives."""
        with _C.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()):
        """rsample(sample_shape=torch.Size()) -> Tensor

        Values drawn at random of which the parameters can be trained (the reparametrisation trick)."""
        raise NotImplementedError(f"{type(self).__name__}.rsample: its values have no derivatives with respect to its "
                                  "parameters; use sample() and log_prob() (torch.distributions)")

    def perplexity(self):
        """perplexity() -> Tensor

        exp(entropy())."""
        return _C.exp(self.entropy())

    def _extended_shape(self, sample_shape=Size()):
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _check_parameter(self, name, value, good, wanted):
        """good: for each element, or each row, whether it is allowed."""
        if self._validate_args and not good.all().item():
            raise ValueError(f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                             f"{type(self).__name__} to satisfy the constraint {wanted}, but found invalid values:\n{value}")

    def _check_value(self, value, good, wanted):
        if not good.all().item():
            raise ValueError(f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                             f"support ({wanted}) of the distribution {self!r}, but found invalid values:\n{value}")

    def _check_shape(self, value):
        """Whether value's shape goes with the distribution's, from the right."""
        if not isinstance(value, _C.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        own = tuple(self._batch_shape) + tuple(self._event_shape)
        events = len(value.shape) - len(self._event_shape)
        if events < 0 or tuple(value.shape)[events:] != tuple(self._event_shape):
            raise ValueError("The right-most size of value must match event_shape: "
                             f"{tuple(value.shape)} vs {tuple(self._event_shape)}.")
        for i, j in zip(reversed(tuple(value.shape)), reversed(own)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)} vs {own}.")

    def __repr__(self):
        parts = []
        for name in self._shown():
            value = getattr(self, name)
            parts.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _shown(self):
        return ()


def broadcast(*values):
    """Tensors of one shape of numbers and tensors; a number takes the dtype and the device of the tensors."""
    like = next((v for v in values if isinstance(v, _C.Tensor)), None)
    made = []
    for v in values:
        if isinstance(v, (int, float)) and not isinstance(v, bool):
            v = _C.tensor(v, dtype=_C.get_default_dtype()) if like is None else _C.tensor(v, dtype=like.dtype, device=like.device)
        elif not isinstance(v, _C.Tensor):
            raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                             f"__torch_function__; got {type(v).__name__}: give a number or a tensor (torch.distributions)")
        made.append(v)
    return _C.broadcast_tensors(*made)


def one_of(name, probs, logits):
    """Of probs and logits exactly one is given."""
    if (probs is None) == (logits is None):
        raise ValueError(f"Either `probs` or `logits` must be specified, but not both. ({name})")
