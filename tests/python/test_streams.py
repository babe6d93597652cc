"""Streams and events from Python, on two simulated devices and one of another name: torch's classes, forms and errors."""
import os
import sys
import unittest

if "FACULA_SIM" not in os.environ:
    os.environ["FACULA_SIM"] = "cuda:2,npu:1"
    os.execv(sys.executable, [sys.executable, "-B"] + sys.argv)
import facula as torch


class Streams(unittest.TestCase):
    def tearDown(self):
        torch.cuda.set_stream(torch.cuda.default_stream(1))
        torch.cuda.set_stream(torch.cuda.default_stream(0))
        torch.cuda.synchronize(0), torch.cuda.synchronize(1)

    def test_names_and_forms(self):
        main = torch.cuda.default_stream()
        self.assertEqual(repr(main), "<torch.cuda.Stream device=cuda:0 cuda_stream=0x0>")
        self.assertEqual((main.cuda_stream, main.priority, main.device), (0, 0, torch.device("cuda:0")))
        self.assertEqual(torch.cuda.current_stream(), main)
        self.assertEqual(hash(torch.cuda.current_stream()), hash(main))
        side = torch.cuda.Stream(priority=-1)
        self.assertNotEqual(side, main)
        self.assertEqual(side.priority, -1)
        self.assertRegex(repr(side), r"^<torch.cuda.Stream device=cuda:0 cuda_stream=0x[0-9a-f]+>$")
        self.assertIsInstance(side, torch.Stream)
        self.assertEqual(torch.cuda.ExternalStream(side.cuda_stream), side)
        self.assertEqual(torch.cuda.get_stream_from_external(side.cuda_stream), side)
        self.assertEqual(repr(torch.Stream("cpu")), "torch.Stream device_type=cpu, device_index=-1, stream_id=0")
        self.assertEqual(torch.cuda.Stream("cuda:1").device, torch.device("cuda:1"))
        with self.assertRaisesRegex(ValueError, "Expected a cuda device, but got: cpu"):
            torch.cuda.Stream("cpu")

    def test_current_stream_and_scopes(self):
        side, there = torch.cuda.Stream(), torch.cuda.Stream(device=1)
        with torch.cuda.stream(side):
            self.assertEqual(torch.cuda.current_stream(), side)
            with torch.cuda.stream(there):
                self.assertEqual(torch.cuda.current_device(), 1)
                self.assertEqual(torch.cuda.current_stream(), there)
                self.assertEqual(torch.cuda.current_stream(0), side)
            self.assertEqual(torch.cuda.current_device(), 0)
            self.assertEqual(torch.cuda.current_stream(1), torch.cuda.default_stream(1))
        self.assertEqual(torch.cuda.current_stream(), torch.cuda.default_stream())
        with torch.cuda.stream(None), torch.cuda.StreamContext(None):
            self.assertEqual(torch.cuda.current_device(), 0)
        with side:
            self.assertEqual(torch.accelerator.current_stream(), side)
        torch.cuda.set_stream(None)
        torch.accelerator.set_stream(there)
        self.assertEqual((torch.cuda.current_device(), torch.cuda.current_stream()), (1, there))

    def test_order(self):
        side = torch.cuda.Stream()
        x = torch.zeros(100, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x + 1
        x.record_stream(side)
        torch.cuda.current_stream().wait_event(side.record_event())
        self.assertEqual((y * 2).sum().item(), 200)
        with torch.cuda.stream(side):
            z = torch.ones(100, device="cuda") * 5
        side.synchronize()
        self.assertTrue(side.query())
        self.assertEqual(z.sum().item(), 500)
        with self.assertRaisesRegex(TypeError, r"record_stream\(\): argument 's' \(position 1\) must be Stream, not int"):
            x.record_stream(3)

    def test_events(self):
        self.assertEqual(repr(torch.cuda.Event()), "<torch.cuda.Event uninitialized>")
        self.assertEqual(repr(torch.Event()), "torch.Event device_type=cuda, device_index=-1, event_flag=0, event_id=0")
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.assertIsInstance(start, torch.Event)
        self.assertTrue(start.query())
        with self.assertRaisesRegex(ValueError, "Both events must be recorded before calculating elapsed time."):
            start.elapsed_time(end)
        start.record()
        torch.rand(200, 200, device="cuda").exp()
        end.record()
        self.assertFalse(end.query())
        end.synchronize()
        self.assertTrue(start.elapsed_time(end) > 0)
        self.assertRegex(repr(end), "^<torch.cuda.Event 0x[0-9a-f]+>$")
        with self.assertRaisesRegex(ValueError, "Both events must be created with argument 'enable_timing=True'."):
            start.elapsed_time(torch.cuda.Event())
        with torch.cuda.device(1), self.assertRaisesRegex(RuntimeError, "Event device cuda:0 does not match recording stream's device cuda:1"):
            end.record()
        with self.assertRaises(NotImplementedError):
            end.ipc_handle()
        s = torch.cuda.Stream()
        for call, name, kind in ((lambda: end.record("x"), "an event's record", "Stream needed, not str"), (lambda: s.wait_stream(None), "wait_stream", "Stream needed, not NoneType"),
                                 (lambda: s.wait_event(s), "wait_event", "Event needed, not Stream"), (lambda: torch.cuda.stream(1), "stream", "Stream needed, not int"),
                                 (lambda: torch.cuda.set_stream("s"), "set_stream", "Stream needed, not str"), (lambda: start.elapsed_time(None), "elapsed_time", "Event needed, not NoneType")):
            with self.assertRaisesRegex(TypeError, f"{name}.*: {kind}"):
                call()

    def test_pinned_memory(self):
        x = torch.arange(10.).pin_memory()
        self.assertTrue(x.is_pinned())
        self.assertFalse(torch.arange(10.).is_pinned())
        there = x.to("cuda", non_blocking=True)
        back = (there * 2).to("cpu", non_blocking=True)
        self.assertTrue(back.is_pinned())
        self.assertEqual(back.tolist(), [2. * i for i in range(10)])
        there.copy_(torch.ones(10).pin_memory(), non_blocking=True)
        self.assertEqual(there.sum().item(), 10)
        self.assertEqual(x.cuda(1, non_blocking=True).device, torch.device("cuda:1"))
        self.assertFalse(torch.ones(3).to("cuda", non_blocking=True).is_pinned())

    def test_other_names(self):
        side = torch.npu.Stream()
        self.assertRegex(repr(side), "^<torch.npu.Stream device=npu:0 npu_stream=0x")
        with torch.npu.stream(side):
            x = torch.ones(3, device="npu") + 1
        side.synchronize()
        self.assertEqual(x.sum().item(), 6)
        event = torch.npu.Event(enable_timing=True)
        event.record(side)
        event.wait()
        self.assertEqual(event.device, torch.device("npu:0"))

    def test_a_step_on_a_side_stream(self):
        side = torch.cuda.Stream()
        net = torch.nn.Linear(4, 2).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                optimizer.zero_grad()
                loss = net(torch.ones(3, 4, device="cuda")).square().mean()
                loss.backward()
                optimizer.step()
            last = loss.item()
        torch.cuda.current_stream().wait_stream(side)
        self.assertLess(net(torch.ones(3, 4, device="cuda")).square().mean().item(), last)


if __name__ == "__main__":
    unittest.main()
