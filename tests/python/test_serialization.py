"""torch.save and torch.load: what goes through a checkpoint and comes back, both ways with PyTorch where it is found
(FACULA_TORCH_PYTHON, else this Python), errors, hostile files, file objects that misbehave; .safetensors and NumPy's files."""
import argparse
import collections
import datetime
import enum
import glob
import io
import os
import pathlib
import pickle
import random
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import facula as torch

TORCH_PYTHON = os.environ.get("FACULA_TORCH_PYTHON", sys.executable)
CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus", "pt")


def on_two_devices(code):
    """What a program prints with two simulated devices."""
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, "FACULA_SIM": "cuda:2"}, stdout=subprocess.PIPE,
                          text=True).stdout


def saved(obj):
    f = io.BytesIO()
    torch.save(obj, f)
    return f.getvalue()


def again(obj, **options):
    return torch.load(io.BytesIO(saved(obj)), **options)


class Color(enum.Enum):
    RED = 1


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


class Counted:
    made = 0

    def __init__(self):
        type(self).made += 1
        self.me = self


class RoundTrips(unittest.TestCase):
    def test_plain_values(self):
        value = [None, True, False, 0, -1, 255, 65536, -2**31, 2**63 - 1, -2**63, 2**63, -2**100, 2**2000, 1.5, float("inf"),
                 -0.0, 2j, "", "text", "\u00e9\U0001f600", "\ud800", "a\0b", b"", b"\x00\xff", bytearray(b"xy"), (), (1,),
                 (1, 2, 3, 4), [], {}, set(), {1, "a"}, torch.Size([2, 3]), torch.float32, torch.bfloat16, torch.bool,
                 torch.device("cpu"),
                 {1: "int", "k": "str", (1, "t"): "tuple", None: 0, 2.5: 1, torch.int8: 2}, collections.Counter("abca")]
        back = again(value)
        self.assertEqual(back, value)
        self.assertEqual([type(v) for v in back], [type(v) for v in value])
        self.assertEqual(str(back[15]), "-0.0")
        self.assertIs(back[33], torch.float32)

    def test_long_texts_and_containers(self):
        value = {"text": "x" * 100000, "bytes": bytes(range(256)) * 500, "list": list(range(5000)),
                 "dict": {str(i): i for i in range(3000)}}
        self.assertEqual(again(value), value)

    def test_sharing_and_circles(self):
        shared = [1]
        circle = {"shared": shared, "again": shared}
        circle["self"] = circle
        ring = []
        ring.append((ring,))
        back, back_ring = again([circle, ring])
        self.assertIs(back["shared"], back["again"])
        self.assertIs(back["self"], back)
        self.assertIs(back_ring[0][0], back_ring)
        own = ([],)
        own[0].append(own)
        with self.assertRaisesRegex(NotImplementedError, "holds itself"):
            saved(own)
        deep = []
        for _ in range(5000):
            deep = [deep]
        with self.assertRaises((RecursionError, ValueError)):
            saved(deep)

    def test_tensors(self):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
                      torch.int8,
                      torch.uint8, torch.bool):
            t = torch.arange(6).reshape(2, 3).to(dtype)
            back = again(t)
            self.assertEqual((back.dtype, back.shape, back.tolist()), (dtype, t.shape, t.tolist()))
        base = torch.arange(12.0)
        view, turned, empty, zero = base[2:5], base.reshape(3, 4).t(), torch.zeros(0, 3), torch.tensor(3.5)
        b, v, t, e, z = again([base, view, turned, empty, zero])
        v.zero_()
        self.assertEqual(b.tolist(), [0, 1, 0, 0, 0, *range(5, 12)])
        self.assertEqual((t.stride(), t.shape, e.shape, z.item()), ((1, 4), (4, 3), (0, 3), 3.5))
        self.assertTrue(all(x.is_leaf and x._base is None for x in (b, v, t)))
        back = again((base.clone().requires_grad_() * 2)[1:])
        self.assertTrue(back.is_leaf and back.requires_grad)

    def test_parameters_and_attributes(self):
        p = torch.nn.Parameter(torch.ones(2))
        frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
        named = torch.nn.Parameter(torch.ones(2))
        named.name, named.me = "w", [named]
        t = torch.zeros(1)
        t.note = "kept"
        bp, bf, bn, bt, same = again([p, frozen, named, t, p])
        self.assertEqual([type(x) for x in (bp, bf, bn, bt)], [torch.nn.Parameter] * 3 + [torch.Tensor])
        self.assertEqual((bp.requires_grad, bf.requires_grad, bp.is_leaf), (True, False, True))
        self.assertIs(bp, same)
        self.assertEqual(bn.name, "w")
        self.assertEqual(bt.note, "kept")
        bp.sum().backward()
        self.assertEqual(bp.grad.tolist(), [1, 1])

    def test_state_dicts(self):
        net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        state = net.state_dict()
        back = again({"epoch": 3, "model": state})["model"]
        self.assertIs(type(back), collections.OrderedDict)
        self.assertEqual(list(back), list(state))
        self.assertEqual(back._metadata, state._metadata)
        other = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        self.assertEqual(str(other.load_state_dict(back)), "<All keys matched successfully>")
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(state.values(), other.state_dict().values())))

    def test_places(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "\u00e9 x.v1.pt")
            for f in (path, pathlib.Path(path), os.fsencode(path)):
                torch.save({"a": 1}, f)
                self.assertEqual(torch.load(f), {"a": 1})
                self.assertEqual(torch.load(f, mmap=True, weights_only=True), {"a": 1})
            self.assertTrue(zipfile.ZipFile(path).namelist()[0].endswith("x.v1/data.pkl"))
            self.assertEqual(os.listdir(folder), ["\u00e9 x.v1.pt"])
            with open(path, "wb") as f:
                f.write(b"before")
                torch.save([1, 2], f)
            with open(path, "rb") as f:
                f.seek(6)
                self.assertEqual(torch.load(f), [1, 2])
            with self.assertRaises((ValueError, RecursionError)):  # a save that fails leaves the old file (3.12 has a limit of its own)
                torch.save([torch.ones(2), {"deep": self.deep(2000)}], path)
            with open(path, "rb") as f:
                self.assertEqual(f.read(6), b"before")
            self.assertEqual(os.listdir(folder), ["\u00e9 x.v1.pt"])

    @staticmethod
    def deep(n):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, 3 * n + 1000))
        value = []
        for _ in range(n):
            value = [value]
        return value


class Objects(unittest.TestCase):
    def setUp(self):
        torch.serialization.clear_safe_globals()

    tearDown = setUp

    def test_only_listed_classes_come_back(self):
        if sys.version_info < (3, 11, 4):
            self.skipTest("enumerations are pickled by getattr in this Python, which is never listed")
        objects = {"args": argparse.Namespace(lr=0.1, layers=[1, 2]), "color": Color.RED, "when": datetime.timedelta(days=2),
                   "point": Point(1, [2])}
        data = saved(objects)
        for _ in range(2):
            with self.assertRaisesRegex(pickle.UnpicklingError,
                                        "^Weights only load failed.*Unsupported global: GLOBAL argparse.Namespace"):
                torch.load(io.BytesIO(data))
        names = torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))
        self.assertEqual(sorted(n.rpartition(".")[2] for n in names), ["Color", "Namespace", "Point", "timedelta"])
        with torch.serialization.safe_globals([argparse.Namespace, Color, datetime.timedelta, Point]):
            back = torch.load(io.BytesIO(data))
            self.assertEqual(torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data)), [])
        self.assertEqual((back["args"], back["color"], back["when"]), (objects["args"], Color.RED, objects["when"]))
        self.assertEqual((back["point"].x, back["point"].y), (1, [2]))
        self.assertEqual(torch.serialization.get_safe_globals(), [])
        with self.assertRaises(pickle.UnpicklingError):
            torch.load(io.BytesIO(data))

    def test_objects_in_circles(self):
        torch.serialization.add_safe_globals([Counted])
        self.assertEqual(torch.serialization.get_safe_globals(), [Counted])
        one = Counted()
        made = Counted.made
        a, b = again([one, one])
        self.assertIs(a, b)
        self.assertIs(a.me, a)
        self.assertEqual(Counted.made, made)  # by __new__: __init__ does not run

    def test_names(self):
        self.assertEqual(again([torch.Tensor, collections.OrderedDict, set]), [torch.Tensor, collections.OrderedDict, set])
        with torch.serialization.safe_globals([(Point, "elsewhere.Point")]):
            data = saved([Point(1, 2)]).replace(__name__.encode() + b"\nPoint", b"elsewhere\nPoint")
        for wrong, error in (([3], TypeError), ([(Point, 3)], ValueError), ([(Point,)], ValueError)):
            with self.assertRaises(error):
                torch.serialization.add_safe_globals(wrong)
        torch.serialization.add_safe_globals([os.system])
        with self.assertRaisesRegex(pickle.UnpicklingError, "whose module posix is blocked"):
            again([os.system])

    def test_what_is_not_saved_says_so(self):
        for obj, words in ((lambda: 1, "^Can't pickle <function .*lambda.*attribute lookup .* failed"),
                           (torch.nn.Linear(2, 2), "^Can't pickle Linear: a whole Module is not saved.*state_dict"),
                           ([{"net": torch.nn.Sequential()}], "state_dict"),
                           (collections.defaultdict(int, a=1), "as a plain list or dict"), (Counted.__init__, "Can't pickle")):
            with self.assertRaisesRegex(pickle.PicklingError, words):
                saved(obj)
        odd = collections.Counter("a")
        odd.items = lambda: [1]
        with self.assertRaisesRegex(TypeError, "must give pairs"):
            saved(odd)
        with self.assertRaises(TypeError), open(os.devnull) as f:
            saved(f)
        for options in (dict(pickle_protocol=4), dict(_use_new_zipfile_serialization=False)):
            with self.assertRaises(NotImplementedError):
                torch.save(1, io.BytesIO(), **options)

    def test_errors_in_their_code_come_through(self):
        class Bad(Exception):
            pass

        def fail(self, *unused):
            raise Bad("no")
        for name in ("__reduce_ex__", "__setstate__"):
            one = Counted()
            setattr(Counted, name, fail)
            try:
                with torch.serialization.safe_globals([Counted]), self.assertRaises(Bad):
                    again([torch.ones(2), one])
            finally:
                delattr(Counted, name)


class Places(unittest.TestCase):
    def test_map_location(self):
        data = saved({"a": torch.ones(2), "b": torch.zeros(2)})
        for where in ("cpu", torch.device("cpu"), {"cpu": "cpu"}, {}, {"cuda:0": "cuda:1"}, lambda s, l: s, lambda s, l: None,
                      lambda s, l: s.cpu(), lambda s, l: torch.device(l), torch.Tensor and (lambda storage, location: storage)):
            self.assertEqual(torch.load(io.BytesIO(data), map_location=where)["a"].device.type, "cpu")
        seen = []
        torch.load(io.BytesIO(data), map_location=lambda storage, location: seen.append((storage.device.type, location)))
        self.assertEqual(set(seen), {("cpu", "cpu")})
        with self.assertRaisesRegex(TypeError, "'int' object is not callable"):
            torch.load(io.BytesIO(data), map_location=7)
        with self.assertRaisesRegex(TypeError, "must return the storage"):
            torch.load(io.BytesIO(data), map_location=lambda s, l: 3)
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            torch.load(io.BytesIO(data), map_location=lambda s, l: 1 / 0)

    def test_devices_that_are_not_there(self):
        if torch.cuda.is_available():
            self.skipTest("there is a CUDA device")
        data = saved(torch.ones(2))
        moved = data.replace(b"X\x03\x00\x00\x00cpu", b"X\x04\x00\x00\x00cuda")
        words = r"^Attempting to deserialize object on a CUDA device but torch.cuda.is_available\(\) is False"
        for where in ("cuda", "cuda:1", torch.device("cuda"), {"cpu": "cuda:0"}, lambda s, l: s.cuda(0)):
            with self.assertRaisesRegex(RuntimeError, words):
                torch.load(io.BytesIO(data), map_location=where)
        with self.assertRaises(RuntimeError):
            torch.load(io.BytesIO(moved))

    def test_auto_takes_a_checkpoint_to_the_parameters(self):
        code = ("import facula as torch, io\n"
                "def trained(device, f):\n"
                "    model = torch.nn.Linear(1000, 1000, device=device)\n"
                "    step = torch.optim.Adam(model.parameters())\n"
                "    model(torch.ones(1, 1000, device=device)).sum().backward(); step.step()\n"
                "    torch.save([model.state_dict(), step.state_dict()], f)\n"
                "    return model.weight.sum().item()\n"
                "f = io.BytesIO(); total = trained('cuda:1', f); f.seek(0)\n"
                "for device in 'cuda:0', 'cpu':\n"
                "    model = torch.nn.Linear(1000, 1000, device=device); step = torch.optim.Adam(model.parameters())\n"
                "    torch.cuda.empty_cache(); before = torch.cuda.memory_allocated(1); f.seek(0)\n"
                "    a, b = torch.load(f, map_location='auto')\n"
                "    print(a['weight'].device, torch.cuda.memory_allocated(1) - before, end=' ')\n"
                "    model.load_state_dict(a); step.load_state_dict(b)\n"
                "    print({str(t.device) for s in step.state.values() for k, t in s.items() if k != 'step'},"
                " abs(model.weight.sum().item() - total) < 1e-3)\n")
        self.assertEqual(on_two_devices(code), "cpu 0 {'cuda:0'} True\ncpu 0 {'cpu'} True\n")

    def test_simulated_devices(self):
        code = ("import facula as torch, io\n"
                "f = io.BytesIO(); torch.save([torch.ones(2, device='cuda:1'), torch.zeros(1)], f)\n"
                "def load(**o): return [str(t.device) for t in torch.load(io.BytesIO(f.getvalue()), **o)]\n"
                "print(load(), load(map_location='cpu'), load(map_location='cuda'), load(map_location={'cuda:1': 'cuda:0'}),"
                " load(map_location=lambda s, l: s.cuda(0)))\n"
                "try: load(map_location='cuda:5')\n"
                "except RuntimeError as e: print(str(e)[:98])\n")
        self.assertEqual(on_two_devices(code),
                         "['cuda:1', 'cpu'] ['cpu', 'cpu'] ['cuda:0', 'cuda:0'] ['cuda:0', 'cpu'] ['cuda:0', 'cuda:0']\n"
                         "Attempting to deserialize object on CUDA device 5 but torch.cuda.device_count() is 2. Please use t\n")


class Errors(unittest.TestCase):
    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            at = os.path.join(folder, "x.pt")
            for f, error, words in ((at, FileNotFoundError, r"\[Errno 2\] No such file or directory"),
                                    (folder, IsADirectoryError, ""),
                                    (3, AttributeError,
                                     "^'int' object has no attribute 'seek'. You can only torch.load from a file that is"),
                                    (None, AttributeError, "'NoneType' object has no attribute 'seek'"),
                                    (io.BytesIO(), EOFError, "Ran out of input"),
                                    (io.BytesIO(b"text"), pickle.UnpicklingError, "^Weights only load failed"),
                                    (io.BytesIO(saved(1)[:-30]), RuntimeError,
                                     "^PytorchStreamReader failed reading zip archive: failed finding")):
                with self.assertRaisesRegex(error, words):
                    torch.load(f)
            open(at, "w").close()
            with self.assertRaises(EOFError):
                torch.load(at)
            with self.assertRaisesRegex(RuntimeError, "^Parent directory .*none does not exist"):
                torch.save(1, os.path.join(folder, "none", "x.pt"))
            with self.assertRaisesRegex(AttributeError, "has no attribute 'write'"):
                torch.save(1, 5)
            with self.assertRaises(TypeError), open(at, "w") as f:
                torch.save(1, f)
            with self.assertRaises(ValueError):
                closed = open(at, "rb")
                closed.close()
                torch.load(closed)
        with self.assertRaisesRegex(ValueError, "must be a file path in order to use the mmap"):
            torch.load(io.BytesIO(saved(1)), mmap=True)
        with self.assertRaisesRegex(RuntimeError, "Can not safely load weights when explicit pickle_module"):
            torch.load(io.BytesIO(saved(1)), pickle_module=pickle)

    def test_weights_only_false_reads_the_same_and_says_why(self):
        self.assertEqual(again([1], weights_only=False), [1])
        data = saved(argparse.Namespace(a=1))
        with self.assertRaisesRegex(pickle.UnpicklingError, "weights_only=False changes nothing here.*state_dict"):
            torch.load(io.BytesIO(data), weights_only=False)

    def test_file_objects_that_misbehave(self):
        data = saved(torch.ones(100))

        class Odd(io.BytesIO):
            answer = None

            def read(self, n=-1):
                return self.answer(super().read(n)) if self.answer else super().read(n)
        for answer, error in ((lambda b: b"", EOFError), (lambda b: b + b"more", ValueError), (lambda b: "text", TypeError),
                              (lambda b: None, TypeError), (lambda b: 1 / 0, ZeroDivisionError)):
            f = Odd(data)
            f.answer = answer
            with self.assertRaises(error):
                torch.load(f)
        small = Odd(data)
        small.answer = lambda b: b  # whole
        self.assertEqual(torch.load(small).sum().item(), 100)

        class Slow(io.RawIOBase):
            def __init__(self):
                self.data = b""

            def writable(self):
                return True

            def write(self, b):
                self.data += bytes(b[:7])
                return min(7, len(b))
        slow = Slow()
        torch.save(torch.ones(100), slow)
        self.assertEqual(slow.data, data)
        for answer, error in ((0, OSError), (-1, OSError), (10**9, OSError)):
            f = Slow()
            f.write = lambda b: answer
            with self.assertRaises(error):
                torch.save(1, f)
        f = Slow()
        f.write = lambda b: 1 / 0
        with self.assertRaises(ZeroDivisionError):
            torch.save(1, f)

    def test_limits(self):
        data = saved(torch.zeros(10**5))
        torch.serialization.set_load_limit(10**5)
        try:
            with self.assertRaisesRegex(RuntimeError, "limit of .*higher limit .torch.serialization.set_load_limit"):
                torch.load(io.BytesIO(data))
            self.assertEqual(torch.serialization.get_load_limit(), 10**5)
        finally:
            torch.serialization.set_load_limit(None)
        self.assertEqual(torch.load(io.BytesIO(data)).shape, (10**5,))
        for wrong in (0, -1, 1.5, "1"):
            with self.assertRaises(ValueError):
                torch.serialization.set_load_limit(wrong)

    ALLOWED = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, OSError, MemoryError)

    def load_one(self, data):
        try:
            torch.load(io.BytesIO(data), map_location="cpu")
            return True
        except self.ALLOWED as error:
            self.assertTrue(str(error) or sys.version_info < (3, 11, 4), repr(error))  # older ones raise a bare ValueError
            return False

    def test_the_corpus(self):
        with open(os.path.join(CORPUS, "..", "..", "test_pt.c")) as f:  # whose table says which are refused
            fine_ones = re.findall(r'\{"(\w+\.pt)", FA_OK', f.read())
        self.assertGreater(len(fine_ones), 5)
        names = sorted(glob.glob(os.path.join(CORPUS, "*.pt")))
        self.assertGreater(len(names), 80)
        torch.serialization.set_load_limit(8 << 20)
        self.addCleanup(torch.serialization.set_load_limit, None)
        for name in names:
            with open(name, "rb") as f:
                fine = self.load_one(f.read())
            self.assertEqual(fine, os.path.basename(name) in fine_ones, name)

    def test_random_changes(self):
        rng = random.Random(7)
        seeds = [saved({"a": torch.arange(5), "b": [torch.nn.Parameter(torch.ones(2)), (1, "x", 2**80, b"y")], "c": {1, 2}})]
        for name in ("fine", "fine_circle", "fine_dag", "fine_old_pairs"):
            with open(os.path.join(CORPUS, name + ".pt"), "rb") as f:
                seeds.append(f.read())
        seeds = [re.sub(rb"(PK\x01\x02.{12}).{4}", rb"\1" + bytes(4), s, flags=re.DOTALL) for s in seeds]  # no checksums
        self.assertTrue(all(self.load_one(s) for s in seeds))
        for i in range(3000):
            data = bytearray(rng.choice(seeds))
            for _ in range(rng.choice((1, 1, 2, 8))):
                data[rng.randrange(len(data))] = rng.randrange(256)
            if i % 10 == 0:
                data = data[:rng.randrange(len(data))]
            self.load_one(bytes(data))


class OtherFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = lambda name: os.path.join(folder.name, name)

    def test_safetensors(self):
        from facula.io import load_safetensors, save_safetensors
        path = self.at("x.safetensors")
        tensors = {"a": torch.arange(6.0).reshape(2, 3).t(), "b": torch.tensor(3), "c": torch.zeros(0, dtype=torch.bfloat16)}
        save_safetensors(tensors, path, {"format": "pt"})
        back, notes = load_safetensors(path, metadata=True)
        self.assertEqual(notes, {"format": "pt"})
        for name, t in tensors.items():
            self.assertEqual((back[name].tolist(), back[name].dtype), (t.tolist(), t.dtype))
        self.assertEqual(sorted(torch.load(path)), ["a", "b", "c"])
        self.assertEqual(torch.load(path, map_location=torch.device("cpu"))["b"].item(), 3)
        with self.assertRaisesRegex(ValueError, "dict map_location is not supported"):
            torch.load(path, map_location={})
        with self.assertRaisesRegex(ValueError, "^Key `a` is invalid, expected torch.Tensor but received <class 'int'>"):
            save_safetensors({"a": 3}, path)
        with self.assertRaisesRegex(TypeError, "names of tensors must be str"):
            save_safetensors({1: torch.ones(1)}, path)
        with self.assertRaisesRegex(TypeError, "dict of str and str"):
            save_safetensors({}, path, {"a": 1})
        with self.assertRaisesRegex(ValueError, "must end in .safetensors"):
            save_safetensors({}, "x.pt")
        with self.assertRaises(FileNotFoundError):
            load_safetensors(self.at("none.safetensors"))

    def test_numpy_files(self):
        path = self.at("x.npz")
        torch.io.save_npz({"a": torch.ones(2, 2)}, path)
        self.assertEqual(torch.io.load_npz(path)["a"].tolist(), [[1, 1], [1, 1]])
        torch.io.save_npy(torch.arange(3), self.at("x.npy"))
        self.assertEqual(torch.io.load_npy(self.at("x.npy")).tolist(), [0, 1, 2])
        with self.assertRaises(TypeError):
            torch.io.save_npy([1], self.at("y.npy"))
        with self.assertRaises(FileNotFoundError):
            torch.io.load_npy(self.at("y.npy"))
        try:
            import numpy
        except ImportError:
            return
        self.assertEqual(numpy.load(path)["a"].sum(), 4)


BOTH = '''
import importlib, sys, collections
T = importlib.import_module(sys.argv[1])
nn, O = T.nn, T.optim
def build():
    net = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    return net, [O.SGD(net.parameters(), lr=.1, momentum=.9), O.Adam(net.parameters(), amsgrad=True), O.RMSprop(net.parameters())]
def train(net, opts, n):
    x = T.arange(15.).reshape(5, 3) / 10
    for i in range(n):
        for o in opts:
            o.zero_grad(); (net(x) ** 2).mean().backward(); o.step()
    return [f"{v:.5f}" for p in net.parameters() for v in p.detach().reshape(-1).tolist()]
how, path = sys.argv[2:]
net, opts = build()
if how == "write":
    train(net, opts, 3)
    T.save({"net": net.state_dict(), "opts": [o.state_dict() for o in opts], "epoch": 3, "p": nn.Parameter(T.ones(2)),
            "more": [(1, 2.5, None), {"k": b"bytes"}, {1, 2}, T.Size([1, 2]), T.float16, T.device("cpu"), 2 ** 70, 1j]}, path)
else:
    c = T.load(path, weights_only=True)
    net.load_state_dict(c["net"])
    for o, s in zip(opts, c["opts"]):
        o.load_state_dict(s)
    print(type(c["p"]).__name__, c["p"].requires_grad, c["net"]._metadata["1"], str(c["more"]).replace("facula", "torch"),
          c["epoch"])
    print([list(s) for s in c["opts"][1]["state"].values()], [list(g) for s in c["opts"] for g in s["param_groups"]])
print(train(net, opts, 2))
'''


class WithPyTorch(unittest.TestCase):
    maxDiff = None

    def test_both_ways(self):
        if subprocess.run([TORCH_PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no torch; set FACULA_TORCH_PYTHON to a Python that has it")
        pythons = {"facula": sys.executable, "torch": TORCH_PYTHON}
        with tempfile.TemporaryDirectory() as folder:
            said = {}
            for writer in pythons:
                path = os.path.join(folder, writer + ".pt")
                for who, how in ((writer, "write"), ("facula", "read"), ("torch", "read")):
                    done = subprocess.run([pythons[who], "-c", BOTH, who, how, path], stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    said[writer, who, how] = done.stdout.splitlines()
            for writer in pythons:
                wrote, ours, theirs = said[writer, writer, "write"], said[writer, "facula", "read"], said[writer, "torch", "read"]
                self.assertEqual(ours[:2], theirs[:2])
                for other in (theirs[-1], wrote[-1]):  # going on is as if nothing had happened
                    for a, b in zip(eval(ours[-1]), eval(other)):
                        self.assertAlmostEqual(float(a), float(b), places=3)
            self.assertEqual(said["facula", "torch", "read"][1], said["torch", "torch", "read"][1])


if __name__ == "__main__":
    unittest.main()
