"""torch.backends.cudnn, torch.backends.cuda and their kind: what they answer, and that they steer what computes.

test-env: FACULA_SIM=cuda:1 FACULA_SIM_LIBRARIES=cublaslt,cudnn
test-env: FACULA_SIM=cuda:1
test-env: -
"""
import os
import unittest
import warnings

import facula as torch

THERE = "FACULA_SIM_LIBRARIES" in os.environ
SIMULATED = "FACULA_SIM" in os.environ


def used():
    """How often each library did the work."""
    return {library["name"]: library["calls"] for library in torch.cuda.libraries()}


class Backends(unittest.TestCase):
    def test_what_is_there(self):
        self.assertEqual(torch.backends.cudnn.version(), 90300 if THERE else None)
        self.assertIs(torch.backends.cudnn.is_available(), THERE)
        self.assertEqual([library["name"] for library in torch.cuda.libraries()], ["cublaslt", "cudnn"] if SIMULATED else [])
        for library in torch.cuda.libraries():
            self.assertIs(library["usable"], THERE)
            self.assertTrue(THERE or library["why"] == "not found")

    def test_switches_are_pytorchs(self):
        cudnn = torch.backends.cudnn
        self.assertEqual((cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32), (True, False, False, True))
        with cudnn.flags(enabled=False, benchmark=True, deterministic=True, allow_tf32=False):
            self.assertEqual((cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32), (False, True, True, False))
        self.assertEqual((cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32), (True, False, False, True))
        with self.assertRaisesRegex(RuntimeError, "^set_benchmark_cudnn expects a bool, but got str"):
            cudnn.benchmark = "yes"
        with self.assertRaisesRegex(RuntimeError, "^set_allow_tf32_cublas expects a bool, but got int"):
            torch.backends.cuda.matmul.allow_tf32 = 1

    def test_deterministic_algorithms(self):
        torch.backends.cudnn.deterministic = True
        torch.use_deterministic_algorithms(True)
        self.assertIs(torch.are_deterministic_algorithms_enabled(), True)
        torch.use_deterministic_algorithms(False)
        self.assertEqual((torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic), (False, True))
        torch.backends.cudnn.deterministic = False

    def test_precision(self):
        matmul = torch.backends.cuda.matmul
        self.assertEqual((torch.get_float32_matmul_precision(), matmul.allow_tf32), ("highest", False))
        for word in ("high", "medium"):
            torch.set_float32_matmul_precision(word)
            self.assertEqual((torch.get_float32_matmul_precision(), matmul.allow_tf32), (word, True))
        matmul.allow_tf32 = False
        self.assertEqual(torch.get_float32_matmul_precision(), "highest")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.set_float32_matmul_precision("x")
        self.assertIn("x is not one of 'highest', 'high', or 'medium'", str(seen[0].message))

    def test_blas(self):
        self.assertEqual(torch.backends.cuda.preferred_blas_library(), "cublaslt")
        self.assertEqual(torch.backends.cuda.preferred_blas_library("facula"), "facula")
        self.assertEqual(torch.backends.cuda.preferred_blas_library("cublaslt"), "cublaslt")
        with self.assertRaisesRegex(RuntimeError, "^Unknown input value. Choose from: "):
            torch.backends.cuda.preferred_blas_library("mine")

    @unittest.skipUnless(SIMULATED, "needs a device")
    def test_training(self):
        """A network's gradients with and without the libraries."""
        def gradients():
            torch.manual_seed(0)
            net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 10)).to("cuda")
            x, y = torch.rand(5, 1, 8, 8), torch.arange(5)
            torch.nn.functional.cross_entropy(net(x.to("cuda")), y.to("cuda")).backward()
            return [p.grad.cpu() for p in net.parameters()]

        before = used()
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            by_library = gradients()
        between = used()
        torch.backends.cuda.preferred_blas_library("facula")
        with torch.backends.cudnn.flags(enabled=False):
            own = gradients()
        torch.backends.cuda.preferred_blas_library("default")
        self.assertEqual({name: between[name] - before[name] for name in before}, {"cublaslt": 3, "cudnn": 2} if THERE else {"cublaslt": 0, "cudnn": 0})
        self.assertEqual(used(), between)
        for a, b in zip(by_library, own):
            self.assertTrue(torch.allclose(a, b, rtol=1e-4, atol=1e-6))


if __name__ == "__main__":
    unittest.main()
