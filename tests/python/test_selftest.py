"""The self-test of a device from Python: as a function, and as `python -m facula selftest`."""
import contextlib
import io
import os
import subprocess
import sys
import unittest

import facula as torch

SIM = {**os.environ, "FACULA_SIM": "cuda:1"}


def command(*args, **more):
    return subprocess.run([sys.executable, "-B", "-m", "facula", "selftest", *args], capture_output=True, text=True, env={**SIM, **more})


class SelfTest(unittest.TestCase):
    def test_function(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertIs(torch.selftest("cpu", op="softmax"), True)
        self.assertIn("cpu: 1 operators, ", out.getvalue())
        self.assertIn(": all right (", out.getvalue())
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertTrue(torch.selftest("cpu", "tanh", verbose=False))
        self.assertEqual(out.getvalue(), "")

    def test_wrong_calls(self):
        with self.assertRaisesRegex(ValueError, "there is no operator 'softmx' in the tables"):
            torch.selftest("cpu", op="softmx", verbose=False)
        with self.assertRaises(RuntimeError):
            torch.selftest("mps", verbose=False)

    def test_a_line_that_cannot_be_written(self):
        def broken(line):
            raise OSError("no paper")
        with self.assertRaisesRegex(OSError, "no paper"):
            torch._C._selftest(torch.device("cpu"), "tanh", broken)
        self.assertTrue(torch.selftest("cpu", "tanh", verbose=False))

    def test_command(self):
        done = command("--device", "cuda:0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("  elementwise ", done.stdout)
        self.assertIn("cuda:0: ", done.stdout.splitlines()[-1])
        done = command("--op", "softmx")
        self.assertEqual(done.returncode, 1)
        self.assertIn("facula selftest: there is no operator 'softmx'", done.stderr)
        self.assertEqual(command("--nonsense").returncode, 2)


if __name__ == "__main__":
    unittest.main()
