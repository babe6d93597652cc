"""torch.linalg: results, named tuples, errors of the right class, gradients through Python; without LAPACK the text tells how to get it."""

import os
import subprocess
import sys
import unittest

import facula as torch
import facula.linalg as linalg

A = torch.tensor([[4.0, 1.0], [1.0, 3.0]])


class Linalg(unittest.TestCase):
    def same(self, a, b):
        self.assertTrue(torch.allclose(a, b, rtol=1e-4, atol=1e-5), f"{a} {b}")

    def test_inverses(self):
        eye = torch.eye(2)
        for inverse in (linalg.inv(A), torch.inverse(A), A.inverse(), linalg.pinv(A), torch.pinverse(A), linalg.matrix_power(A, -1)):
            self.same(A @ inverse, eye)
        self.same(linalg.solve(A, eye[0]), A.inverse()[:, 0])
        self.same(linalg.solve(A, eye, left=False) @ A, eye)
        self.same(linalg.solve_triangular(A, eye, upper=True), A.triu().inverse())
        self.same(linalg.solve_triangular(A, eye, upper=False, unitriangular=True), torch.tensor([[1.0, 0.0], [-1.0, 1.0]]))

    def test_named_results(self):
        U, S, Vh = linalg.svd(A)
        self.same(U @ S.diag() @ Vh, A)
        self.same(torch.svd(A).V, Vh.mT)
        self.assertEqual(torch.svd(A, compute_uv=False).U.abs().sum().item(), 0)
        values, vectors = linalg.eigh(A)
        self.same(vectors @ values.diag() @ vectors.mT, A)
        self.same(linalg.eigvalsh(A, UPLO="U"), values)
        self.assertTrue(repr(linalg.slogdet(A)).startswith("torch.return_types.linalg_slogdet(\nsign=") or "facula" in repr(linalg.slogdet(A)))
        self.same(linalg.slogdet(A).logabsdet, torch.logdet(A))
        self.assertTrue(torch.logdet(-torch.eye(3)).isnan())
        self.same(linalg.qr(A, mode="complete").Q @ torch.qr(A).R, A)
        self.assertEqual(linalg.qr(A, mode="r").Q.numel(), 0)

    def test_norms_and_products(self):
        x = torch.arange(6.0).reshape(2, 3)
        self.assertAlmostEqual(linalg.norm(x).item(), 55**0.5, 4)
        self.same(linalg.norm(x, dim=1), torch.tensor([5**0.5, 50**0.5]))
        self.assertEqual(linalg.norm(x, 1).item(), 7)
        self.assertEqual(linalg.matrix_norm(x, float("inf"), keepdim=True).tolist(), [[12.0]])
        self.same(linalg.matrix_norm(x, "nuc"), linalg.svdvals(x).sum())
        self.same(linalg.multi_dot([x, x.T, A, A[0]]), x @ x.T @ A @ A[0])
        self.same(linalg.cond(A), linalg.svdvals(A)[0] / linalg.svdvals(A)[1])
        self.assertEqual(linalg.matrix_rank(torch.ones(3, 3)).item(), 1)
        self.same(linalg.lstsq(x.T, torch.tensor([1.0, 1.0, 1.0])).solution, linalg.pinv(x.T) @ torch.ones(3))
        self.same(linalg.matrix_power(A, 5), A @ A @ A @ A @ A)
        self.same(linalg.matrix_power(A, 0), torch.eye(2))

    def test_errors(self):
        for call, error, text in (
            (lambda: linalg.inv(torch.zeros(2, 2)), linalg.LinAlgError, "linalg.inv: The diagonal element 1 is zero"),
            (lambda: linalg.solve(torch.zeros(2, 2), A), linalg.LinAlgError, "linalg.solve: The solver failed because"),
            (lambda: linalg.cholesky(-A), linalg.LinAlgError, "linalg.cholesky: The factorization could not be completed"),
            (lambda: linalg.det(torch.ones(2, 3)), RuntimeError, "A must be batches of square matrices"),
            (lambda: linalg.eigh(A, "X"), RuntimeError, "Expected UPLO argument to be 'L' or 'U', but got X"),
            (lambda: linalg.inv(torch.ones(2, 2, dtype=torch.int64)), RuntimeError, "Expected a floating point or complex tensor"),
            (lambda: linalg.matrix_norm(A, 3), RuntimeError, "Order 3 not supported"),
            (lambda: linalg.lstsq(A, A, driver="x"), RuntimeError, "parameter `driver`"),
            (lambda: linalg.inv([1]), TypeError, "must be Tensor, not list"),
        ):
            with self.assertRaises(error) as caught:
                call()
            self.assertIn(text, str(caught.exception))

    def test_gradients(self):
        x = torch.rand(3, 3, dtype=torch.float64, requires_grad=True)
        for f in (linalg.inv, linalg.det, lambda a: linalg.svd(a).S, lambda a: linalg.cond(a), lambda a: linalg.cholesky(a @ a.T + torch.eye(3))):
            self.assertTrue(torch.autograd.gradcheck(f, (x,), atol=1e-4))
        torch.svd(x)[1].sum().backward()
        self.assertIsNotNone(x.grad)

    def test_exponential(self):
        self.same(torch.matrix_exp(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])), torch.tensor([[0.5403023, 0.8414710], [-0.8414710, 0.5403023]]))
        self.same(linalg.matrix_exp(5 * A), torch.linalg.eigh(A)[1] @ (5 * torch.linalg.eigh(A)[0]).exp().diag() @ torch.linalg.eigh(A)[1].T)

    def test_without_lapack(self):
        code = "import facula as t\ntry: t.eye(2).inverse()\nexcept NotImplementedError as e: print(e)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "FACULA_LAPACK": "/none.so"})
        self.assertIn("apt install libopenblas0", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main()
