"""Probability distributions of policies and of latent variables: sample, rsample, log_prob, entropy, kl_divergence.

Categorical, OneHotCategorical, Bernoulli, Normal, MultivariateNormal, Laplace, Exponential, Uniform, and Independent, which counts dimensions of a batch as one event.
"""
from .. import _missing
from .base import Distribution
from .continuous import Exponential, Laplace, Normal, Uniform
from .discrete import Bernoulli, Categorical, OneHotCategorical
from .independent import Independent
from .kl import kl_divergence, register_kl
from .multivariate import MultivariateNormal

__all__ = ["Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Laplace", "MultivariateNormal", "Normal", "OneHotCategorical", "Uniform", "kl_divergence",
           "register_kl"]
__getattr__ = _missing.attribute_of(__name__)
