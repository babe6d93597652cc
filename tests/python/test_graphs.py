"""Graphs and pools from Python, on two simulated devices: PyTorch's names, whole training steps with the same bits, errors in PyTorch's words."""
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

if "FACULA_SIM" not in os.environ:
    os.environ["FACULA_SIM"] = "cuda:2,xpu:1"
    os.execv(sys.executable, [sys.executable, "-B"] + sys.argv)
import facula as torch
from facula import nn

CAPTURING = "CUDA error: operation not permitted when stream is capturing"


def training(optimizer, **options):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)).cuda()
    return net, optimizer(net.parameters(), lr=0.05, **options), torch.zeros(8, 10, device="cuda"), torch.zeros(8, 3, device="cuda")


def batches(n):
    g = torch.Generator().manual_seed(1)
    return [(torch.randn(8, 10, generator=g), torch.randn(8, 3, generator=g)) for _ in range(n)]


class Graphs(unittest.TestCase):
    def tearDown(self):
        torch.cuda.set_stream(torch.cuda.default_stream(0))
        torch.cuda.synchronize()
        self.assertFalse(torch.cuda.is_current_stream_capturing())

    def test_replays(self):
        g, x = torch.cuda.CUDAGraph(), torch.ones(4, device="cuda")
        with torch.cuda.graph(g):
            self.assertTrue(torch.cuda.is_current_stream_capturing() and torch.cuda.current_stream().is_capturing())
            y = x * 2
            x += 1
        self.assertEqual(x.tolist(), [1] * 4)
        g.replay(), g.replay()
        self.assertEqual((x.tolist(), y.tolist()), ([3] * 4, [4] * 4))
        self.assertEqual(len(g.pool()), 2)
        self.assertNotEqual(g.raw_cuda_graph_exec(), 0)
        with self.assertRaisesRegex(RuntimeError, "unless CUDAGraph was initialized with keep_graph=True"):
            g.raw_cuda_graph()
        with self.assertRaisesRegex(RuntimeError, "This CUDAGraph instance already owns a captured graph"):
            with torch.cuda.graph(g):
                pass
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.dot")
            with self.assertWarnsRegex(UserWarning, "CUDA Graphs debug not enabled"):
                g.debug_dump(path)
            g.enable_debug_mode()
            g.debug_dump(path)
            with open(path, encoding="utf-8") as f:
                self.assertIn("digraph", f.read())
        g.reset()
        with self.assertRaisesRegex(RuntimeError, "Called CUDAGraph::replay without a preceding successful capture"):
            g.replay()
        with self.assertWarnsRegex(UserWarning, "The CUDA Graph is empty"):
            with torch.cuda.graph(g):
                pass

    def compare(self, optimizer, warm, **options):
        def step():
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            opt.step()
            return loss.detach()
        results = []
        for graphed in (False, True):
            net, opt, x, y = training(optimizer, **options)
            data, losses = batches(6), []
            if graphed:
                if warm:
                    x.copy_(data[0][0]), y.copy_(data[0][1])
                    losses.append(step().item())
                g = torch.cuda.CUDAGraph()
                with torch.cuda.graph(g):
                    loss = step()
            for a, b in data[len(losses):]:
                x.copy_(a), y.copy_(b)
                if graphed:
                    g.replay()
                losses.append((loss if graphed else step()).item())
            state = opt.state_dict()["state"]
            steps = [s["step"].item() for s in state.values() if "step" in s]
            results.append((losses, [p.tolist() for p in net.parameters()], steps, [t.tolist() for s in state.values() for t in s.values() if t is not None and t.dim()]))
            losses.append(step().item())  # and once more without the graph
        self.assertEqual(*results)

    def test_training(self):
        for warm in (True, False):
            self.compare(torch.optim.SGD, warm)
            self.compare(torch.optim.SGD, warm, momentum=0.9)
            self.compare(torch.optim.Adam, warm, capturable=True)
            self.compare(torch.optim.AdamW, warm, capturable=True, amsgrad=True)

    def replays(self, graphed, make, steps=1, change=None, prepare=None):
        """Losses and parameters of a small net's steps, by replays or not; change(optimizer) after the third."""
        torch.manual_seed(0)
        net = nn.Linear(6, 4).cuda()
        x, y = torch.randn(8, 6, device="cuda"), torch.randn(8, 4, device="cuda")
        opt = make(net.parameters())
        if prepare:
            prepare(opt)

        def step():
            for _ in range(steps):
                opt.zero_grad()
                loss = nn.functional.mse_loss(net(x), y)
                loss.backward()
                opt.step()
            return loss.detach()
        if graphed:
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                loss = step()
        losses = []
        for i in range(6):
            if i == 3 and change:
                change(opt)
            if graphed:
                g.replay()
            else:
                loss = step()
            losses.append(loss.item())
        return losses, [p.tolist() for p in net.parameters()], [s["step"].item() for s in opt.state_dict()["state"].values() if "step" in s]

    def test_two_steps_in_a_capture(self):
        optim = torch.optim
        for make in (lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5), lambda p: optim.Adam(p, lr=0.1, capturable=True), lambda p: optim.NAdam(p, capturable=True),
                     lambda p: optim.ASGD(p, capturable=True), lambda p: optim.Adagrad(p, lr_decay=0.1)):
            self.assertEqual(self.replays(False, make, steps=2), self.replays(True, make, steps=2))

    def test_learning_rates_of_replays(self):
        """Each replay reads the options anew: what schedules do to numbers and to tensors counts, after load_state_dict too."""
        def fill(opt):
            opt.param_groups[0]["lr"].fill_(0.03)

        def put(opt):
            opt.param_groups[0]["lr"] = 0.03

        def load(opt):
            opt.load_state_dict(opt.state_dict())
            put(opt)
        for lr, change in ((0.1, put), (0.1, load), (torch.tensor(0.1), fill), (torch.tensor(0.1, device="cuda"), fill)):
            for rule, options in ((torch.optim.SGD, {}), (torch.optim.AdamW, {"capturable": True})):
                found = [self.replays(graphed, lambda p: rule(p, lr=lr.clone() if torch.is_tensor(lr) else lr, **options), change=change) for graphed in (False, True)]
                self.assertEqual(*found)
                self.assertNotEqual(found[0], self.replays(False, lambda p: rule(p, lr=lr, **options)))

    def test_options_that_a_capture_makes(self):
        w, lr = torch.ones(2, device="cuda", requires_grad=True), torch.tensor(0.5, device="cuda")
        opt = torch.optim.SGD([w], lr=lr)
        with self.assertRaisesRegex(RuntimeError, "step: lr is a tensor that this capture writes before the step"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                lr.mul_(0.5)
                w.sum().backward()
                opt.step()
        opt.zero_grad()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            w.sum().backward()
            opt.step()
            lr.mul_(0.5)  # for the next
        g.replay()
        self.assertEqual((w.tolist(), lr.item()), ([0.5, 0.5], 0.25))
        del opt.param_groups[0]["lr"]
        with self.assertRaisesRegex(KeyError, "lr"):
            g.replay()
        opt.param_groups[0]["lr"] = 0.0
        g.replay()
        self.assertEqual(w.tolist(), [0.5, 0.5])
        del opt  # the graph goes on with what it had
        g.replay()
        self.assertEqual(w.tolist(), [0.5, 0.5])

    def test_capturable(self):
        net, opt, x, y = training(torch.optim.Adam)
        nn.functional.mse_loss(net(x), y).backward()
        with self.assertRaisesRegex(RuntimeError, "Attempting CUDA graph capture of step\\(\\) for an instance of Adam but param_groups' capturable is False"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                opt.step()
        opt.step()

    def test_random(self):
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            y = torch.rand(100, device="cuda")
        torch.cuda.manual_seed(4)
        found = []
        for _ in range(3):
            g.replay()
            found.append(y.tolist())
        torch.cuda.manual_seed(4)
        self.assertEqual(found, [torch.rand(100, device="cuda").tolist() for _ in range(3)])

    def test_scaler(self):
        """Loss, its scaling and backward are captured; step and update, which read what was found, are not."""
        results = []
        for graphed in (False, True):
            net, opt, x, y = training(torch.optim.SGD)
            scaler = torch.amp.GradScaler("cuda", init_scale=2.0 ** 20, growth_interval=2)

            def forward():
                with torch.autocast("cuda", cache_enabled=False):
                    loss = nn.functional.mse_loss(net(x), y)
                scaler.scale(loss).backward()
            for p in net.parameters():
                p.grad = torch.zeros_like(p)
            if graphed:
                scaler.scale(torch.zeros(1, device="cuda"))
                g = torch.cuda.CUDAGraph()
                with torch.cuda.graph(g):
                    opt.zero_grad(set_to_none=False)
                    forward()
            for a, b in batches(6):
                x.copy_(a), y.copy_(b)
                if graphed:
                    g.replay()
                else:
                    opt.zero_grad(set_to_none=False)
                    forward()
                scaler.step(opt)
                scaler.update()
            results.append((scaler.get_scale(), [p.tolist() for p in net.parameters()]))
        self.assertEqual(*results)

    def scaled(self, graphed, optimizer, **options):
        net, opt, x, y = training(optimizer, **options)
        scaler = torch.amp.GradScaler("cuda", init_scale=2.0 ** 14, growth_interval=2)

        def step():
            opt.zero_grad()
            with torch.autocast("cuda", cache_enabled=False):
                loss = nn.functional.mse_loss(net(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            scaler.step(opt)
            scaler.update()
            return loss
        if graphed:
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                loss = step()
        results = []
        for i, (a, b) in enumerate(batches(6)):
            x.copy_(a), y.copy_(b)
            if i == 3:
                y[0, 0] = float("inf")
            if graphed:
                g.replay()
            else:
                loss = step()
            results += [loss.item(), scaler.get_scale()] if i % 2 else []
        steps = [s["step"].item() for s in opt.state_dict()["state"].values() if "step" in s]
        return results, scaler.state_dict(), steps, [p.tolist() for p in net.parameters()]

    def test_whole_steps_with_a_scaler(self):
        """step and update too: the device leaves out a step with inf, and the scale and the counts of steps are right afterwards."""
        for optimizer, options in ((torch.optim.SGD, {"momentum": 0.9, "fused": True}), (torch.optim.Adam, {"capturable": True, "fused": True}),
                                   (torch.optim.AdamW, {"capturable": True, "amsgrad": True})):
            self.assertEqual(self.scaled(False, optimizer, **options), self.scaled(True, optimizer, **options))

    def test_optimizers_of_ones_own_with_a_scaler(self):
        class Mine(torch.optim.Optimizer):
            def __init__(self, params):
                super().__init__(params, {})

            def step(self):
                pass
        w, scaler = torch.ones(2, device="cuda", requires_grad=True), torch.amp.GradScaler("cuda")
        with self.assertRaisesRegex(torch.AcceleratorError, CAPTURING):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                scaler.scale(w.sum()).backward()
                scaler.step(Mine([w]))

    def test_refused(self):
        x = torch.ones(3, device="cuda")
        for call, error, text in (
                (lambda: x.sum().item(), torch.AcceleratorError, CAPTURING), (lambda: x.cpu(), RuntimeError, CAPTURING),
                (lambda: print(repr(x)), RuntimeError, CAPTURING), (lambda: torch.cuda.synchronize(), RuntimeError, CAPTURING),
                (lambda: bool(x[0] > 0), RuntimeError, CAPTURING), (lambda: x.nonzero(), RuntimeError, CAPTURING), (lambda: x.tolist(), RuntimeError, CAPTURING),
                (lambda: torch.tensor([1.0], device="cuda"), RuntimeError, "Cannot copy between CPU and CUDA tensors during CUDA graph capture"),
                (lambda: x.copy_(torch.zeros(3)), RuntimeError, "unless the CPU tensor is pinned"),
                (lambda: x + torch.zeros(3).cuda(), RuntimeError, "unless the CPU tensor is pinned"),
                (lambda: torch.cuda.CUDAGraph().capture_begin(), RuntimeError, CAPTURING),
                (lambda: x.to("cuda:1"), torch.AcceleratorError, "Numbers of cuda:0 can't be copied to cuda:1 in a capture: a graph is of one device"),
                (lambda: x.copy_(torch.ones(3, device="cuda:1")), torch.AcceleratorError, "Numbers of cuda:1 can't be copied to cuda:0 in a capture"),
                (lambda: torch.cuda.current_stream().wait_stream(torch.cuda.default_stream()), RuntimeError, "dependency created on uncaptured work")):
            g = torch.cuda.CUDAGraph()
            with self.assertRaisesRegex(error, text):
                with torch.cuda.graph(g):
                    y = x + 1
                    call()
            self.assertEqual(x.tolist(), [1.0] * 3)  # all goes on
            with self.assertRaisesRegex(RuntimeError, "without a preceding successful capture"):
                g.replay()
        with self.assertRaisesRegex(RuntimeError, "CUDA graphs must be captured on a non-default stream"):
            torch.cuda.CUDAGraph().capture_begin()
        for pool in (5, (0, -1), (0, "1"), (0, True)):
            with self.assertRaisesRegex(TypeError, "pool must be what graph_pool_handle"):
                torch.cuda.CUDAGraph().capture_begin(pool)
        with self.assertRaisesRegex(RuntimeError, "without a preceding successful capture. One is made in `with facula.cuda.graph"):
            torch.cuda.CUDAGraph().replay()
        with self.assertRaisesRegex(RuntimeError, "Unknown capture error mode"):
            torch.cuda.CUDAGraph().capture_begin(capture_error_mode="all")
        del y

    def test_masks_and_constants(self):
        """What PyTorch takes in a capture: numbers at a mask, constants that are computed on the host, checks that would have to read the device."""
        x, other = torch.randn(4, 5, device="cuda"), torch.randn(4, 5, device="cuda")
        repeats, labels = torch.tensor([1, 0, 2, 1], device="cuda"), torch.tensor([1, 3], device="cuda")
        F = nn.functional

        def put(key, value):
            def change(x):
                y = x.clone()
                y[key(x)] = value(x)
                return y
            return change

        def trained(x):
            w = x.clone().requires_grad_()
            y, v = w * 2, w[0, 0] * 3
            y[x > 0] = v
            return torch.autograd.grad((y * x).sum(), w)[0]
        for work in (put(lambda x: x > 0, lambda x: 0.0), put(lambda x: x > 0, lambda x: 1), put(lambda x: x > 0, lambda x: torch.tensor(2.5)), put(lambda x: x > 0, lambda x: x[0, 0]),
                     put(lambda x: x[:, 0] > 0, lambda x: -1.0), put(lambda x: (slice(1, 3), x[0] > 0), lambda x: True), put(lambda x: (..., x[0] > 0), lambda x: 7.0),
                     put(lambda x: (x > 0).to(torch.uint8), lambda x: 0.0), trained, lambda x: x + torch.arange(5, device="cuda"), lambda x: torch.tril(x @ x.t()), lambda x: x.mode().values,
                     lambda x: x[torch.triu_indices(4, 4, 1, device="cuda")[0]], lambda x: torch.scalar_tensor(3, device="cuda") * x, lambda x: torch.bucketize(x, torch.linspace(-1, 1, 5, device="cuda")),
                     lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"), lambda x: F.pad(x[None], (1, 2), mode="reflect"), lambda x: F.adaptive_avg_pool1d(x[None], 3),
                     lambda x: F.one_hot(labels, 5), lambda x: x.quantile(0.3), lambda x: x.histc(4, -1, 1), lambda x: F.binary_cross_entropy(x.sigmoid(), x.sigmoid()),
                     lambda x: x.repeat_interleave(repeats, 0, output_size=4), lambda x: nn.utils.rnn.pad_sequence([x, x[:2]])):
            g, static = torch.cuda.CUDAGraph(), x.clone()
            with torch.cuda.graph(g):
                made = work(static)
            static.copy_(other)
            g.replay()
            self.assertEqual(made.tolist(), work(other).tolist())
        with self.assertRaisesRegex(RuntimeError, "allocated size does not match required size: output_size is 5, the repeats add up to 4"):
            x.repeat_interleave(repeats, 0, output_size=5)

    def test_generators_in_a_capture(self):
        for call, text in ((lambda: torch.cuda.get_rng_state(), "Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture"),
                           (lambda: torch.cuda.manual_seed(12345), "only if new seed is the same as the original seed"),
                           (lambda: torch.cuda.default_generators[0].set_offset(8), "Cannot call CUDAGeneratorImpl::set_offset during CUDA graph capture")):
            with self.assertRaisesRegex(RuntimeError, text):
                with torch.cuda.graph(torch.cuda.CUDAGraph()):
                    call()
        for seeded in (True, False):
            g, net, x = torch.cuda.CUDAGraph(), nn.Dropout(0.5), torch.ones(64, device="cuda")
            with torch.cuda.graph(g):
                y = net(x)
            found = []
            for _ in range(2):
                if seeded:
                    torch.manual_seed(9)
                g.replay()
                found.append(y.tolist())
            self.assertEqual(found[0] == found[1], seeded)

    def test_nothing_leaks(self):
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        for fails in (False, True):
            x = torch.ones(1000, device="cuda")
            g = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(g):
                    y = x * 2
                    if fails:
                        y.item()
                g.replay()
            except RuntimeError:
                pass
            del x, y, g
        torch.cuda.empty_cache()
        self.assertEqual((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()), before)

    def test_callables(self):
        torch.manual_seed(0)
        plain = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).cuda()
        other = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).cuda()
        other.load_state_dict(plain.state_dict())
        made = torch.cuda.make_graphed_callables(other, (torch.randn(5, 4, device="cuda", requires_grad=True),))
        self.assertIs(made, other)
        for _ in range(3):
            x = torch.randn(5, 4, device="cuda")
            a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
            plain(a).square().sum().backward()
            made(b).square().sum().backward()
            self.assertEqual(a.grad.tolist(), b.grad.tolist())
        for p, q in zip(plain.parameters(), other.parameters()):
            self.assertEqual(p.grad.tolist(), q.grad.tolist())
        f, h = torch.cuda.make_graphed_callables((lambda t: (t * 2, t + 1), torch.exp), ((torch.zeros(2, device="cuda"),), (torch.zeros(2, device="cuda"),)))
        self.assertEqual([t.tolist() for t in f(torch.ones(2, device="cuda"))], [[2, 2], [2, 2]])
        self.assertEqual(h(torch.zeros(2, device="cuda")).tolist(), [1, 1])
        make, two = torch.cuda.make_graphed_callables, torch.ones(2, device="cuda")
        for call, error, text in ((lambda: make(torch.exp, (1,)), TypeError, "must contain only Tensors"), (lambda: make(torch.exp, two), TypeError, r"is a tuple of tensors, not Tensor: write \(x,\) for one"),
                                  (lambda: make(torch.exp, (two.cpu(),)), ValueError, r"sample_args\[0\] is on cpu: there is only work of a cuda device to note down"),
                                  (lambda: make((torch.exp, torch.sin), ((two,),)), ValueError, "needed for each of the 2 callables"),
                                  (lambda: h(), ValueError, r"takes tensors of the shapes in sample_args, \[\(2,\)\], but got \[\]"), (lambda: h(two[:1]), ValueError, r"but got \[\(1,\)\]"),
                                  (lambda: h(3.0), ValueError, r"but got \['float'\]")):
            with self.assertRaisesRegex(error, text):
                call()

    def test_several_callables(self):
        """Two modules after each other, in train() as graphs and in eval() as they are, with BatchNorm's buffers; and an input that nobody uses."""
        def made():
            torch.manual_seed(0)
            return [nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)).cuda() for _ in range(2)]
        plain, graphed = made(), made()
        samples = tuple((torch.randn(5, 4, device="cuda", requires_grad=True),) for _ in range(2))
        first, second = torch.cuda.make_graphed_callables(tuple(graphed), samples, num_warmup_iters=2)
        for a, b in zip(graphed, plain):  # the warm-up has moved the running statistics
            a.load_state_dict(b.state_dict())
        for _ in range(3):
            x, results = torch.randn(5, 4, device="cuda"), []
            for one, other in ((first, second), (plain[0], plain[1])):
                leaf = x.clone().requires_grad_()
                other(one(leaf)).square().sum().backward()
                results.append(leaf.grad.tolist())
            self.assertEqual(*results)
        for a, b in zip(graphed, plain):
            self.assertEqual([p.grad.tolist() for p in a.parameters()], [p.grad.tolist() for p in b.parameters()])
            self.assertEqual([p.tolist() for p in a.buffers()], [p.tolist() for p in b.buffers()])
            self.assertEqual(a.eval()(x[:3]).tolist(), b.eval()(x[:3]).tolist())
        leaves = [torch.ones(2, device="cuda", requires_grad=True) for _ in range(2)]
        with self.assertRaisesRegex(RuntimeError, "appears to not have been used in the graph"):
            torch.cuda.make_graphed_callables(lambda a, b: a * 2, tuple(leaves))
        torch.cuda.make_graphed_callables(lambda a, b: a * 2, tuple(leaves), allow_unused_input=True)(*leaves).sum().backward()
        self.assertEqual((leaves[0].grad.tolist(), leaves[1].grad), ([2, 2], None))

    def test_groups_after_a_capture(self):
        """A graph goes on with the groups that it was captured with; a later one has the new ones too."""
        net, x, extra = nn.Linear(3, 1).cuda(), torch.ones(2, 3, device="cuda"), nn.Parameter(torch.ones(1, device="cuda"))
        opt, before, after = torch.optim.SGD(net.parameters(), lr=0.1), torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(before):
            opt.zero_grad()
            net(x).sum().backward()
            opt.step()
        opt.add_param_group({"params": [extra], "lr": 7.0})
        was = net.bias.item()
        before.replay()
        self.assertEqual((round(was - net.bias.item(), 5), extra.item()), (0.2, 1.0))
        with torch.cuda.graph(after):
            opt.zero_grad()
            (net(x) + extra).sum().backward()
            opt.step()
        after.replay(), before.replay()
        self.assertEqual((round(was - net.bias.item(), 5), extra.item()), (0.6, -13.0))

    def test_pools(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            x = torch.ones(10, device="cuda")
            with torch.cuda.use_mem_pool(pool):
                y = torch.ones(10, device="cuda")
        self.assertEqual(pool.reserved_bytes(), 2 << 20)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, pool=pool.id):
            z = x + y
        self.assertEqual(g.pool(), pool.id)
        g.replay()
        self.assertEqual(z.tolist(), [2] * 10)
        self.assertNotEqual(torch.cuda.graph_pool_handle(), torch.cuda.graph_pool_handle())

    def test_accelerator(self):
        g, x = torch.accelerator.Graph(), torch.zeros(2, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()), g:
            x.add_(1)
        g.replay()
        self.assertEqual(x.tolist(), [1, 1])

    def test_other_kinds(self):
        g, x = torch.xpu.XPUGraph(), torch.zeros(2, device="xpu")
        with torch.xpu.graph(g):
            x.add_(1)
        g.replay()
        self.assertEqual(x.tolist(), [1, 1])

    def test_hidden_waits(self):
        x = torch.ones(3, device="cuda")
        self.addCleanup(torch.cuda.set_sync_debug_mode, "default")
        torch.cuda.set_sync_debug_mode("error")
        self.assertEqual(torch.cuda.get_sync_debug_mode(), 2)
        for call, name in ((lambda: x.sum().item(), "item"), (lambda: x.nonzero(), "nonzero"), (lambda: x.cpu(), "cpu"), (lambda: x.to("cpu"), "to"), (lambda: x.bincount() if x.dtype == torch.int64 else (x > 0).masked_select(x > 0), "masked_select")):
            with self.assertRaisesRegex(RuntimeError, f"called a synchronizing CUDA operation: '{name}.*test_graphs.py:\\d+ waits"):
                call()
        (x + 1).mul_(2)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode(1)
        with self.assertWarnsRegex(UserWarning, "called a synchronizing CUDA operation: 'item'"):
            self.assertEqual(x.sum().item(), 3)
        for wrong in ("loud", 7):
            with self.assertRaisesRegex(RuntimeError, "invalid value of debug_mode, expected one of `default`, `warn`, `error`"):
                torch.cuda.set_sync_debug_mode(wrong)

    def test_without_an_xpu(self):
        environment = dict(os.environ, FACULA_SIM="cuda:1")
        said = subprocess.run([sys.executable, "-B", "-c", "import facula as t\ntry: t.xpu.XPUGraph()\nexcept RuntimeError as e: print(e)"], env=environment,
                              capture_output=True, text=True, check=True).stdout
        self.assertEqual(said, "Found no xpu device: FACULA_SIM=cuda:1 names none. Add one: FACULA_SIM=cuda:1,xpu:1\n")

    def test_without_a_device(self):
        code = "import facula as t\nprint(t.cuda.is_current_stream_capturing())\ntry: t.cuda.CUDAGraph()\nexcept RuntimeError as e: print(e)"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FACULA_")}
        said = subprocess.run([sys.executable, "-B", "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        self.assertIn("False\nFound no NVIDIA driver", said)


if __name__ == "__main__":
    warnings.simplefilter("ignore", ResourceWarning)
    unittest.main(verbosity=0)
