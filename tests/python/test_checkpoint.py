"""Activation checkpointing computes the same, and keeps the graph it says; forks of random numbers."""
import unittest
import warnings

import facula as torch
from facula.random import fork_rng
from facula.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(4, 2))


class Checkpoint(unittest.TestCase):
    def gradients(self, call):
        net, x = network(), torch.arange(15.0).view(5, 3).requires_grad_()
        torch.manual_seed(1)
        (call(net, x) ** 2).sum().backward()
        return [x.grad.tolist(), *(p.grad.tolist() for p in net.parameters()), torch.rand(1).item()]

    def test_same_as_without(self):
        plain = self.gradients(lambda net, x: net(x))
        for how in (False, True):
            self.assertEqual(self.gradients(lambda net, x: checkpoint(net, x, use_reentrant=how)), plain)
            self.assertEqual(self.gradients(lambda net, x: checkpoint_sequential(net, 2, x, use_reentrant=how)), plain)

    def test_what_requires_a_gradient(self):
        net, x = network(), torch.ones(5, 3)
        self.assertTrue(checkpoint(net, x, use_reentrant=False).requires_grad)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertFalse(checkpoint(net, x, use_reentrant=True).requires_grad)
        self.assertFalse(checkpoint(lambda a: a * 2, x, use_reentrant=False).requires_grad)
        with torch.no_grad():
            self.assertFalse(checkpoint(net, x.requires_grad_(), use_reentrant=False).requires_grad)

    def test_structures(self):
        x = torch.ones(3, requires_grad=True)
        result = checkpoint(lambda a, more, k=1: {"y": a * more[0] * k, "n": k}, x, [x * 2], k=3, use_reentrant=False)
        self.assertEqual(result["n"], 3)
        result["y"].sum().backward()
        self.assertEqual(x.grad.tolist(), [12.0] * 3)

    def test_computed_twice(self):
        calls = []
        x = torch.ones(3, requires_grad=True)

        def part(a):
            calls.append(torch.is_grad_enabled())
            return a.exp()
        y = checkpoint(part, x, use_reentrant=True)
        self.assertEqual(calls, [False])
        y.sum().backward()
        self.assertEqual(calls, [False, True])

    def test_errors(self):
        x, flips = torch.ones(3, requires_grad=True), []
        with self.assertRaisesRegex(ValueError, "^Unexpected keyword arguments: b"):
            checkpoint(lambda a, b: a, x, b=3, use_reentrant=True)
        with self.assertRaisesRegex(NotImplementedError, "context_fn is not supported"):
            checkpoint(lambda a: a, x, use_reentrant=False, context_fn=lambda: None)
        with self.assertWarnsRegex(UserWarning, "the use_reentrant parameter should be passed explicitly"):
            checkpoint(lambda a: a * 2, x)

        def unsteady(a):
            flips.append(1)
            return (a, a) if len(flips) > 1 else (a * 2,)
        with self.assertRaisesRegex(CheckpointError, "A different number of tensors was computed again"):
            checkpoint(unsteady, x, use_reentrant=False)[0].sum().backward()


class Forks(unittest.TestCase):
    def test_fork(self):
        torch.manual_seed(3)
        with fork_rng():
            first = torch.rand(2).tolist()
            torch.manual_seed(9)
        self.assertEqual(torch.rand(2).tolist(), first)
        with fork_rng(enabled=False):
            second = torch.rand(2).tolist()
        self.assertNotEqual(torch.rand(2).tolist(), second)


if __name__ == "__main__":
    unittest.main()
