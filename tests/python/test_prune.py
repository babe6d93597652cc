"""nn.utils.prune, torch.func.functional_call and nn.SyncBatchNorm. Masks are PyTorch 2.13's for the same weights."""

import unittest

import facula as torch
import facula.nn.utils.prune as prune
from facula import nn


def layer():
    made = nn.Linear(6, 4)
    with torch.no_grad():
        made.weight.copy_(torch.arange(-11.0, 13.0).reshape(4, 6) * torch.tensor([1.0, -1, 2, 0.5, 1, -3]))
    return made


class Pruning(unittest.TestCase):
    def mask(self, net):
        self.assertTrue(torch.equal(net.weight, net.weight_orig * net.weight_mask))
        return ["".join(str(int(v)) for v in row) for row in net.weight_mask.tolist()]

    def test_masks(self):
        for act, expected in (
            (lambda m: prune.identity(m, "weight"), ["111111"] * 4),
            (lambda m: prune.l1_unstructured(m, "weight", 5), ["111111", "111000", "001111", "111111"]),
            (lambda m: prune.l1_unstructured(m, "weight", 0.25), ["111111", "111000", "001011", "111111"]),
            (lambda m: prune.ln_structured(m, "weight", 2, 2, 0), ["111111", "000000", "000000", "111111"]),
            (lambda m: prune.ln_structured(m, "weight", 0.5, float("inf"), -1), ["001011"] * 4),
            (lambda m: prune.custom_from_mask(m, "weight", torch.eye(4, 6)), ["100000", "010000", "001000", "000100"]),
            (
                lambda m: prune.l1_unstructured(m, "weight", 5, importance_scores=torch.arange(24.0).view(4, 6)),
                ["000001", "111111", "111111", "111111"],
            ),
            (
                lambda m: prune.l1_unstructured(prune.ln_structured(m, "weight", 2, 1, 0), "weight", 3),
                ["111001", "000000", "000000", "111011"],
            ),
        ):
            net = layer()
            act(net)
            with self.subTest(expected=expected):
                self.assertEqual(self.mask(net), expected)

    def test_random_ones_have_as_many_zeros_as_they_should(self):
        net = prune.random_unstructured(layer(), "weight", 7)
        self.assertEqual("".join(self.mask(net)).count("0"), 7)
        net = prune.random_structured(layer(), "weight", 2, dim=1)
        self.assertEqual(sorted(map(int, net.weight_mask.sum(0).tolist())), [0, 0, 4, 4, 4, 4])

    def test_trains_and_becomes_plain_again(self):
        net = prune.l1_unstructured(layer(), "weight", 10)
        before = net.weight_mask.clone()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(2, 6)).pow(2).sum().backward()
            optimizer.step()
        net(torch.ones(1, 6))
        self.assertTrue(torch.equal(net.weight == 0, before == 0))
        self.assertTrue(prune.is_pruned(nn.Sequential(net)))
        self.assertEqual(sorted(net.state_dict()), ["bias", "weight_mask", "weight_orig"])
        prune.remove(net, "weight")
        self.assertEqual(sorted(dict(net.named_parameters())), ["bias", "weight"])
        self.assertTrue(torch.equal(net.weight == 0, before == 0))
        self.assertFalse(prune.is_pruned(net))
        self.assertEqual(net(torch.ones(2, 6)).shape, (2, 4))

    def test_several_as_one(self):
        a, b = layer(), layer()
        prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=10)
        self.assertEqual("".join(self.mask(a) + self.mask(b)).count("0"), 10)
        kept = [t.weight_orig[t.weight_mask == 1].abs().min().item() for t in (a, b)]
        gone = [t.weight_orig[t.weight_mask == 0].abs().max().item() for t in (a, b)]
        self.assertGreaterEqual(min(kept), max(gone))

    def test_wrong_arguments(self):
        for amount, kind in ((-1, ValueError), (99, ValueError), (1.5, ValueError), ("x", TypeError), (None, TypeError), (True, TypeError)):
            with self.subTest(amount=amount), self.assertRaisesRegex(kind, "amount"):
                prune.l1_unstructured(layer(), "weight", amount)
        with self.assertRaisesRegex(AttributeError, "nope"):
            prune.l1_unstructured(layer(), "nope", 1)
        with self.assertRaisesRegex(ValueError, "has to be pruned before pruning can be removed"):
            prune.remove(layer(), "weight")
        with self.assertRaisesRegex(ValueError, "Structured pruning can only be applied to multidimensional tensors"):
            prune.ln_structured(layer(), "bias", 1, 2, 0)
        with self.assertRaisesRegex(IndexError, "Invalid index 5"):
            prune.ln_structured(layer(), "weight", 1, 2, 5)


class FunctionalCall(unittest.TestCase):
    def test_other_parameters(self):
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        own = net[0].weight
        w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = torch.func.functional_call(net, {"0.weight": w, "0.bias": torch.zeros(2)}, (torch.ones(1, 2),))
        self.assertEqual(y.tolist(), [[3.0, 7.0]])
        y.sum().backward()
        self.assertEqual(w.grad.tolist(), [[1.0, 1.0], [1.0, 1.0]])
        self.assertIsNone(own.grad)
        self.assertIs(net[0].weight, own)

    def test_module_stays_itself_after_an_error(self):
        net = nn.Linear(2, 2)
        own = net.weight
        with self.assertRaises(RuntimeError):
            torch.func.functional_call(net, {"weight": torch.ones(3, 3)}, torch.ones(1, 2))
        self.assertIs(net.weight, own)

    def test_tied_weights(self):
        net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
        net[1].weight = net[0].weight
        twice = {"0.weight": 2 * torch.eye(2)}
        self.assertEqual(torch.func.functional_call(net, twice, torch.ones(1, 2)).tolist(), [[4.0, 4.0]])

    def test_errors(self):
        net, w = nn.Linear(2, 2), torch.ones(2, 2)
        with self.assertRaisesRegex(RuntimeError, r"reparametrizing for Linear:\n\tMissing key\(s\): 'bias'"):
            torch.func.functional_call(net, {"weight": w}, torch.ones(1, 2), strict=True)
        with self.assertRaisesRegex(ValueError, "appeared in multiple dictionaries"):
            torch.func.functional_call(net, ({"weight": w}, {"weight": w}), torch.ones(1, 2))
        with self.assertRaisesRegex(AttributeError, "transforms .* are planned"):
            torch.func.vmap


class SyncBatchNorm(unittest.TestCase):
    def test_is_batch_norm_in_one_process(self):
        torch.manual_seed(0)
        a, b, x = nn.SyncBatchNorm(3), nn.BatchNorm1d(3), torch.rand(4, 3, 2)
        for _ in range(2):
            self.assertTrue(torch.allclose(a(x), b(x)))
        a.eval(), b.eval()
        self.assertTrue(torch.allclose(a(x), b(x)))
        with self.assertRaisesRegex(ValueError, "expected at least 2D input"):
            a(torch.ones(3))

    def test_convert(self):
        net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3)))
        weight = net[1][0].weight
        made = nn.SyncBatchNorm.convert_sync_batchnorm(net)
        self.assertIsInstance(made[1][0], nn.SyncBatchNorm)
        self.assertIs(made[1][0].weight, weight)
        self.assertEqual(made(torch.rand(4, 2)).shape, (4, 3))


if __name__ == "__main__":
    unittest.main()
