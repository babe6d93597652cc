"""python -m facula and its kin: programs written for PyTorch run unchanged, and see what they would see under python itself."""
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import facula

HOME = os.path.dirname(os.path.dirname(os.path.abspath(facula.__file__)))


class Program(unittest.TestCase):
    """A folder for scripts, and a way to run Python on them."""

    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(textwrap.dedent(text))
        return path

    def python(self, *args, stdin="", cwd=None, **env):
        paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        paths = os.pathsep.join([HOME, *(p for p in paths if p != HOME)])
        return subprocess.run([sys.executable, *args], input=stdin, capture_output=True, text=True, timeout=120,
                              cwd=cwd or self.folder,
                              env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **env})

    def facula(self, *args, **more):
        return self.python("-m", "facula", *args, **more)

    def prints(self, done, expected, code=0):
        self.assertEqual((done.stdout, done.stderr, done.returncode), (textwrap.dedent(expected), "", code))


class Running(Program):
    FACTS = """\
        import sys
        import torch
        print(sys.argv, sys.path[0], __name__, __package__, __spec__ and __spec__.name, globals().get("__file__"), torch.__name__)
        sys.exit(7)
    """

    def test_script(self):
        path = self.write("sub/a.py", self.FACTS)
        expected = f"['sub/a.py', '-x', '1'] {self.folder}/sub __main__ None None {path} torch\n"
        self.prints(self.facula("sub/a.py", "-x", "1"), expected, 7)

    def test_script_sees_its_neighbours(self):
        self.write("neighbour.py", "import torch\nvalue = torch.tensor(3).item()\n")
        self.write("a.py", "import neighbour\nprint(neighbour.value)\n")
        self.prints(self.facula(os.path.join(self.folder, "a.py"), cwd="/"), "3\n")

    def test_module(self):
        path = self.write("pack/a.py", self.FACTS)
        self.write("pack/__init__.py", "")
        self.prints(self.facula("-m", "pack.a", "1"), f"['{path}', '1'] {self.folder} __main__ pack pack.a {path} torch\n", 7)

    def test_code_and_standard_input(self):
        code = "import sys, torch; print(sys.argv, repr(sys.path[0]), __name__, torch.__name__)"
        self.prints(self.facula("-c", code, "a"), "['-c', 'a'] '' __main__ torch\n")
        self.prints(self.facula("-", "a", stdin=code), "['-', 'a'] '' __main__ torch\n")
        self.prints(self.facula(stdin=code), "[''] '' __main__ torch\n")

    def test_folder(self):
        self.write("app/__main__.py", "import sys, torch, helper\nprint(sys.argv, sys.path[0], helper.x)\n")
        self.write("app/helper.py", "x = 4\n")
        self.prints(self.facula("app", "q"), "['app', 'q'] app 4\n")

    def test_tracebacks_begin_with_the_program(self):
        self.write("a.py", "import torch\n\ndef f(x):\n    return 1 / x\n\nf(0)\n")
        ours, pythons = self.facula("a.py"), self.python("a.py", FACULA_AS_TORCH="1", PYTHONPATH=self.on_path())
        self.assertEqual(ours.returncode, 1)
        self.assertTrue(ours.stderr.startswith(f'Traceback (most recent call last):\n  File "{self.folder}/a.py", line 6, in '
                                               f'<module>'))
        self.assertEqual(ours.stderr.replace(self.folder + "/", ""), pythons.stderr.replace(self.folder + "/", ""))

    def on_path(self):
        return os.pathsep.join([os.path.join(HOME, "facula", "_on_path"), HOME])

    def test_own_excepthook_gets_the_program_s_frames(self):
        code = "import sys; sys.excepthook = lambda k, v, t: print('hook', v, t.tb_frame.f_code.co_filename); 1 / 0"
        self.prints(self.facula("-c", code), "hook division by zero <string>\n", 1)

    def test_ends(self):
        self.write("bad.py", "x = (\n")
        for args, code, text in ((("-c", "raise KeyboardInterrupt"), -2, "KeyboardInterrupt"),
                                 (("-c", "import sys; sys.exit('bye')"), 1, "bye"), (("bad.py",), 1, "SyntaxError"),
                                 (("none.py",), 2, "can't open file"),
                                 (("-m", "no_such"), 1, "No module named no_such"), (("-z",), 1, "unknown option -z"),
                                 (("-c",), 1, "Argument expected for the -c option")):
            with self.subTest(args):
                done = self.facula(*args)
                self.assertEqual((done.returncode, done.stdout), (code, ""))
                self.assertIn(text, done.stderr)
                self.assertNotIn("runpy", done.stderr)
                self.assertNotIn("__main__.py", done.stderr)

    def test_usage_and_version(self):
        self.assertIn("python -m facula script.py [args]", self.facula("--help").stdout)
        self.prints(self.facula("--version"), f"Facula {facula.__version__}\n")


class Names(Program):
    def test_torch_and_facula_are_one(self):
        code = """\
            import torch, torch.nn as nn, torch.nn.functional as F, torch.utils.data, torch.optim.lr_scheduler as s
            from torch.utils.data import DataLoader
            import facula, facula.nn.functional as G, facula.utils.data
            print(facula is torch, F is G, facula.utils.data is torch.utils.data, facula.nn is nn)
            print(torch.Tensor, torch.float32, nn.Module, torch.__spec__.name, nn.__name__)
            print(DataLoader, s.StepLR)
        """
        self.prints(self.facula("-c", textwrap.dedent(code)), """\
            True True True True
            <class 'torch.Tensor'> torch.float32 <class 'torch.nn.modules.module.Module'> torch torch.nn
            <class 'torch.utils.data.dataloader.DataLoader'> <class 'torch.optim.lr_scheduler.StepLR'>
        """)

    def test_a_plain_import_leaves_torch_alone(self):
        code = ("import sys, os, facula, facula.utils.data\n"
                "print([m for m in sys.modules if m.split('.')[0] == 'torch'], facula.Tensor, facula.float32, "
                "facula.utils.data.DataLoader)\n"
                "print('FACULA_AS_TORCH' in os.environ, [p for p in sys.path if '_on_path' in p])")
        self.prints(self.python("-c", code), "[] <class 'facula.Tensor'> facula.float32 "
                    "<class 'facula.utils.data.dataloader.DataLoader'>\nFalse []\n")

    def test_pickles_carry_the_name_of_torch(self):
        code = ("import pickle, torch.utils.data as d; p = pickle.dumps(d.Subset([1, 2], [1]))\n"
                "print(b'torch' in p, b'facula' in p, pickle.loads(p)[0])")
        self.prints(self.facula("-c", code), "True False 2\n")


class Children(Program):
    def test_processes_that_a_program_starts(self):
        self.write("child.py", "import torch, torch.utils.data\nprint('child', torch.__name__, torch.utils.data.__name__, "
                               "torch.tensor(2).item())\n")
        self.write("a.py", """\
            import subprocess, sys, torch, os
            subprocess.run([sys.executable, "child.py"])
            subprocess.run([sys.executable, "-c", "import torch; print(torch.__name__)"])
            os.execv(sys.executable, [sys.executable, "child.py"])
        """)
        self.prints(self.facula("a.py"), "child torch torch.utils.data 2\ntorch\nchild torch torch.utils.data 2\n")

    def test_multiprocessing(self):
        self.write("a.py", """\
            import multiprocessing, sys, torch
            def work(queue):
                import torch.utils.data
                queue.put((torch.__name__, __name__, torch.tensor([1, 2]).sum().item()))
            if __name__ == "__main__":
                for method in ("fork", "spawn", "forkserver"):
                    context = multiprocessing.get_context(method)
                    queue = context.Queue()
                    process = context.Process(target=work, args=(queue,))
                    process.start()
                    print(*queue.get(timeout=60))
                    process.join()
        """)
        self.prints(self.facula("a.py"), "torch __main__ 3\ntorch __mp_main__ 3\ntorch __mp_main__ 3\n")

    def test_loader_with_spawned_workers(self):
        self.write("a.py", """\
            import torch
            from torch.utils.data import DataLoader, Dataset
            class Squares(Dataset):
                def __len__(self): return 5
                def __getitem__(self, i): return torch.tensor(i * i)
            if __name__ == "__main__":
                print(list(DataLoader(Squares(), 2, num_workers=2, multiprocessing_context="spawn")))
        """)
        self.prints(self.facula("a.py"), "[tensor([0, 1]), tensor([4, 9]), tensor([16])]\n")


class Missing(Program):
    def told(self, code, **more):
        done = self.facula("-c", textwrap.dedent(code), **more)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_attributes(self):
        said = self.told("""\
            import torch
            for name in ("zerros", "distributed", "jit", "quite_unknown"):
                try:
                    getattr(torch, name)
                except AttributeError as e:
                    print(e)
            print(hasattr(torch, "fx"), getattr(torch, "fx", 3))
        """).splitlines()
        self.assertIn("module 'torch' has no attribute 'zerros': torch.zerros is not in Facula. Near names: torch.zeros", said[0])
        self.assertIn("planned", said[1])
        self.assertIn("TorchScript is not planned", said[2])
        self.assertEqual(said[3], "module 'torch' has no attribute 'quite_unknown': torch.quite_unknown is not in Facula. What "
                                  "there is: dir(torch).")
        self.assertEqual(said[4], "False 3")

    def test_modules(self):
        said = self.told("""\
            import importlib.util, torch
            for name in ("torch.distributed", "torch.no_such", "torchvision", "torchaudio", "torch.hub"):
                try:
                    __import__(name)
                except ModuleNotFoundError as e:
                    print(e.name, "|", e)
            find = importlib.util.find_spec
            print([find(name) for name in ("torchvision", "torch.jit")], find("torch").name)
        """).splitlines()
        self.assertTrue(said[0].startswith("torch.distributed | No module named 'torch.distributed': torch.distributed is not "
                                           "in Facula. Training"))
        self.assertEqual(said[1], "torch.no_such | No module named 'torch.no_such': torch.no_such is not in Facula.")
        self.assertIn("torchvision is not part of Facula", said[2])
        self.assertIn("torchaudio is not part of Facula", said[3])
        self.assertIn("Facula downloads nothing", said[4])
        self.assertEqual(said[5], "[None, None] torch")

    def test_a_torchvision_that_is_there_is_used(self):
        self.write("torchvision.py", "x = 1\n")
        self.assertEqual(self.told("import torch, torchvision; print(torchvision.x)"), "1\n")

    def test_compile_returns_what_it_got(self):
        done = self.facula("-c", "import torch\nf = torch.compile(len)\ng = torch.compile(mode='max-autotune')(abs)\nprint(f "
                                 "is len, g is abs)")
        self.assertEqual(done.stdout, "True True\n")
        self.assertEqual(done.stderr.count("UserWarning: torch.compile: Facula runs every operation at once"), 1)


class Notebook(Program):
    def test_load_ext(self):
        """What IPython's %load_ext does, by a stand-in for its extension manager."""
        self.write("IPython/core/extensions.py", """\
            import importlib
            def load_extension(name):
                importlib.import_module(name).load_ipython_extension(None)
        """)
        self.write("IPython/__init__.py", "")
        self.write("IPython/core/__init__.py", "")
        self.write("a.py", """\
            from IPython.core.extensions import load_extension
            load_extension("facula")
            import torch, torch.utils.data, sys
            print(torch.float32, torch.Tensor, torch.utils.data.DataLoader, sys.modules["facula"] is torch)
        """)
        self.prints(self.python("a.py"), "torch.float32 <class 'torch.Tensor'> <class "
                                         "'torch.utils.data.dataloader.DataLoader'> True\n")

    def test_after_a_plain_import(self):
        code = ("import facula; facula.load_ipython_extension(None)\nimport torch, torch.utils.data as d\n"
                "print(torch is facula, d is facula.utils.data)")
        self.prints(self.python("-c", code), "True True\n")


if __name__ == "__main__":
    unittest.main()
