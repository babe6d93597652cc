"""Parametrizations: weight_norm, spectral_norm."""
from ... import _C
from .. import functional
from ..modules.module import Module
from . import parametrize
from .weight_norm import norm_except_dim

__all__ = ["weight_norm", "spectral_norm"]


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight):
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """The tensor as length (original0) times direction (original1).

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> sorted(name for name, _ in layer.named_parameters())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.eps, self.n_power_iterations = eps, n_power_iterations
        if weight.dim() > 1:
            with _C.no_grad():
                matrix = self._matrix(weight)
                h, w = matrix.size()
                u, v = matrix.new_empty(h).normal_(0, 1), matrix.new_empty(w).normal_(0, 1)
                self.register_buffer("_u", functional.normalize(u, dim=0, eps=eps))
                self.register_buffer("_v", functional.normalize(v, dim=0, eps=eps))
                self._iterate(matrix, 15)

    def _matrix(self, weight):
        if self.dim:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    def _iterate(self, matrix, n):
        with _C.no_grad():
            for _ in range(n):
                self._u.copy_(functional.normalize(_C.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(functional.normalize(_C.mv(matrix.t(), self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.dim() == 1:
            return functional.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / _C.dot(u, _C.mv(matrix, v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The tensor divided by its largest singular value.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3))
    >>> sorted(name for name, _ in layer.named_parameters())
    ['bias', 'parametrizations.weight.original']
    """
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    weight = getattr(module, name)
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
