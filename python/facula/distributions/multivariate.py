"""Normal distributions of vectors."""
import math

from .. import _C, linalg
from .base import Distribution, Size

_WAYS = ("covariance_matrix", "precision_matrix", "scale_tril")


class MultivariateNormal(Distribution):
    """MultivariateNormal(loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None)

    The normal distribution of vectors with mean loc [..., k]; one of three matrices [..., k, k] says how they vary: the covariance,
    its inverse, or its lower Cholesky factor.

        >>> torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
        tensor(-1.8379)
    """
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = [(n, m) for n, m in zip(_WAYS, (covariance_matrix, precision_matrix, scale_tril)) if m is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        (self._given, matrix), = given
        if matrix.dim() < 2:
            raise ValueError(f"{self._given} must be at least two-dimensional, with optional leading batch dimensions")
        batch = _C.broadcast_tensors(_C.empty(matrix.shape[:-2]), _C.empty(loc.shape[:-1]))[0].shape
        k = loc.shape[-1]
        matrix = matrix.expand(tuple(batch) + (-1, -1))
        self.loc = loc.expand(tuple(batch) + (-1,))
        super().__init__(batch, (k,), validate_args)
        self._check_parameter("loc", self.loc, self.loc == self.loc, "IndependentConstraint(Real(), 1)")
        if self._validate_args and (tuple(matrix.shape[-2:]) != (k, k) or not (matrix == matrix).all().item()):
            raise ValueError(f"Expected parameter {self._given} ({type(matrix).__name__} of shape {tuple(matrix.shape)}) of distribution "
                             f"MultivariateNormal to be a matrix of {k} rows and columns of numbers, but found invalid values:\n{matrix}")
        self._tril = matrix if self._given == "scale_tril" else self._factor(matrix)

    def _factor(self, matrix):
        """The lower Cholesky factor of the covariance."""
        if self._validate_args:
            symmetric = _C.isclose(matrix, matrix.transpose(-2, -1), atol=1e-6).all((-2, -1))
            self._check_parameter(self._given, matrix, symmetric, "PositiveDefinite()")
        try:
            if self._given == "covariance_matrix":
                return linalg.cholesky(matrix)
            turned = linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).transpose(-2, -1)
            return linalg.solve_triangular(turned, _C.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand(matrix.shape),
                                           upper=False)
        except linalg.LinAlgError:
            if not self._validate_args:
                raise
        raise ValueError(f"Expected parameter {self._given} ({type(matrix).__name__} of shape {tuple(matrix.shape)}) of distribution "
                         f"MultivariateNormal to satisfy the constraint PositiveDefinite(), but found invalid values:\n{matrix}")

    @property
    def scale_tril(self):
        """The lower Cholesky factor of the covariance."""
        return self._tril

    @property
    def covariance_matrix(self):
        """The covariance: scale_tril times its transpose."""
        return _C.matmul(self._tril, self._tril.transpose(-2, -1))

    @property
    def precision_matrix(self):
        """The inverse of the covariance."""
        return linalg.inv(self.covariance_matrix)

    def _shown(self):
        return ("loc", self._given)

    @property
    def mean(self):
        return self.loc

    mode = mean

    @property
    def variance(self):
        return self._tril.pow(2).sum(-1)

    def expand(self, batch_shape):
        shape = tuple(batch_shape)
        return MultivariateNormal(self.loc.expand(shape + (-1,)), scale_tril=self._tril.expand(shape + (-1, -1)), validate_args=False)

    def rsample(self, sample_shape=Size()):
        noise = _C.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _C.matmul(self._tril, noise.unsqueeze(-1)).squeeze(-1)

    def _half_log_determinant(self):
        return _C.diagonal(self._tril, 0, -2, -1).log().sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._check_shape(value)
            self._check_value(value, value == value, "IndependentConstraint(Real(), 1)")
        off = (value - self.loc).unsqueeze(-1)
        factor = self._tril.expand(tuple(off.shape[:-2]) + tuple(self._tril.shape[-2:]))
        distance = linalg.solve_triangular(factor, off, upper=False).pow(2).sum((-2, -1))
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_determinant()

    def entropy(self):
        return 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_determinant()
