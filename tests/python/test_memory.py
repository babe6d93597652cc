"""The memory of devices from Python: torch's names and forms, with two simulated GPUs of 256 MiB and without one."""
# test-env: -
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

    def test_other_names_of_devices(self):
        run("""
            x = torch.ones(300, device="mps")
            assert torch.mps.current_allocated_memory() == 1536 and torch.mps.driver_allocated_memory() == 2 << 20
            assert torch.mps.recommended_max_memory() == 64 << 20
            y = torch.ones(300, device="xpu:1")
            assert torch.xpu.memory_allocated(1) == 1536 and torch.xpu.memory_stats(1)["allocation.all.current"] == 1
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


if __name__ == "__main__":
    unittest.main()
