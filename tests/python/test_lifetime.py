"""What lives how long: tensors as Python objects (weak references, attributes, cycles, subclasses), threads,
forks, Ctrl-C, warnings that are errors."""

# test-limit: 300
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import warnings
import weakref

import facula as torch
import facula.nn as nn


class Objects(unittest.TestCase):
    def test_weak_references(self):
        x = torch.ones(2)
        dead = []
        r = weakref.ref(x, lambda _: dead.append(1))
        self.assertIs(r(), x)
        del x
        self.assertIsNone(r())
        self.assertEqual(dead, [1])
        cache = weakref.WeakKeyDictionary()
        key = torch.ones(1)
        cache[key] = "value"
        self.assertEqual(cache[key], "value")
        del key
        self.assertEqual(len(cache), 0)

    def test_attributes_stay(self):
        x = torch.ones(2)
        x.name = ["mine"]
        self.assertEqual(x.name, ["mine"])
        self.assertEqual(x.__dict__, {"name": ["mine"]})
        del x.name
        with self.assertRaisesRegex(AttributeError, "'Tensor' object has no attribute 'name'"):
            x.name
        with self.assertRaises(AttributeError):
            x.shape = (1,)

    def test_cycles_are_collected(self):
        class Mine(torch.Tensor):
            pass

        def attribute():
            x = torch.ones(2)
            x.me = x
            return weakref.ref(x)

        def of_a_subclass():
            x = Mine([1.0])
            x.friend = [x]
            return weakref.ref(x)

        def gradient():
            x = torch.ones(2, requires_grad=True)
            x.sum().backward()
            x.grad.owner = x
            return weakref.ref(x)

        def hook():
            x = torch.ones(2, requires_grad=True)
            x.register_hook(lambda g: g * x.detach())
            return weakref.ref(x)

        def module():
            net = nn.Sequential(nn.Linear(1, 1))
            net.owner = net[0]
            net[0].parent = [net]
            return weakref.ref(net)

        def module_hook():
            net = nn.Linear(1, 1)
            net.register_forward_hook(lambda *a: net)
            return weakref.ref(net)

        for make in (attribute, of_a_subclass, gradient, hook, module, module_hook):
            with self.subTest(make=make.__name__):
                r = make()
                gc.collect()
                self.assertIsNone(r())

    def test_resurrection(self):
        kept = []

        class Phoenix(torch.Tensor):
            def __del__(self):
                kept.append(self.sum().item())

        x = Phoenix([1.0, 2.0])
        del x
        gc.collect()
        self.assertEqual(kept, [3.0])

    def test_subclasses(self):
        class Mine(torch.Tensor):
            """Of one's own."""

            def double(self):
                return self * 2

        x = Mine([1.0, 2.0])
        self.assertIsInstance(x, torch.Tensor)
        self.assertEqual(x.double().tolist(), [2.0, 4.0])
        self.assertTrue(repr(x).startswith("Mine("))
        x.extra = 1
        self.assertEqual(copy.deepcopy(x).extra, 1)
        self.assertIs(type(copy.deepcopy(x)), Mine)

    def test_views_keep_memory(self):
        before = torch._C._host_memory()[0]
        x = torch.ones(1000, 1000)
        row = x[5]
        del x
        self.assertEqual(row.sum().item(), 1000)
        self.assertGreater(torch._C._host_memory()[0] - before, 3_000_000)
        del row
        gc.collect()

    def test_iterators_and_buffers_outlive_their_tensor(self):
        rows = iter(torch.arange(6).view(3, 2))
        view = memoryview(torch.arange(4))
        gc.collect()
        junk = [torch.zeros(4, dtype=torch.int64) for _ in range(100)]
        self.assertEqual([r.tolist() for r in rows], [[0, 1], [2, 3], [4, 5]])
        self.assertEqual(view.tolist(), [0, 1, 2, 3])
        del junk

    def test_warnings_that_are_errors(self):
        x = torch.ones(2, requires_grad=True) * 2
        for call in (
            lambda: x.grad,
            lambda: torch.ones(2, 3, 4).T,
            lambda: torch.tensor(torch.ones(1)),
            lambda: nn.functional.softmax(torch.ones(2)),
            lambda: nn.functional.mse_loss(torch.ones(2), torch.ones(2, 1)),
            lambda: float(torch.tensor(1.0, requires_grad=True)),
            lambda: torch.set_default_tensor_type("torch.FloatTensor"),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with self.assertRaises(UserWarning):
                    call()
            with warnings.catch_warnings(record=True) as noted:
                warnings.simplefilter("always")
                call()
            self.assertEqual(len(noted), 1)
            self.assertEqual(noted[0].filename, __file__)


class Processes(unittest.TestCase):
    def test_threads_share_tensors(self):
        """8 threads compute with, slice and drop the same tensors."""
        shared = [torch.rand(64, 64) for _ in range(8)]
        expected = [(x @ x).sum().item() for x in shared]
        errors = []

        def work(n):
            try:
                for i in range(150):
                    k = (n + i) % len(shared)
                    x = shared[k]
                    if (x @ x).sum().item() != expected[k]:
                        errors.append("another result")
                    shared[k] = x.clone()  # the old one is dropped while others may use it
                    y = x[1:, ::2].t().contiguous().requires_grad_()
                    (y * y).mean().backward()
                    with torch.no_grad():
                        if (y * 2).requires_grad:
                            errors.append("no_grad leaks between threads")
                    torch.tensor([[1, 2], [3, 4]]).tolist()
                    repr(x[:2, :2])
            except Exception as error:
                errors.append(repr(error))

        before = torch._C._host_memory()[1]
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        gc.collect()
        self.assertLess(torch._C._host_memory()[1] - before, 100)

    def test_the_lock_is_free_during_long_work(self):
        x, ticks, stop = torch.rand(1500, 1500), [0], threading.Event()

        def count():
            while not stop.wait(0.001):
                ticks[0] += 1

        t = threading.Thread(target=count)
        t.start()
        for _ in range(10):
            x @ x
        stop.set()
        t.join()
        self.assertGreater(ticks[0], 20)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_fork(self):
        x = torch.rand(500, 500)
        expected = (x @ x).sum().item()
        for _ in range(3):
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(write, repr((x @ x).sum().item()).encode())
                os._exit(0)
            os.close(write)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(float(os.read(read, 100)), expected)
            os.close(read)
            self.assertEqual((x @ x).sum().item(), expected)

    def interrupt(self, work):
        """Seconds from SIGINT to KeyboardInterrupt in a process that does the work for ever."""
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as f:
            f.write(textwrap.dedent(f"""\
                import time, facula as torch
                x = torch.rand(3000, 3000)
                print("ready", flush=True)
                try:
                    while True:
                        {work}
                except KeyboardInterrupt:
                    print("stopped", time.time(), torch.ones(3).sum().item(), flush=True)
            """))
        self.addCleanup(os.unlink, f.name)
        import time

        def heed(): signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs are started without

        with subprocess.Popen([sys.executable, f.name], stdout=subprocess.PIPE, text=True, preexec_fn=heed) as process:
            self.addCleanup(process.kill)
            process.stdout.readline()
            time.sleep(0.7)
            sent = time.time()
            process.send_signal(signal.SIGINT)
            answer = process.stdout.readline().split()
            process.wait(30)
        self.assertEqual((answer[0], float(answer[2]), process.returncode), ("stopped", 3.0, 0))
        return float(answer[1]) - sent

    def test_ctrl_c(self):
        for work in (
            "x @ x",
            "x.exp().sum()",
            "torch.sort(x)",
            "(x @ x) @ (x @ x)",
            "[torch.ones(2) for _ in range(1000)]",
            "(lambda y: (y @ y).sum().backward())(x.clone().requires_grad_())",
        ):
            with self.subTest(work=work):
                self.assertLess(self.interrupt(work), 1.0)

    def test_end_of_the_process_with_threads_at_work(self):
        program = (
            "import threading, facula as torch\nx = torch.rand(800, 800)\ndef work():\n    while True: x @ x\n"
            "for _ in range(3): threading.Thread(target=work, daemon=True).start()\nimport time; time.sleep(0.3); print('end')\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, "end\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
