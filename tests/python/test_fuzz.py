"""Random programs (fuzz.py) on the CPU and on a simulated device, compared line by line.

test-env: FACULA_SIM=cuda:2
test-env: FACULA_SIM=cuda:2 FACULA_FUSE=on
"""
import contextlib
import io
import os
import sys
import unittest

if "FACULA_SIM" not in os.environ:
    os.environ["FACULA_SIM"] = "cuda:2"
    os.execv(sys.executable, [sys.executable, "-B"] + sys.argv)
import fuzz


class Fuzz(unittest.TestCase):
    def test_programs_go_alike_on_a_device(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            differ = fuzz.main(["--seeds", "0-399", "--on", "cuda:1"])
        self.assertFalse(differ, output.getvalue())
        self.assertIn("400 programs", output.getvalue())


if __name__ == "__main__":
    unittest.main()
