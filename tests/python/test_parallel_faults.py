"""nn.DataParallel on two simulated devices with a fault at some of its launches and copies: an exception that names the device, and the same
training succeeds with the same numbers afterwards."""
import ctypes
import os
import sys
import unittest
import warnings

if "FACULA_SIM" not in os.environ:
    os.environ["FACULA_SIM"] = "cuda:2"
    os.execv(sys.executable, [sys.executable, "-B"] + sys.argv)
import facula as torch
from facula import nn

STEPS = 20


def simulator():
    torch.zeros(1, device="cuda:0")  # it is open now
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "libfacula_sim" in line)
    sim = ctypes.CDLL(path)
    sim.facula_sim_faults.argtypes = sim.facula_sim_count.argtypes = [ctypes.c_char_p]
    sim.facula_sim_count.restype = ctypes.c_uint64
    return sim


def train():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).to("cuda:0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = nn.DataParallel(net, device_ids=[0, 1])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        x, y = torch.rand(8, 6).to("cuda:0"), torch.randint(0, 3, (8,)).to("cuda:0")
        loss = nn.functional.cross_entropy(both(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


class Faults(unittest.TestCase):
    def settle(self):
        SIM.facula_sim_faults(None)
        for device in (0, 1, 0, 1):
            try:
                torch.cuda.synchronize(device)
            except torch.AcceleratorError:
                pass

    def points(self, kind, counted, stride):
        before = SIM.facula_sim_count(counted)
        right = train()
        for n in range(1, SIM.facula_sim_count(counted) - before + 1, stride):
            SIM.facula_sim_faults(b"%s:%d" % (kind, n))
            with self.assertRaisesRegex(torch.AcceleratorError, r"CUDA error[^$]* happened on cuda:|gave up cuda:", msg="%s:%d" % (kind, n)):
                train()
            self.settle()
            self.assertEqual(train(), right, "%s:%d" % (kind, n))

    def test_launches_are_refused(self):
        self.points(b"launch", b"launch", 61)

    def test_launches_fail_later(self):
        self.points(b"late", b"launch", 53)

    def test_copies_fail(self):
        self.points(b"copy", b"copy", 43)

    def test_a_device_is_lost(self):
        self.points(b"lost", b"launch", 97)


if __name__ == "__main__":
    SIM = simulator()
    unittest.main()
