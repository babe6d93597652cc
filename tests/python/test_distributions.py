"""MultivariateNormal, Laplace and Exponential: PyTorch 2.13's draws and numbers, and errors."""

import unittest

import facula as torch

D = torch.distributions
A, LOC = torch.tensor([[2.0, 0.5], [0.5, 1.0]]), torch.tensor([1.0, -1.0])
MADE = {
    "mvn": lambda: D.MultivariateNormal(LOC, A),
    "mvp": lambda: D.MultivariateNormal(LOC, precision_matrix=A),
    "lap": lambda: D.Laplace(torch.tensor([0.0, 1.0]), 2.0),
    "exp": lambda: D.Exponential(torch.tensor([0.5, 3.0])),
}
FACTS = {
    "mvn.entropy": [3.1177],
    "mvn.sample": [3.1793, -0.7297, -2.0813, -1.2386, -0.5337, -2.6917],
    "mvn.log_prob": [-4.2491],
    "mvp.log_prob": [-2.8981],
    "lap.sample": [-0.015, 2.5377, -3.4637, -1.6631, -0.9728, 1.6244],
    "lap.log_prob": [-1.5363, -1.5363],
    "lap.cdf": [0.5696, 0.4304],
    "exp.entropy": [1.6931, -0.0986],
    "exp.sample": [7.0167, 0.4101, 1.2301, 0.845, 2.0714, 0.522],
    "exp.log_prob": [-0.8431, -1.0014],
}


def lapack():
    try:
        return torch.linalg.cholesky(torch.eye(2)) is not None
    except (NotImplementedError, RuntimeError):
        return False


LAPACK = lapack()


class Distributions(unittest.TestCase):
    def test_numbers_are_pytorchs(self):
        for name, expected in FACTS.items():
            kind, _, what = name.partition(".")
            if kind.startswith("mv") and not LAPACK:
                continue
            torch.manual_seed(0)
            arguments = {"sample": [(3,)], "log_prob": [torch.tensor([0.3, 0.7])], "cdf": [torch.tensor([0.3, 0.7])]}
            found = getattr(MADE[kind](), what)(*arguments.get(what, [])).reshape(-1).tolist()
            with self.subTest(name=name):
                self.assertEqual(len(found), len(expected))
                for a, b in zip(found, expected):
                    self.assertAlmostEqual(a, b, delta=1e-4)

    @unittest.skipUnless(LAPACK, "LAPACK is not installed")
    def test_errors_of_multivariate_normal(self):
        with self.assertRaisesRegex(ValueError, "^Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.$"):
            D.MultivariateNormal(LOC, A, A)
        with self.assertRaisesRegex(ValueError, "^loc must be at least one-dimensional.$"):
            D.MultivariateNormal(torch.tensor(1.0), A)
        with self.assertRaisesRegex(ValueError, "^covariance_matrix must be at least two-dimensional"):
            D.MultivariateNormal(LOC, LOC)
        with self.assertRaisesRegex(ValueError, "constraint PositiveDefinite"):
            D.MultivariateNormal(LOC, -A)

    def test_errors(self):
        for call in (lambda: D.Laplace(0.0, -1.0), lambda: D.Exponential(-1.0)):
            with self.assertRaisesRegex(ValueError, "satisfy the constraint GreaterThan"):
                call()
        with self.assertRaisesRegex(ValueError, "within the support"):
            D.Exponential(1.0).log_prob(torch.tensor(-1.0))


if __name__ == "__main__":
    unittest.main()
