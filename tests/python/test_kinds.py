"""Programs of the kinds that people write for PyTorch, small ones of our own: policies that draw actions, a VAE's divergence,
curves for TensorBoard, names that programs import though they hardly use them."""
import glob
import math
import os
import struct
import sys
import tempfile
import unittest

import facula as torch
import facula.distributions as D
import facula.nn as nn
from facula.utils.tensorboard import SummaryWriter, events

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_programs import Program


class Distributions(unittest.TestCase):
    def near(self, got, wanted):
        self.assertTrue(torch.allclose(got, torch.tensor(wanted), atol=1e-4), f"{got} is not {wanted}")

    def test_values(self):
        self.near(D.Categorical(torch.tensor([1.0, 3.0])).log_prob(torch.tensor([0, 1])), [math.log(0.25), math.log(0.75)])
        self.near(D.Categorical(logits=torch.tensor([1.0, 1.0])).entropy(), math.log(2))
        self.near(D.Categorical(torch.tensor([0.0, 1.0])).entropy(), 0.0)
        self.near(D.Bernoulli(torch.tensor(0.25)).log_prob(torch.tensor([0.0, 1.0])), [math.log(0.75), math.log(0.25)])
        self.near(D.Bernoulli(logits=torch.tensor(0.0)).entropy(), math.log(2))
        self.near(D.Normal(1.0, 2.0).log_prob(torch.tensor(3.0)), -0.5 - math.log(2) - 0.5 * math.log(2 * math.pi))
        self.near(D.Normal(0.0, 1.0).cdf(torch.tensor(1.0)), 0.841345)
        self.near(D.Normal(0.0, 1.0).entropy(), 0.5 + 0.5 * math.log(2 * math.pi))
        self.near(D.Uniform(0.0, 4.0).log_prob(torch.tensor(1.0)), -math.log(4))
        self.near(D.OneHotCategorical(torch.tensor([1.0, 3.0])).log_prob(torch.tensor([0.0, 1.0])), math.log(0.75))
        self.near(D.Independent(D.Normal(torch.zeros(3), torch.ones(3)), 1).log_prob(torch.zeros(3)),
                  -1.5 * math.log(2 * math.pi))

    def test_shapes(self):
        c = D.Categorical(logits=torch.zeros(4, 3))
        self.assertEqual([tuple(c.sample().shape), tuple(c.sample((5, 2)).shape), tuple(c.log_prob(c.sample((5,))).shape)],
                         [(4,), (5, 2, 4), (5, 4)])
        self.assertEqual(tuple(D.Normal(torch.zeros(3), 1.0).rsample((2,)).shape), (2, 3))
        self.assertEqual(tuple(D.OneHotCategorical(torch.ones(2, 3)).sample((4,)).shape), (4, 2, 3))

    def test_samples_follow_the_probabilities(self):
        torch.manual_seed(0)
        self.near((D.Categorical(torch.tensor([1.0, 3.0])).sample((4000,)).float().mean() - 0.75).abs().round(decimals=1), 0.0)
        drawn = D.Normal(2.0, 0.5).sample((4000,))
        self.assertTrue(abs(drawn.mean().item() - 2) < 0.05 and abs(drawn.std().item() - 0.5) < 0.05)

    def test_divergences(self):
        self.near(D.kl_divergence(D.Normal(1.0, 1.0), D.Normal(0.0, 2.0)), math.log(2) + 2 / 8 - 0.5)
        p, q = D.Categorical(torch.tensor([0.5, 0.5])), D.Categorical(torch.tensor([0.25, 0.75]))
        self.near(D.kl_divergence(p, q), 0.5 * math.log(2) + 0.5 * math.log(2 / 3))
        self.near(D.kl_divergence(D.Bernoulli(torch.tensor(0.5)), D.Bernoulli(torch.tensor(0.25))),
                  0.5 * math.log(2) + 0.5 * math.log(2 / 3))
        self.assertRaisesRegex(NotImplementedError, "No KL", D.kl_divergence, p, D.Normal(0.0, 1.0))

    def test_what_is_refused(self):
        for wanted, make in (("Simplex", lambda: D.Categorical(torch.tensor([-1.0, 2.0]))),
                             ("scale", lambda: D.Normal(0.0, -1.0)),
                             ("Either `probs` or `logits`", lambda: D.Bernoulli()),
                             ("at least one-dim", lambda: D.Categorical(torch.tensor(1.0))),
                             ("support", lambda: D.Categorical(torch.ones(2)).log_prob(torch.tensor(7))),
                             ("not defined", lambda: D.Uniform(1.0, 0.0))):
            self.assertRaisesRegex(ValueError, wanted, make)
        self.assertRaisesRegex(NotImplementedError, "no derivatives", D.Categorical(torch.ones(2)).rsample)

    def test_a_policy_learns_the_better_arm(self):
        torch.manual_seed(1)
        logits = nn.Parameter(torch.zeros(2))
        optimizer = torch.optim.Adam([logits], 0.1)
        for _ in range(60):
            policy = D.Categorical(logits=logits)
            action = policy.sample((16,))
            loss = -(policy.log_prob(action) * (action.float() - 0.5)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.assertGreater(D.Categorical(logits=logits).probs[1].item(), 0.9)

    def test_a_posterior_learns_its_prior(self):
        torch.manual_seed(2)
        mean, log_std = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
        optimizer = torch.optim.Adam([mean, log_std], 0.1)
        for _ in range(200):
            posterior = D.Normal(mean, log_std.exp())
            value = posterior.rsample((8,))
            loss = D.kl_divergence(posterior, D.Normal(0.0, 1.0)).sum() + 0 * value.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.assertLess(loss.item(), 1e-2)


class Curves(unittest.TestCase):
    def read(self, path):
        """The messages of an event file, their checksums tested."""
        with open(path, "rb") as f:
            data = f.read()
        messages = []
        while data:
            length, = struct.unpack("<Q", data[:8])
            message = data[12:12 + length]
            self.assertEqual(events.record(message), data[:16 + length])
            messages.append(message)
            data = data[16 + length:]
        return messages

    def test_scalars(self):
        self.assertEqual(events.checksum(b"123456789"), ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF)
        with tempfile.TemporaryDirectory() as folder:
            with SummaryWriter(folder) as writer:
                writer.add_scalar("loss/train", torch.tensor(0.5), 3, walltime=1.0)
                writer.add_scalars("both", {"a": 1.0}, 300)
                self.assertRaisesRegex(NotImplementedError, "add_histogram is not in Facula", lambda: writer.add_histogram)
            path, = glob.glob(folder + "/events.out.tfevents.*")
            first, scalar = self.read(path)
            self.assertIn(b"brain.Event:2", first)
            value = b"\x0a\x0aloss/train" + b"\x15" + struct.pack("<f", 0.5)
            body = b"\x0a" + bytes([len(value)]) + value
            self.assertEqual(scalar, b"\x09" + struct.pack("<d", 1.0) + b"\x10\x03" + b"\x2a" + bytes([len(body)]) + body)
            path, = glob.glob(folder + "/both_a/events.out.tfevents.*")
            self.assertIn(b"\x10\xac\x02", self.read(path)[1])


class Names(Program):
    def test_a_program_asks_for_versions_and_modules(self):
        done = self.facula("-c", "import importlib.metadata as m, torch, torch.onnx, torch.functional\n"
                                 "print(m.version('torch') == torch.__version__, torch.functional.einsum is torch.einsum)\n"
                                 "try:\n    torch.onnx.export(None, None)\nexcept NotImplementedError as e:\n"
                                 "    print('no', 'ONNX' in str(e))\n")
        self.prints(done, "True True\nno True\n")

    def test_processes(self):
        self.write("work.py", """\
            import sys, torch, torch.multiprocessing as mp
            def work(i, numbers, bad):
                if i == bad:
                    sys.exit(7)
                assert numbers.sum() == 3
            if __name__ == "__main__":
                mp.spawn(work, (torch.ones(3), -1), nprocs=2)
                try:
                    mp.spawn(work, (torch.ones(3), 1), nprocs=2)
                except RuntimeError as e:
                    print(e)
            """)
        self.prints(self.facula("work.py"), "process 1 terminated with exit code 7: its own messages stand above "
                                            "(torch.multiprocessing.spawn)\n")


class InPlaceFunctions(unittest.TestCase):
    def test_they_change_their_argument(self):
        x = torch.tensor([0.0, 4.0])
        self.assertIs(torch.sqrt_(x), x)
        self.assertEqual(x.tolist(), [0.0, 2.0])
        self.assertEqual(torch.clamp_(x, max=1).tolist(), [0.0, 1.0])


if __name__ == "__main__":
    unittest.main()
