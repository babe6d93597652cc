"""The memory of devices from Python: torch's names and forms, with two simulated GPUs of 256 MiB and without one."""
import os
import subprocess
import sys
import textwrap
import unittest

SIM = {"FACULA_SIM": "cuda:2", "FACULA_SIM_MEMORY": "256MiB"}


def run(program, **environment):
    """What a program prints; it starts with `import facula as torch`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FACULA_SIM")}
    done = subprocess.run([sys.executable, "-B", "-c", "import facula as torch\n" + textwrap.dedent(program)], capture_output=True, text=True,
                          timeout=100, env={**clean, **environment})
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


class Names(unittest.TestCase):
    def test_numbers(self):
        run("""
            cuda, MIB = torch.cuda, 1 << 20
            x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda:1")
            y = torch.empty(1000, dtype=torch.uint8, device="cuda:1")
            s = cuda.memory_stats(1)
            assert list(s) == sorted(s) and len(s) == 9 * 12 + 8 + 7, len(s)
            assert s["allocation.all.current"] == s["active.all.peak"] == s["segment.all.allocated"] == 2
            assert s["allocated_bytes.all.current"] == cuda.memory_allocated(1) == cuda.memory_allocated("cuda:1") == 3 * MIB + 1024
            assert s["requested_bytes.all.current"] == 3 * MIB + 1000 and s["requested_bytes.small_pool.peak"] == 1000
            assert s["reserved_bytes.all.current"] == cuda.memory_reserved(1) == cuda.max_memory_reserved(torch.device("cuda:1")) == 22 * MIB
            assert cuda.memory_stats_as_nested_dict(1)["reserved_bytes"]["small_pool"]["current"] == 2 * MIB
            assert torch.accelerator.memory_stats(1) == s and torch.accelerator.memory_allocated(1) == cuda.memory_allocated(1)
            del x
            assert cuda.max_memory_allocated(1) == 3 * MIB + 1024 and cuda.memory_allocated(1) == 1024
            cuda.reset_peak_memory_stats(1)
            cuda.reset_accumulated_memory_stats(1)
            assert cuda.max_memory_allocated(1) == 1024 and cuda.memory_stats(1)["allocation.all.allocated"] == 0
            cuda.empty_cache()
            assert cuda.memory_reserved(1) == 2 * MIB
            assert cuda.mem_get_info(1) == torch.accelerator.get_memory_info(1) == (254 * MIB, 256 * MIB)
            assert cuda.memory_reserved(0) == cuda.max_memory_reserved(0) == 0 # nothing is taken where nothing was done
            assert cuda.memory is not None and cuda.memory.memory_stats is cuda.memory_stats
            """, **SIM)

    def test_snapshot(self):
        run("""
            x, y = torch.empty(100, device="cuda"), torch.empty(1 << 20, device="cuda:1")
            small, large = torch.cuda.memory_snapshot()
            assert (small["device"], small["segment_type"], small["total_size"], small["allocated_size"]) == (0, "small", 2 << 20, 512)
            assert (large["device"], large["segment_type"], large["total_size"], large["active_size"]) == (1, "large", 20 << 20, 4 << 20)
            assert [(b["size"], b["requested_size"], b["state"]) for b in small["blocks"]][0] == (512, 400, "active_allocated")
            assert small["blocks"][0]["address"] == small["address"] == x.data_ptr()
            assert small["blocks"][1]["state"] == "inactive" and sum(b["size"] for b in small["blocks"]) == 2 << 20
            """, **SIM)

    def test_limit(self):
        run("""
            torch.cuda.set_per_process_memory_fraction(0.5, 1)
            assert torch.cuda.get_per_process_memory_fraction(1) == 0.5 and torch.cuda.get_per_process_memory_fraction(0) == 1.0
            torch.empty(200 << 20, dtype=torch.uint8, device="cuda:0")
            try: torch.empty(200 << 20, dtype=torch.uint8, device="cuda:1"); raise SystemExit("no error")
            except torch.cuda.OutOfMemoryError as e: assert "128.00 MiB allowed; " in str(e), e
            torch.empty(100 << 20, dtype=torch.uint8, device="cuda:1")
            for bad, error in ((1, TypeError), (1.5, ValueError), (-0.5, ValueError), ("a", TypeError)):
                try: torch.cuda.set_per_process_memory_fraction(bad, 1); raise SystemExit("no error")
                except error: pass
            """, **SIM)

    def test_raw_memory_and_processes(self):
        run("""
            a = torch.cuda.caching_allocator_alloc(1000, 1)
            assert torch.cuda.memory_allocated(1) == 1024 and torch.cuda.memory_allocated(0) == 0
            assert "process" in torch.cuda.list_gpu_processes(1) and "MB GPU memory" in torch.cuda.list_gpu_processes(1)
            assert torch.cuda.list_gpu_processes(0) == "GPU:0\\nno processes are running"
            torch.cuda.caching_allocator_delete(a)
            try: torch.cuda.caching_allocator_delete(a); raise SystemExit("no error")
            except RuntimeError as e: assert "invalid device pointer" in str(e) and "caching_allocator_alloc" in str(e), e
            """, **SIM)

    def test_pinned_memory(self):
        run("""
            assert torch.cuda.host_memory_stats()["allocations.current"] == 0
            x = torch.ones(300).pin_memory()
            s = torch.cuda.host_memory_stats()
            assert list(s) == sorted(s) and s["num_host_alloc"] == s["allocations.current"] == s["active_requests.current"] == 1, s
            assert s["allocated_bytes.current"] == s["active_bytes.peak"] == 2048, s # the next power of two
            del x
            s = torch.cuda.host_memory_stats_as_nested_dict()
            assert s["active_bytes"]["current"] == 0 and s["allocated_bytes"]["current"] == 2048 and s["active_bytes"]["freed"] == 2048, s
            torch.cuda.reset_peak_host_memory_stats(), torch.cuda.reset_accumulated_host_memory_stats()
            s = torch.cuda.host_memory_stats()
            assert s["active_bytes.peak"] == s["active_bytes.freed"] == s["num_host_alloc"] == 0 and s["allocated_bytes.peak"] == 2048, s
            y = torch.ones(400).pin_memory() # the same block again
            assert torch.cuda.host_memory_stats()["num_host_alloc"] == 0
            del y
            torch.accelerator.empty_host_cache()
            s = torch.cuda.host_memory_stats()
            assert s["allocated_bytes.current"] == 0 and s["num_host_free"] == 1, s
            """, **SIM)

    def test_other_names_of_devices(self):
        run("""
            x = torch.ones(300, device="mps")
            assert torch.mps.current_allocated_memory() == 1536 and torch.mps.driver_allocated_memory() == 2 << 20
            assert torch.mps.recommended_max_memory() == 64 << 20
            y = torch.ones(300, device="xpu:1")
            assert torch.xpu.memory_allocated(1) == 1536 and torch.xpu.memory_stats(1)["allocation.all.current"] == 1
            for kind in ("mps", "xpu"):
                try:
                    torch.empty(65 << 18, device=kind)
                except torch.OutOfMemoryError as e:
                    assert str(e).startswith(f"{kind.upper()} out of memory.") and f".{kind}.empty_cache()" in str(e) and "cuda" not in str(e), e
            """, FACULA_SIM="mps:1,xpu:2", FACULA_SIM_MEMORY="64MiB")

    def test_without_a_device(self):
        run("""
            from collections import OrderedDict
            cuda = torch.cuda
            assert cuda.memory_allocated() == cuda.max_memory_allocated() == cuda.memory_reserved() == cuda.max_memory_reserved() == 0
            assert cuda.memory_stats() == OrderedDict() and cuda.memory_snapshot() == [] and cuda.empty_cache() is None
            assert torch.accelerator.reset_peak_memory_stats() is None and torch.accelerator.reset_accumulated_memory_stats() is None
            def error(call):
                try: call()
                except Exception as e: return type(e).__name__ + ": " + str(e)
            assert error(cuda.memory_summary) == "KeyError: 'allocated_bytes.all.current'"
            assert error(cuda.reset_peak_memory_stats) == "RuntimeError: invalid argument to reset_peak_memory_stats"
            for call in (cuda.mem_get_info, lambda: cuda.set_per_process_memory_fraction(0.5), cuda.get_per_process_memory_fraction):
                assert error(call).startswith("RuntimeError: Found no NVIDIA driver on your system."), error(call)
            assert error(torch.mps.current_allocated_memory) == "RuntimeError: Cannot execute getCurrentAllocatedMemory() without MPS backend."
            """)


REPORT = '''
            import re
            from facula import nn
            F = nn.functional
            UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

            def amount(text, before):
                """The bytes that a text names behind some words."""
                number, unit = re.search(before + r" ([\\d.]+) (\\w+)", text).groups()
                return float(number) * UNITS[unit]

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)])
                def forward(self, x):
                    for layer in self.layers:
                        x = torch.relu(layer(x))
                    return x

            m = Net().to("cuda")
            x = torch.randn(2048, 64, device="cuda")

            def report(work):
                """The text of the out-of-memory error that work runs into, of the device's words alone."""
                try:
                    work()
                except torch.cuda.OutOfMemoryError as e:
                    assert str(e).startswith("CUDA out of memory. Tried to allocate "), e
                    return str(e)
                raise SystemExit("no error")

            def forever(step):
                def work():
                    while True:
                        step()
                return work

            LIST, SUM, RESULTS, EVALUATION = "single numbers, results of", "A running sum of", "results of", "is in evaluation mode"
            GRAPHS = "graphs, which hold"
'''


class Report(unittest.TestCase):
    """Each sentence of the report: a case where it appears, with numbers that are true, and near misses where it must not."""

    def report(self, program):
        return run(textwrap.dedent(REPORT) + textwrap.dedent(program), FACULA_SIM="cuda:2", FACULA_SIM_MEMORY="64MiB")

    def test_a_list_of_losses(self):
        self.report("""
            kept = []
            text = report(forever(lambda: kept.append(F.mse_loss(m(x), x))))
            assert f"{len(kept)} {LIST} MseLossBackward0" in text and "keep loss.item() instead" in text and SUM not in text, text
            told, before, n = amount(text, GRAPHS), torch.cuda.memory_allocated(), len(kept)
            kept.clear()
            assert before - torch.cuda.memory_allocated() == told + n * 512, (before - torch.cuda.memory_allocated(), told)
            """)

    def test_near_misses_of_a_list_of_losses(self):
        self.report("""
            kept, values, other = [], [], []
            def step(): # values are kept, something else fills the memory
                values.append(F.mse_loss(m(x), x).item())
                other.append(torch.empty(1 << 18, device="cuda"))
            assert GRAPHS not in report(forever(step))
            other.clear()
            def step(): # their graphs are gone with the backward
                kept.append(F.mse_loss(m(x), x))
                kept[-1].backward()
                other.append(torch.empty(1 << 18, device="cuda"))
            assert GRAPHS not in report(forever(step))
            kept.clear(), other.clear()
            def step(): # one graph, and one is no list
                loss = F.mse_loss(m(x), x)
                while True: other.append(torch.empty(1 << 18, device="cuda"))
            assert GRAPHS not in report(step)
            other.clear()
            def step(): # two losses, which are next to nothing beside the rest
                kept.extend([(torch.ones(1, device="cuda", requires_grad=True) * 2).sum() for _ in range(2)])
                while True: other.append(torch.empty(1 << 18, device="cuda"))
            assert GRAPHS not in report(step)
            """)

    def test_a_running_sum(self):
        self.report("""
            total, n = 0.0, 0
            def step():
                global total, n
                total = total + F.mse_loss(m(x), x)
                n += 1
            text = report(forever(step))
            assert f"{SUM} {n} results of MseLossBackward0" in text and "add loss.item() instead" in text and LIST not in text, text
            told, before = amount(text, GRAPHS), torch.cuda.memory_allocated()
            total = 0.0
            assert abs(before - torch.cuda.memory_allocated() - told) < 1024 * n, (before - torch.cuda.memory_allocated(), told)
            """)

    def test_near_misses_of_a_running_sum(self):
        self.report("""
            other = []
            def step(): # a loss of two terms
                loss = F.mse_loss(m(x), x) + F.l1_loss(m(x), x)
                while True: other.append(torch.empty(1 << 18, device="cuda"))
            assert GRAPHS not in report(step)
            other.clear()
            total = 0.0
            def step():
                global total
                with torch.no_grad(): total = total + F.mse_loss(m(x), x)
                other.append(torch.empty(1 << 18, device="cuda"))
            assert GRAPHS not in report(forever(step))
            """)

    def test_evaluation_that_records(self):
        self.report("""
            m.eval()
            kept = []
            text = report(forever(lambda: kept.append(m(x))))
            assert f"Net {EVALUATION}, and no backward has run since" in text and "torch.no_grad()" in text.replace("facula", "torch"), text
            found = int(re.search(r"(\\d+) results of ReluBackward0", text).group(1)) # the one that was being made counts too
            assert len(kept) <= found <= len(kept) + 1 and LIST not in text, text
            told, before = amount(text, "all the same, and hold"), torch.cuda.memory_allocated()
            kept[:] = [y.detach() for y in kept]
            assert 0 <= told - (before - torch.cuda.memory_allocated()) < 4 * 512 * 1024, (before - torch.cuda.memory_allocated(), told)
            """)

    def test_near_misses_of_evaluation_that_records(self):
        self.report("""
            kept = []
            m.eval()
            def step():
                with torch.no_grad(): kept.append(m(x))
            assert EVALUATION not in report(forever(step)) # followed already
            kept.clear()
            m.train()
            assert EVALUATION not in report(forever(lambda: kept.append(m(x)))) # in training it is meant to be
            kept.clear()
            m.eval()
            m(x).sum().backward() # gradients are wanted in evaluation mode: of inputs, say
            assert EVALUATION not in report(forever(lambda: kept.append(m(x))))
            kept.clear()
            m.train().eval()
            m.requires_grad_(False)
            text = report(forever(lambda: kept.append(m(x))))
            assert EVALUATION not in text and GRAPHS not in text, text
            """)

    def test_holders(self):
        self.report("""
            other = []
            loss = m(x).sum()
            loss.backward()
            big = nn.Linear(2048, 2048).to("cuda")
            def fill():
                while True: other.append(torch.empty(1 << 17, device="cuda"))
            text = report(fill)
            assert "66.00 KiB parameters of Net (8, the largest 'layers.0.weight' with 16.00 KiB)" in text, text
            assert "66.00 KiB gradients of Net (8, the largest 'layers.0.weight' with 16.00 KiB)" in text, text
            assert "16.01 MiB parameters of Linear (2, the largest 'weight' with 16.00 MiB)" in text, text
            line = fill.__code__.co_firstlineno + 1
            assert f"in {len(other)} buffers made by 'empty' at <string>:{line}," in text, text
            """)

    def test_fragmentation(self):
        self.report("""
            def holes():
                all = [torch.empty(2 << 18, device="cuda") for _ in range(30)] # 2 MiB each
                return all[::2]
            held = holes() # every other one is free: 30 MiB
            text = report(lambda: torch.empty(12 << 18, device="cuda"))
            assert re.search("Fragmentation: 30[0-9.]+ MiB are cached and free, which would be enough, but they lie in", text), text
            text = report(lambda: torch.empty(60 << 18, device="cuda")) # all pieces together are too little
            assert "Fragmentation" not in text and "The largest free piece of the cache has" in text, text
            del held
            torch.empty(50 << 18, device="cuda")
            """)

    def test_the_cache(self):
        self.report("""
            held = torch.empty(20 << 18, device="cuda")
            torch.empty(40 << 18, device="cuda")
            text = report(lambda: torch.empty(60 << 18, device="cuda"))
            assert "The cache was emptied first (40.00 MiB given back), so" in text and "more than the whole device" not in text, text
            text = report(lambda: torch.empty(65 << 18, device="cuda"))
            assert "This is more than the whole device has." in text, text
            """)

    STEPS = """
            net = Net().to("cuda")
            opt = torch.optim.Adam(net.parameters())
            def train(*batches):
                for rows in batches:
                    data = torch.ones(rows, 64, device="cuda")
                    loss = F.mse_loss(net(data), data)
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
    """
    BATCHES = """
            def batches(text): # how many rows fit now, how many in a new run
                same = re.search(r"A batch of \\d+ rows needs [\\d.]+ .iB, going by the steps before; one of (\\d+) fits, one of (\\d+) does not", text)
                if same: now, anew, fails = int(same[1]), int(same[1]), int(same[2])
                else: now, anew, fails = map(int, re.search(r"rows needs .* one of (\\d+) fits now, one of (\\d+) in a new run, and one of (\\d+) in neither", text).groups())
                assert fails == max(now, anew) + 1, text
                return now, anew
            def tried(rows): # what a caught error leaves: the next try
                try: return train(rows, rows, rows)
                except torch.OutOfMemoryError as e: return e
            del m, x
    """

    def smaller(self, program, seen, rows):
        """What is proposed when a batch of rows runs out after those of seen: it fits, the next larger does not, now and in a new run."""
        now, anew = eval(self.report(program + f"""
            train(*{seen})
            now, anew = batches(report(lambda: train({rows})))
            assert not tried(now), f"{{now}} was to fit"
            assert "out of memory" in str(tried(now + 1)), f"{{now + 1}} was not to fit"
            print((now, anew))
            """).strip().split("\n")[-1])
        self.assertGreater(min(now, anew), max(seen))
        self.report(program + f"\n            train(*[{anew}] * 3)")
        self.report(program + f"\n            report(lambda: train(*[{anew + 1}] * 3))")
        return now, anew

    def test_a_smaller_batch(self):
        """A batch that is far too large, and one that is a little; two sizes once each, as a loader's last batch brings them."""
        for seen, rows in ([512, 512, 1024, 1024], 60000), ([1000, 1000, 1000, 700], 60000):
            self.smaller(self.STEPS + self.BATCHES, seen, rows)

    def test_a_smaller_batch_of_other_models(self):
        """Where the first layer runs out already, with more than the device has; batch_first, which lays the rows second; attention; gradients
        that are accumulated; Adam; autocast."""
        for model, shape, seen, options in (("nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 4))", "3, 16, 16", [64, 64, 128, 128], ""),
                                            ("Last()", "20, 16", [8, 8, 16, 16], "half = True"),
                                            ("nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)", "32, 16", [4, 4, 8, 8], ""),
                                            ("nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64))", "64", [32, 32, 64, 64], "parts = 3")):
            self.smaller(f"""
            class Last(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.r, self.out = nn.LSTM(16, 64, batch_first=True), nn.Linear(64, 1)
                def forward(self, x):
                    return self.out(self.r(x)[0][:, -1])
            half, parts = False, 1
            {options}
            net = {model}.to("cuda")
            opt = torch.optim.Adam(net.parameters())
            def train(*batches):
                for rows in batches:
                    for part in range(parts):
                        with torch.autocast("cuda", enabled=half):
                            loss = net(torch.ones(rows, {shape}, device="cuda")).float().pow(2).mean()
                        loss.backward()
                    opt.step(), opt.zero_grad()
            """ + self.BATCHES, seen, 20000)

    def test_near_misses_of_a_smaller_batch(self):
        self.report(self.STEPS + """
            del m, x
            first = report(lambda: train(60000)) # nothing was seen to go by
            one = report(lambda: train(512, 512, 512, 60000)) # one size says nothing of what a row needs
            train(1024, 1024)
            twice = net.forward
            net.forward = lambda x: twice(x * 2) # the steps before went otherwise
            other = report(lambda: train(60000))
            net.forward = twice
            with torch.cuda.stream(torch.cuda.Stream()): stream = report(lambda: train(60000)) # memory of its own
            assert not any("rows" in text for text in (first, one, other, stream)), (first, one, other, stream)
            scaled = nn.Softmax(1) # no parameters: what it is called with is no step's rows
            with torch.no_grad(): m2 = Net().to("cuda")(torch.ones(4, 64, device="cuda"))
            scaled(torch.ones(9999, 4, device="cuda", requires_grad=True))
            assert "rows" not in report(lambda: torch.empty(65 << 18, device="cuda"))
            held, data = [], torch.ones(1024, 64, device="cuda")
            def leak(): # the same batch fitted before: it is not the batch
                while True:
                    F.mse_loss(net(data), data).backward()
                    opt.step(), opt.zero_grad()
                    held.append(torch.empty(1 << 15, device="cuda"))
            text = report(leak)
            assert "fits" not in text and "rows fitted before: what is held besides them has grown" in text, text
            """)

    def test_a_smaller_batch_of_the_same_model(self):
        """What other models, other optimizers, rows of another size or a step that failed needed says nothing of this one's steps."""
        self.report(self.STEPS + self.BATCHES + """
            def steps(net, opt, *batches, width=64):
                for rows in batches:
                    data = torch.ones(rows, 20, width, device="cuda")
                    loss = net(data).pow(2).mean()
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
            def made(*layers):
                net = nn.Sequential(*layers).to("cuda")
                return net, torch.optim.SGD(net.parameters(), lr=0.1)
            large, small = made(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64)), made(nn.Linear(64, 64))
            steps(*small, 8, 8, 8, 16, 16, 16)
            now, anew = batches(report(lambda: steps(*small, 6000)))
            other = report(lambda: steps(*large, 600))              # another model
            steps(*small, 8, 8, 16, 16)
            adam = torch.optim.Adam(small[0].parameters())
            steps(small[0], adam, 8)
            one = report(lambda: steps(small[0], adam, 6000))       # another optimizer
            free, second = made(nn.ReLU(), nn.Linear(64, 64)), torch.optim.Adam(small[0].parameters())
            steps(*free, 8, 8, 16, 16)
            free[0][1] = nn.Linear(128, 64).to("cuda")
            wide = report(lambda: steps(free[0], free[1], 6000, width=128)) # larger rows
            assert not any("A batch of" in text for text in (other, one, wide)), (other, one, wide)
            steps(*large, 8, 8, 8, 16, 16, 16)
            for rows in 9000, 8000, 7000: # tried again, each speaks of its own rows
                text = report(lambda: steps(*large, rows))
                assert text.count(f"A batch of {rows} rows needs") == 1, text
            steps(*large, batches(text)[0], batches(text)[0])
            assert batches(report(lambda: steps(*large, 7000)))[0] >= batches(text)[0]
            """)

    def test_memory_comes_back(self):
        self.report("""
            import gc
            before, cache = torch.cuda.memory_allocated(), []
            def step():
                kept = []
                while True: kept.append(F.mse_loss(m(x), x))
            for _ in range(3):
                try:
                    step()
                except torch.cuda.OutOfMemoryError as e:
                    error = e # its traceback holds the frame's variables, as PyTorch's does; nothing else does
                error.__traceback__ = None
                gc.collect()
                assert torch.cuda.memory_allocated() == before, torch.cuda.memory_allocated()
                m(x).sum().backward()
                m.zero_grad()
            """)


if __name__ == "__main__":
    unittest.main()
