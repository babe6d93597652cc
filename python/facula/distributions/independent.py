"""Dimensions of a batch counted as one event."""
from .base import Distribution, Size


class Independent(Distribution):
    """Independent(base_distribution, reinterpreted_batch_ndims, validate_args=None)

    base_distribution, its last reinterpreted_batch_ndims dimensions of the batch made part of the event: log_prob and
    entropy are summed over them.

        >>> normal = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
        >>> torch.distributions.Independent(normal, 1).log_prob(torch.zeros(3))
        tensor(-2.7568)
    """

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        n = len(base_distribution.batch_shape)
        if not 0 <= reinterpreted_batch_ndims <= n:
            raise ValueError("Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                             f"actual {reinterpreted_batch_ndims} vs {n}")
        shape = tuple(base_distribution.batch_shape) + tuple(base_distribution.event_shape)
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        self.has_rsample = base_distribution.has_rsample
        super().__init__(shape[:n - reinterpreted_batch_ndims], shape[n - reinterpreted_batch_ndims:], validate_args)

    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    def sample(self, sample_shape=Size()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=Size()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return self._sum(self.base_dist.log_prob(value))

    def entropy(self):
        return self._sum(self.base_dist.entropy())

    def _sum(self, value):
        n = self.reinterpreted_batch_ndims
        return value.sum(tuple(range(-n, 0))) if n else value

    def __repr__(self):
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
