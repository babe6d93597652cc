"""Loaders: whole batches, workers as processes, what they share, how they fail and end."""
import gc
import os
import random
import signal
import subprocess
import sys
import time
import unittest
import warnings

import facula as torch
from facula.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, Subset, TensorDataset, get_worker_info

X, Y = torch.arange(24.0).view(12, 2), torch.arange(12)
DATA = TensorDataset(X, Y)


class Facts(Dataset):
    """What a worker sees."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        info = get_worker_info()
        return [i, info.id, info.num_workers, info.seed, torch.initial_seed(), torch.rand(1).item(), random.random(), os.getpid()]


class Parts(IterableDataset):
    """Worker i of several gives 3 + 2 i numbers from 10 i on."""

    def __iter__(self):
        info = get_worker_info()
        return iter(range(7)) if info is None else iter(range(10 * info.id, 10 * info.id + 3 + 2 * info.id))


class Failing(Dataset):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i == 2:
            raise self.error
        return i


class Dying(Dataset):
    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 3:
            if self.how < 0:
                os._exit(-self.how)
            os.kill(os.getpid(), self.how)
            time.sleep(20)
        return i


class Slow(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        time.sleep(30 if i == 2 else 0)
        return i


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def same(case, one, other):
    case.assertEqual([[part.tolist() for part in batch] for batch in one], [[part.tolist() for part in batch] for batch in other])



class Whole(unittest.TestCase):
    """Batches of a TensorDataset come in one go: that must not be seen."""

    def test_own_getitem_is_called(self):
        class Own(TensorDataset):
            def __getitem__(self, i):
                return super().__getitem__(i)[0] + 100
        self.assertEqual(next(iter(DataLoader(Own(X, Y), 2))).tolist(), [[100, 101], [102, 103]])

    def test_batches_are_copies(self):
        x = X.clone()
        for loader in (DataLoader(TensorDataset(x), 4), DataLoader(TensorDataset(x), 4, shuffle=True)):
            for (batch,) in loader:
                batch.zero_()
        self.assertEqual(x.tolist(), X.tolist())

    def test_gradients_reach_the_data(self):
        x = X.clone().requires_grad_()
        for (batch,) in DataLoader(TensorDataset(x), 5, shuffle=True):
            (batch * 3).sum().backward()
        self.assertEqual(x.grad.tolist(), torch.full((12, 2), 3.0).tolist())

    def test_subset_of_a_subset(self):
        subset = Subset(Subset(DATA, [5, 3, 1, 0]), [3, 2, 1])
        self.assertEqual([b[1].tolist() for b in DataLoader(subset, 2)], [[0, 1], [3]])

    def test_index_out_of_range(self):
        with self.assertRaises(IndexError):
            list(DataLoader(Subset(DATA, [5, 40]), 2))


class Workers(unittest.TestCase):
    def test_order_is_that_of_no_workers(self):
        for options in ({"shuffle": True}, {"batch_size": 5, "shuffle": True}, {"batch_size": None},
                        {"batch_size": 5, "drop_last": True}, {"sampler": RandomSampler(DATA, True, 17), "batch_size": 4},
                        {"batch_size": 3, "prefetch_factor": 7}):
            with self.subTest(options):
                torch.manual_seed(5)
                loader = DataLoader(DATA, num_workers=2, **options)
                ours = [list(loader), list(loader)]
                options.pop("prefetch_factor", None)
                torch.manual_seed(5)
                loader = DataLoader(DATA, **options)
                same(self, sum([list(loader), list(loader)], []), sum(ours, []))

    def test_seeds(self):
        torch.manual_seed(2)
        base = torch.empty((), dtype=torch.int64).random_().item()
        torch.manual_seed(2)
        rows = list(DataLoader(Facts(), None, num_workers=2))
        for i, (index, worker, workers, seed, initial, drawn, python, pid) in enumerate(rows):
            self.assertEqual((index, worker, workers, seed, initial), (i, i % 2, 2, base + i % 2, base + i % 2))
            self.assertNotEqual(pid, os.getpid())
        torch.manual_seed(base)
        random.seed(base)
        self.assertEqual([torch.rand(1).item(), random.random()], rows[0][5:7])
        self.assertIsNone(get_worker_info())

    def test_iterable(self):
        loader = DataLoader(Parts(), 2, num_workers=2)
        for _ in range(2):
            self.assertEqual([b.tolist() for b in loader], [[0, 1], [10, 11], [2], [12, 13], [14]])
        whole = DataLoader(Parts(), 2, num_workers=2, drop_last=True)
        self.assertEqual([b.tolist() for b in whole], [[0, 1], [10, 11], [12, 13]])

    def test_out_of_order(self):
        loader = DataLoader(DATA, 2, num_workers=2, in_order=False)
        self.assertEqual(sorted(i for _, y in loader for i in y.tolist()), list(range(12)))

    def test_persistent(self):
        torch.manual_seed(7)
        loader = DataLoader(Facts(), None, num_workers=2, persistent_workers=True)
        first, second = list(loader), list(loader)
        self.assertEqual({row[-1] for row in first}, {row[-1] for row in second})
        self.assertNotEqual([row[5] for row in first], [row[5] for row in second])
        iterator = iter(loader)
        next(iterator)
        self.assertEqual([row[0] for row in loader], [0, 1, 2, 3, 4, 5])  # what was under way is dropped

    def test_spawn(self):
        script = ("import sys\nfrom facula.utils.data import DataLoader\nsys.path.insert(0, %r)\nimport test_loader as t\n"
                  "if __name__ == '__main__':\n"
                  "    loader = DataLoader(t.DATA, 5, num_workers=2, multiprocessing_context='spawn')\n"
                  "    print([b[1].tolist() for b in loader])\n" % os.path.dirname(os.path.abspath(__file__)))
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"facula_spawn_{os.getpid()}.py")
        with open(path, "w") as f:
            f.write(script)
        try:
            done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
        finally:
            os.unlink(path)
        self.assertEqual((done.stdout, done.stderr), ("[[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]\n", ""))

    def test_init_function(self):
        loader = DataLoader(Facts(), None, num_workers=2, worker_init_fn=lambda number: torch.manual_seed(100 + number))
        self.assertEqual([row[4] for row in loader], [100, 101] * 3)


class Shared(unittest.TestCase):
    """Tensors of every kind arrive as they were sent."""

    SENT = {"a": torch.ones(2, requires_grad=True), "empty": torch.ones(0, 3), "scalar": torch.tensor(5, dtype=torch.int8),
            "turned": torch.arange(6.0).view(2, 3).t(), "half": torch.ones(2, 2).bfloat16(), "flags": torch.arange(3) > 1,
            "large": torch.arange(90000.0).view(300, 300), "list": [torch.ones(1), ("x", 2)]}

    class One(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return Shared.SENT

    def test_kinds(self):
        for got in DataLoader(self.One(), None, num_workers=1, collate_fn=lambda sample: sample):
            for name, sent in self.SENT.items():
                if name == "list":
                    self.assertEqual((got[name][0].tolist(), got[name][1]), ([1.0], ("x", 2)))
                    continue
                self.assertEqual((got[name].dtype, got[name].shape), (sent.dtype, sent.shape))
                self.assertEqual(got[name].requires_grad, sent.requires_grad)
                self.assertEqual(got[name].tolist(), sent.tolist())

    def test_batches_outlive_the_loader(self):
        loader = DataLoader(TensorDataset(torch.arange(64000.0).view(64, 1000)), 16, num_workers=2)
        batches = list(loader)
        sums = [b[0].sum().item() for b in batches]
        del loader
        gc.collect()
        batches[0][0].zero_()
        self.assertEqual([b[0].sum().item() for b in batches], [0.0, *sums[1:]])

    @unittest.skipUnless(os.path.isdir("/proc/self/fd"), "counting descriptors needs /proc")
    def test_no_descriptor_is_left(self):
        def one_epoch():
            return [b[0].sum().item() for b in DataLoader(TensorDataset(torch.ones(64, 1000)), 4, num_workers=2)]
        one_epoch()
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        kept = list(DataLoader(TensorDataset(torch.ones(64, 1000)), 4, num_workers=2))  # 16 mapped batches are no descriptors
        one_epoch()
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        self.assertEqual(len(kept), 16)

    def test_gradients_do_not_travel(self):
        class Recorded(Dataset):
            def __len__(self):
                return 1

            def __getitem__(self, i):
                return torch.ones(2, requires_grad=True) * 2
        with self.assertRaisesRegex(RuntimeError, "Cowardly refusing to serialize non-leaf tensor which requires_grad"):
            list(DataLoader(Recorded(), None, num_workers=1))


class Failures(unittest.TestCase):
    def failure(self, error, kind):
        iterator = iter(DataLoader(Failing(error), num_workers=2))
        self.assertEqual([next(iterator).item(), next(iterator).item()], [0, 1])
        with self.assertRaises(kind) as caught:
            next(iterator)
        self.assertEqual(next(iterator).item(), 3)  # the loader goes on
        self.assertRaises(StopIteration, next, iterator)
        return str(caught.exception)

    def test_exceptions_come_with_their_traceback(self):
        text = self.failure(ValueError("boo"), ValueError)
        self.assertTrue(text.startswith("Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent "
                                        "call last):"))
        self.assertIn("raise self.error", text)
        self.assertTrue(text.endswith("ValueError: boo\n"))
        self.assertIn("\nKeyError: 'k'", self.failure(KeyError("k"), KeyError))
        self.assertIn("Caught Odd in", self.failure(Odd(1, 2), RuntimeError))

    def test_failing_init_function(self):
        def init(number):
            raise ValueError("from init")
        with self.assertRaisesRegex(ValueError, "(?s)Caught ValueError in DataLoader worker process 0.*from init"):
            list(DataLoader(DATA, num_workers=2, worker_init_fn=init))

    def test_what_cannot_be_pickled(self):
        with self.assertRaisesRegex(Exception, "Caught .* in DataLoader worker process 0"):
            list(DataLoader(DATA, num_workers=1, collate_fn=lambda batch: lambda: 1))

    def test_killed_worker(self):
        for how, cause in ((signal.SIGKILL, "is killed by signal: Killed. "), (signal.SIGSEGV, "is killed by signal: "
                                                                                               "Segmentation fault. "),
                           (-3, "exited unexpectedly with exit code 3. Details are lost due to multiprocessing.")):
            start = time.monotonic()
            with self.assertRaisesRegex(RuntimeError, r"^DataLoader worker \(pid\(s\) \d+\) exited unexpectedly$") as caught:
                list(DataLoader(Dying(how), num_workers=2))
            self.assertIn(cause, str(caught.exception.__cause__))
            self.assertLess(time.monotonic() - start, 15)

    def test_timeout(self):
        loader = DataLoader(Slow(), None, num_workers=1, timeout=1)
        iterator = iter(loader)
        with self.assertRaisesRegex(RuntimeError, "^DataLoader timed out after 1 seconds$"):
            list(iterator)
        for w in iterator._workers:
            w.process.kill()

    def test_leaving_early(self):
        iterator = iter(DataLoader(DATA, num_workers=2))
        next(iterator)
        processes = [w.process for w in iterator._workers]
        start = time.monotonic()
        del iterator
        gc.collect()
        self.assertLess(time.monotonic() - start, 3)
        self.assertFalse(any(p.is_alive() for p in processes))

    def test_the_loaders_process_dies(self):
        """Workers whose loader is gone leave, even while another process holds what it had inherited."""
        script = ("import os, sys\nsys.path.insert(0, %r)\nimport test_loader as t\nit = iter(t.DataLoader(t.DATA, "
                  "num_workers=2))\nnext(it)\nprint(*[w.process.pid for w in it._workers], flush=True)\nos.kill(os.getpid(), "
                  "9)\n"
                  % os.path.dirname(os.path.abspath(__file__)))
        done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=60)
        pids = [int(p) for p in done.stdout.split()]
        self.assertEqual(len(pids), 2)
        stop = time.monotonic() + 20
        while any(running(p) for p in pids) and time.monotonic() < stop:
            time.sleep(0.05)
        self.assertEqual([p for p in pids if running(p)], [])

    def test_interrupt(self):
        """Ctrl-C, which all processes of a terminal get: one traceback, that of the loader's process."""
        script = ("import sys\nsys.path.insert(0, %r)\nimport test_loader as t\nit = iter(t.DataLoader(t.Slow(), None, "
                  "num_workers=2))\n"
                  "print(next(it), next(it), flush=True)\nnext(it)\n" % os.path.dirname(os.path.abspath(__file__)))
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.assertEqual(process.stdout.readline(), "0 1\n")
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        start = time.monotonic()
        _, errors = process.communicate(timeout=30)
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(errors.count("Traceback"), 1, errors)
        self.assertTrue(errors.rstrip().endswith("KeyboardInterrupt"), errors)
        self.assertEqual(process.returncode, -signal.SIGINT)


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Options(unittest.TestCase):
    def test_pin_memory_without_a_device(self):
        if torch.cuda.is_available():
            self.skipTest("there is a device")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            same(self, DataLoader(DATA, 4, pin_memory=True), DataLoader(DATA, 4))
        self.assertIn("'pin_memory' argument is set as true but no accelerator is found", str(caught[0].message))

    def test_many_workers_are_told(self):
        with self.assertWarnsRegex(UserWarning, "This DataLoader will create 999 worker processes in total."):
            DataLoader(DATA, num_workers=999)

    def test_distributed_sampler_needs_a_group_or_numbers(self):
        from facula.utils.data import DistributedSampler
        with self.assertRaisesRegex(RuntimeError, "give num_replicas and rank"):
            DistributedSampler(DATA)


if __name__ == "__main__":
    unittest.main()
