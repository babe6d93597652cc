"""Everything is called with a table of wrong arguments (hostile.py): the process lives on, and every error is an exception."""

# test-limit: 600
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class BadInput(unittest.TestCase):
    def run_group(self, group, fewest, sim):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            done = subprocess.run(
                [sys.executable, "-B", os.path.join(HERE, "hostile.py"), group, log],
                capture_output=True,
                text=True,
                cwd=folder,
                timeout=500,
                errors="replace",
                env={**os.environ, "PYTHONWARNINGS": "ignore", "FACULA_SIM": sim},
            )
            with open(log, encoding="utf-8", errors="replace") as f:
                last = f.read()
        told = f"exit code {done.returncode}, last call: {last}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        self.assertEqual(done.returncode, 0, told)
        self.assertGreater(int(done.stdout.split()[-4]), fewest, told)  # calls were made


for _group, _fewest, *_sim in (
    ("functions", 20000),
    ("methods", 30000),
    ("functional", 10000),
    ("special", 5000),
    ("private", 2000),
    ("layers", 20000),
    ("rest", 5000),
    ("lists", 1000),
    ("modules", 50000, "cuda:2"),
    ("instances", 30000, "cuda:2"),
):
    setattr(
        BadInput,
        "test_" + _group,
        lambda self, group=_group, fewest=_fewest, sim="".join(_sim): self.run_group(group, fewest, sim),
    )

if __name__ == "__main__":
    unittest.main()
