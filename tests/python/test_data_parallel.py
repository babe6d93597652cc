"""nn.DataParallel and its parts on two simulated devices: the gradients of one device, batches of every size, what goes in and comes out, errors in PyTorch's words."""
import io
import os
import sys
import unittest
import warnings
from collections import namedtuple

if "FACULA_SIM" not in os.environ:
    os.environ["FACULA_SIM"] = "cuda:2"
    os.execv(sys.executable, [sys.executable, "-B"] + sys.argv)
import facula as torch
from facula import nn
from facula.cuda import comm
from facula.nn import parallel

Pair = namedtuple("Pair", "a b")


def network(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).cuda()


class Options(nn.Module):
    """Takes and gives all kinds of things."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x=None, *, extra=None, scale=1, shape=None):
        x = torch.ones(2, 4, device="cuda") if x is None else x  # of the current device
        result = self.linear(x) * scale
        if extra is not None:
            result = result + extra["more"][0]
        return {"out": result, "rest": Pair(result.sum(), [result, None])} if shape == "nested" else result


class Parallel(unittest.TestCase):
    def test_gradients_of_one_device(self):
        for batch in (8, 7, 3, 2, 1):
            one, other = network(), network()
            both, x = nn.DataParallel(other), torch.randn(batch, 4)
            results = [net(x.cuda()) for net in (one, both)]
            self.assertTrue(torch.equal(*results) and results[1].device == torch.device("cuda:0"))
            for result in results:
                result.square().sum().backward()
            for p, q in zip(one.parameters(), other.parameters()):
                self.assertTrue(q.grad.device == q.device and (p.grad - q.grad).abs().max() <= 4e-7 * p.grad.abs().max())

    def test_devices_work_at_once(self):
        """What the second device has is done while the first one is still at work."""
        a, b, busy = torch.randn(500, 500, device="cuda:0"), torch.randn(4, 4, device="cuda:1"), torch.cuda.Event()
        torch.cuda.synchronize(0), torch.cuda.synchronize(1)
        for _ in range(20):
            a = a @ a
        busy.record()
        b = b @ b
        torch.cuda.synchronize(1)
        self.assertFalse(busy.query())
        torch.cuda.synchronize(0)
        self.assertTrue(busy.query())

    def test_what_goes_in_and_comes_out(self):
        net = Options().cuda()
        both, x = nn.DataParallel(net), torch.randn(5, 4)
        for n in (5, 1):  # also fewer rows than devices, beside what is no tensor
            found = both(x[:n], extra={"more": [torch.ones(n, 2)]}, scale=2)
            self.assertTrue(torch.equal(found, net(x[:n].cuda()) * 2 + 1))
        found = both(x, shape="nested")
        self.assertIsInstance(found["rest"], Pair)
        self.assertEqual((found["out"].shape, found["rest"].a.shape, found["rest"].b[0].shape, found["rest"].b[1]), ((5, 2), (2,), (5, 2), None))
        self.assertEqual(both(x[:1], shape="nested")["rest"].a.shape, (1,))
        self.assertEqual(both().shape, (2, 2))
        self.assertEqual(nn.DataParallel(net)(extra={"more": [torch.ones(2, 2)]}).shape, (4, 2))  # a replica for each piece, and its own device's ones in it
        self.assertEqual(parallel.data_parallel(net, x, [0, 1], 1, module_kwargs={"scale": 3}).device, torch.device("cuda:1"))
        self.assertEqual(torch.cuda.current_device(), 0)

    def test_places(self):
        net, x = nn.Linear(4, 2).cuda(), torch.ones(4, 4)
        for n in (4, 1):
            self.assertEqual(nn.DataParallel(net, output_device=1)(x[:n]).device, torch.device("cuda:1"))
        self.assertEqual(nn.DataParallel(net, [torch.device("cuda:0"), "cuda:1"]).device_ids, [0, 1])
        self.assertEqual(nn.DataParallel(nn.Linear(4, 2), [1])(x).device, torch.device("cuda:1"))
        self.assertEqual(nn.DataParallel(nn.Linear(4, 2).to("cuda:1"), [1, 0])(x).device, torch.device("cuda:1"))
        wrong = "module must have its parameters and buffers on device cuda:0 \\(device_ids\\[0\\]\\) but found one of them on device: "
        for call, error, text in ((lambda: nn.DataParallel(nn.Linear(4, 2))(x), RuntimeError, wrong + "cpu"), (lambda: nn.DataParallel(nn.Linear(4, 2).to("cuda:1"))(x), RuntimeError, wrong + "cuda:1"),
                                  (lambda: nn.DataParallel(net, ["cpu"]), ValueError, "Expected a non cpu device, but got: cpu"),
                                  (lambda: nn.DataParallel(net, output_device="cpu"), ValueError, "Expected a non cpu device"),
                                  (lambda: nn.DataParallel(net, [0, 5])(x), RuntimeError, "invalid device ordinal"), (lambda: nn.DataParallel(net, []), RuntimeError, "no available devices were found")):
            with self.assertRaisesRegex(error, text):
                call()

    def test_the_hint_is_given_once(self):
        parallel._said = False
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            for _ in range(2):
                nn.DataParallel(nn.Linear(1, 1).cuda())
        self.assertEqual(["PyTorch recommends DistributedDataParallel" in str(w.message) for w in given], [True])

    def test_states(self):
        def made():
            return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).cuda()
        both, net, x, file = nn.DataParallel(made()), made(), torch.randn(8, 4), io.BytesIO()
        torch.save(both.state_dict(), file)
        state = torch.load(io.BytesIO(file.getvalue()))
        self.assertEqual(list(state)[0], "module.0.weight")
        with self.assertRaisesRegex(RuntimeError, 'Missing key.*"0.weight"'):
            net.load_state_dict(state)
        net.load_state_dict({name.removeprefix("module."): t for name, t in state.items()})
        both.load_state_dict({f"module.{name}": t for name, t in net.state_dict().items()})
        both(x), net(x[:4].cuda())  # statistics are those of the first piece
        self.assertEqual(both.module[1].running_mean.tolist(), net[1].running_mean.tolist())
        self.assertEqual(both.module[1].num_batches_tracked.item(), 1)

    def test_errors_of_replicas(self):
        class Odd(nn.Module):
            def __init__(self, fails):
                super().__init__()
                self.weight, self.fails = nn.Parameter(torch.ones(1)), fails

            def forward(self, x):
                return self.fails(self, x)

        class Special(Exception):
            def __init__(self, a, b):
                super().__init__(a, b)

        def special(self, x):
            raise Special(1, 2)

        def second(self, x):
            if x.device.index == 1:
                raise KeyError("lost")
            return x
        for fails, error, text in ((lambda self, x: x @ x, RuntimeError, "Caught RuntimeError in replica 0 on device 0.\nmat1 and mat2 shapes cannot be multiplied"),
                                   (second, KeyError, "Caught KeyError in replica 1 on device 1."), (special, RuntimeError, "Caught Special in replica 0"),
                                   (lambda self, x: 3, TypeError, "'int' object is not iterable: what a module"), (lambda self, x: {str(x.device): x}, ValueError, "All dicts must have the same number of keys")):
            with self.assertRaisesRegex(error, text):
                nn.DataParallel(Odd(fails).cuda())(torch.ones(4, 3))
        with self.assertRaisesRegex(AssertionError, "The number of modules 1 is not equal to the number of inputs 2"):
            parallel.parallel_apply([nn.ReLU()], [torch.ones(1)] * 2)
        self.assertEqual(torch.cuda.current_device(), 0)

    def test_parts(self):
        pieces = parallel.scatter({"a": (torch.arange(3), ["x"]), "n": 1}, [0, 1])
        self.assertEqual([(p["a"][0].tolist(), p["a"][0].device.index, p["a"][1], p["n"]) for p in pieces], [([0, 1], 0, ["x"], 1), ([2], 1, ["x"], 1)])
        a, b = torch.ones(1, device="cuda:0", requires_grad=True), torch.ones(2, device="cuda:1", requires_grad=True)
        parallel.gather([a, b], 0).square().sum().backward()
        self.assertEqual((a.grad.tolist(), b.grad.tolist(), b.grad.device.index), ([2], [2, 2], 1))
        self.assertEqual([p.weight.device.index for p in parallel.replicate(nn.Linear(1, 1).cuda(), [0, 1])], [0, 1])
        self.assertEqual([t.device.index for t in comm.broadcast(torch.ones(3, device="cuda"), [0, 1])], [0, 1])
        self.assertEqual([[t.tolist() for t in row] for row in comm.broadcast_coalesced([a.detach(), b.detach().to(0)], [0, 1])], [[[1], [1, 1]]] * 2)
        self.assertEqual(comm.reduce_add([torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")], 1).tolist(), [2, 2])
        self.assertEqual([t.shape[0] for t in comm.scatter(torch.ones(5), [0, 1], chunk_sizes=[1, 4])], [1, 4])
        with self.assertRaisesRegex(RuntimeError, "Exactly one of 'devices' and 'out' must be specified"):
            comm.broadcast(a, [0], out=[b])


if __name__ == "__main__":
    unittest.main(verbosity=0, warnings="ignore")
