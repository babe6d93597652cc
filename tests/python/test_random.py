"""Random numbers are PyTorch's, bit for bit: 423 calls, as values widened to float64 (tests/golden/rng_vectors.json.gz)."""

import collections
import gzip
import json
import math
import os
import unittest

import facula as torch
import facula.utils.data  # noqa: F401 - calls name it

with gzip.open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "rng_vectors.json.gz")) as f:
    VECTORS = json.load(f)["vectors"]

# The laws and the type that Facula has not got: their absence is checked, so that an arrival is noticed.
ABSENT = ("complex64", "cauchy_", "log_normal_", "geometric_", "torch.poisson")


def law(call):
    """The calls that are tested together."""
    return next(
        (a for a in ABSENT if a in call),
        (
            call.split("(")[0].replace("torch.", "")
            if not call.startswith("torch.empty")
            else call.rpartition(").")[2].split("(")[0]
        ),
    )


def expected(entry):
    if "sum" in entry:
        return entry["first8"], entry["last"], entry["sum"]
    numbers = [float.fromhex(x) for x in entry["first8"]]
    return numbers, float.fromhex(entry["last"]), float.fromhex(entry["sum_f64"])


def drawn(entry):
    torch.manual_seed(entry["seed"])
    values = eval(entry["call"]).detach().flatten().tolist()
    return values[:8], values[-1], sum(values) if "sum" in entry else math.fsum(values)


class Vectors(unittest.TestCase):
    def check(self, entries):
        for entry in entries:
            with self.subTest(call=entry["call"], seed=entry["seed"]):
                if any(a in entry["call"] for a in ABSENT):
                    with self.assertRaises(AttributeError):
                        drawn(entry)
                elif "orthogonal_" in entry["call"]:  # computed from the draws: to one part in 100,000
                    for a, b in zip(drawn(entry)[0], expected(entry)[0]):
                        self.assertAlmostEqual(a, b, delta=1e-5)
                else:
                    self.assertEqual(drawn(entry), expected(entry))


_laws = collections.defaultdict(list)
for _entry in VECTORS:
    _laws[law(_entry["call"])].append(_entry)
for _name, _entries in _laws.items():
    setattr(Vectors, "test_" + _name.replace(".", "_"), lambda self, e=_entries: self.check(e))


class States(unittest.TestCase):
    def test_a_state_goes_on(self):
        for n in (1, 7, 623, 1000):
            torch.manual_seed(n)
            torch.randn(n)  # an odd count leaves a normal number behind
            state = torch.get_rng_state()
            first = torch.randn(5), torch.rand(3), torch.randperm(9)
            torch.set_rng_state(state)
            second = torch.randn(5), torch.rand(3), torch.randperm(9)
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(first, second)))

    def test_a_state_has_the_layout_of_pytorch(self):
        state = torch.manual_seed(5).get_state()
        self.assertEqual((state.dtype, state.shape), (torch.uint8, (5056,)))
        self.assertEqual(bytes(state[:32].tolist()), bytes([5] + [0] * 7 + [1, 0, 0, 0] * 2 + [0] * 8 + [5] + [0] * 7))

    def test_generators_are_apart(self):
        g = torch.Generator().manual_seed(3)
        torch.manual_seed(3)
        a = torch.rand(4, generator=g)
        self.assertTrue(torch.equal(a, torch.rand(4)))
        self.assertEqual(g.initial_seed(), 3)
        self.assertEqual(torch.Generator().initial_seed(), 67280421310721)
        self.assertNotEqual(g.seed(), g.seed())


if __name__ == "__main__":
    unittest.main()
