"""OpenCL devices from Python, on PoCL: torch.opencl, placement, copies, streams, files, a training as in tutorials; and x.xpu() on simulated
Intel GPUs.

test-env: FACULA_OPENCL=cpu
"""

import os
import subprocess
import sys
import tempfile
import unittest

import facula as torch
from facula import nn

TRAINING = """
import torch
from torch import nn
device = torch.device("opencl" if torch.opencl.is_available() else "cpu")
torch.manual_seed(0)
X, y = torch.randn(100, 10), torch.randn(100, 1)
net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1)).to(device)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
first = None
for epoch in range(20):
    X, y = X.to(device), y.to(device)
    loss = nn.functional.mse_loss(net(X), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    first = first or loss.item()
print(device, next(net.parameters()).device, X.device, loss.item() < 0.9 * first, f"{loss.item():.4f}")
"""


class OpenCL(unittest.TestCase):
    def test_what_is_there(self):
        self.assertTrue(torch.opencl.is_available())
        self.assertEqual(torch.opencl.device_count(), 2)
        self.assertFalse(torch.xpu.is_available() or torch.mps.is_available())
        self.assertEqual(torch.accelerator.current_accelerator(), torch.device("opencl"))
        properties = torch.opencl.get_device_properties(1)
        self.assertEqual(properties.name, torch.opencl.get_device_name("opencl:1"))
        self.assertGreater(properties.total_memory, 1 << 20)
        self.assertTrue(properties.name and properties.multi_processor_count >= 1)

    def test_placement(self):
        x = torch.ones(2, 3, device="opencl")
        self.assertEqual(repr(x), "tensor([[1., 1., 1.],\n        [1., 1., 1.]], device='opencl:0')")
        self.assertEqual(x.to("opencl:1").device, torch.device("opencl:1"))
        self.assertIs(x.to("opencl"), x)
        self.assertEqual((x.cpu() + x.to("opencl:1").cpu()).tolist(), [[2.0] * 3] * 2)
        self.assertEqual(torch.ones(1, device=0).device, torch.device("opencl:0"))
        self.assertEqual((x * torch.tensor(2.0)).device, x.device)
        with torch.device("opencl:1"):
            self.assertEqual(nn.Linear(1, 1).weight.device, torch.device("opencl:1"))
        with torch.opencl.device(1):
            self.assertEqual((torch.opencl.current_device(), torch.zeros(1, device="opencl").get_device()), (1, 1))
        self.assertEqual(torch.opencl.current_device(), 0)

    def test_refusals(self):
        def refused(kind, words, call):
            with self.assertRaises(kind) as caught:
                call()
            self.assertIn(words, str(caught.exception))

        x = torch.ones(2, device="opencl")
        refused(RuntimeError, "Expected all tensors to be on the same device, but found at least two devices, opencl:0 and cpu!",
                lambda: x + torch.ones(2))
        refused(RuntimeError, "Expected all tensors to be on the same device", lambda: x + x.to("opencl:1"))
        refused(torch.AcceleratorError, "OPENCL error: invalid device ordinal. opencl:7 was asked for, but there are 2", lambda: x.to("opencl:7"))
        refused(RuntimeError, "Found no xpu device on your system: OpenCL's drivers show devices, as opencl:0, but none is an Intel GPU. ", lambda: x.to("xpu"))
        refused(RuntimeError, "Found no mps device on your system: OpenCL's drivers show devices, as opencl:0, but none is Apple's GPU. ", lambda: x.to("mps"))
        refused(RuntimeError, "Invalid device string: 'opencl:x'", lambda: torch.device("opencl:x"))
        refused(TypeError, "can't convert opencl:0 device type tensor to numpy. Use Tensor.cpu()", x.numpy)
        refused(torch.OutOfMemoryError, "OPENCL out of memory. Tried to allocate 3725.29 GiB.", lambda: torch.empty(10**12, device="opencl"))
        refused(ValueError, "Expected a opencl device, but got: cpu", lambda: torch.opencl.synchronize("cpu"))

    def test_memory(self):
        torch.opencl.empty_cache()
        before = torch.opencl.memory_allocated(1)
        x = torch.zeros(1000, device="opencl:1")
        self.assertEqual(torch.opencl.memory_allocated(1) - before, 4096)
        self.assertGreaterEqual(torch.opencl.memory_reserved(1), 4096)
        free, total = torch.opencl.mem_get_info(1)
        self.assertTrue(0 < free < total)
        del x
        torch.opencl.reset_peak_memory_stats(1)
        torch.opencl.empty_cache()
        self.assertEqual(torch.opencl.max_memory_allocated(1), before)
        self.assertEqual(torch.opencl.memory_stats(1)["allocated_bytes.all.current"], before)

    def test_streams_and_events(self):
        stream, start, end = torch.opencl.Stream(), torch.opencl.Event(enable_timing=True), torch.opencl.Event(enable_timing=True)
        with torch.opencl.stream(stream):
            start.record()
            y = torch.ones(64, 64, device="opencl") @ torch.ones(64, 64, device="opencl")
            end.record()
        torch.opencl.current_stream().wait_stream(stream)
        self.assertEqual((y * 2).sum().item(), 2 * 64**3)
        stream.synchronize()
        self.assertTrue(end.query())
        self.assertGreaterEqual(start.elapsed_time(end), 0)
        torch.opencl.synchronize()
        torch.opencl.synchronize("opencl:1")

    def test_random_numbers(self):
        torch.opencl.manual_seed(3)
        a = torch.randn(5, device="opencl")
        state = torch.opencl.get_rng_state()
        b = torch.rand(5, device="opencl")
        torch.opencl.set_rng_state(state)
        self.assertTrue(torch.equal(b, torch.rand(5, device="opencl")))
        torch.manual_seed(3)
        self.assertTrue(torch.equal(a, torch.randn(5, device="opencl")))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "net.pt")
            torch.save(nn.Linear(2, 2).to("opencl:1").state_dict(), name)
            self.assertEqual(torch.load(name)["weight"].device, torch.device("opencl:1"))
            self.assertEqual(torch.load(name, map_location="cpu")["weight"].device, torch.device("cpu"))

    def test_dtypes_and_autocast(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool):
            x = torch.tensor([0, 1, 1], device="opencl").to(dtype)
            self.assertEqual((x.dtype, x.sum().item()), (dtype, 2))
        with torch.autocast("opencl", dtype=torch.bfloat16):
            self.assertEqual((torch.ones(2, 2, device="opencl") @ torch.ones(2, 2, device="opencl")).dtype, torch.bfloat16)

    def run_file(self, text, **env):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "train.py")
            with open(name, "w", encoding="utf-8") as f:
                f.write(text)
            command = [sys.executable, "-B", "-m", "facula", name]
            done = subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, **env})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_training_is_the_cpus(self):
        here, cpu = self.run_file(TRAINING).split(), self.run_file(TRAINING, FACULA_OPENCL="off").split()
        self.assertEqual(here[:4], ["opencl", "opencl:0", "opencl:0", "True"])
        self.assertEqual(cpu[:4], ["cpu", "cpu", "cpu", "True"])
        self.assertAlmostEqual(float(here[4]), float(cpu[4]), delta=2e-4)

    def test_xpu(self):
        told = self.run_file(
            "import torch\nx = torch.ones(2)\nnet = torch.nn.Linear(1, 1)\n"
            "print(x.xpu().device, x.xpu(1).device, x.xpu('xpu:1').device, x.xpu().xpu(1).is_xpu, net.xpu(1).weight.device)\n"
            "y = x.xpu()\nprint(y.xpu() is y)\n"
            "try: x.xpu('cpu')\nexcept RuntimeError as error: print(error)\n",
            FACULA_SIM="xpu:2", FACULA_OPENCL="")
        self.assertEqual(told, "xpu:0 xpu:1 xpu:1 True xpu:1\nTrue\nInvalid device, must be xpu device\n")


if __name__ == "__main__":
    unittest.main()
