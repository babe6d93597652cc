"""A device without float64, as many GPUs are: what a program does with float32, whole numbers and bools needs none.

test-env-opencl: FACULA_OPENCL=cpu FACULA_OPENCL_FLOAT64=off
test-limit: 240
"""

import unittest

import facula as torch
from facula import nn

F = nn.functional
NAMES = {"torch": torch, "nn": nn, "F": F, "inf": float("inf")}

# Expressions of x, float32 [4, 6]; m, bool; i, int64 [3]; y, int64 [4].
LINES = """
x.masked_fill(m, -inf); x.clone().masked_fill_(m, -1e9); torch.where(m, x, 0.0); x == 1.5; x + 1.5; x ** 2.5; x.clamp(0, 1); x.round(decimals=2)
x + torch.tensor(1.5, dtype=torch.float64); torch.zeros(2, device="opencl").copy_(torch.ones(2, dtype=torch.float64))
torch.ones(2, dtype=torch.float64).to("opencl", torch.float32); x.lerp(x, 0.5); torch.addcmul(x, x, x, value=0.5); torch.erfinv(x.sigmoid())
x.sort(); x.topk(2); x.argsort(); x.median(); i.unique(); x.argmax(1); m.any(); i.bincount(); F.one_hot(i); x.quantile(0.5)
x.mean(); x.std(); x.var(1); x.norm(); x.prod(); x.cumsum(0); x.cumprod(0); x.logsumexp(1); i / 2; i // 2; i.sqrt(); i.float().mean()
torch.linspace(0, 1, 5, device="opencl"); torch.arange(0, 1, 0.1, device="opencl"); torch.full((2,), 1.5, device="opencl")
torch.tensor([1.0, 2.0], device="opencl"); repr(x); repr(i); repr(x * 1e9); x[0, 0].item(); x.tolist(); torch.allclose(x, x); torch.equal(x, x)
torch.multinomial(x.softmax(1), 1); torch.randperm(10, device="opencl"); torch.randint(0, 5, (3,), device="opencl"); F.dropout(x, 0.3)
torch.normal(0.0, 1.0, (3,), device="opencl"); torch.bernoulli(x.sigmoid()); torch.empty(3, device="opencl").exponential_()
nn.init.orthogonal_(torch.empty(3, 4, device="opencl")); nn.init.trunc_normal_(torch.empty(3, 3, device="opencl"))
nn.init.xavier_uniform_(torch.empty(3, 3, device="opencl")); torch.linalg.inv(x[:, :4]); torch.linalg.svd(x); torch.cdist(x, x)
torch.einsum("ij,kj->ik", x, x); x.bfloat16() @ x.bfloat16().t(); x.half() + x.half(); x.long(); x.roll(1); x.flip(0)
F.cross_entropy(x, y, label_smoothing=0.1); F.nll_loss(x.log_softmax(1), y); F.huber_loss(x, x * 2); F.gelu(x)
F.kl_div(x.log_softmax(1), x.softmax(1), reduction="batchmean"); F.binary_cross_entropy_with_logits(x, x.sigmoid())
F.max_pool2d(x[None, None], 2); F.avg_pool2d(x[None, None], 2); F.interpolate(x[None, None], scale_factor=2, mode="bilinear")
torch.zeros(4, 6, device="opencl").scatter_(1, y[:, None], 1.5)
"""
MODULES = {
    "nn.Embedding(5, 3)": "i", "nn.LSTM(6, 3, 2)": "x[None]", "nn.GRU(6, 3)": "x[None]", "nn.LayerNorm(6)": "x", "nn.BatchNorm1d(6)": "x",
    "nn.TransformerEncoderLayer(6, 2, 8)": "x[None]", "nn.Conv2d(1, 2, 3)": "x[None, None]", "nn.ConvTranspose2d(1, 2, 3)": "x[None, None]",
}
OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"]


class Float32(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.x = torch.randn(4, 6, device="opencl")
        y = torch.tensor([0, 1, 2, 3], device="opencl")
        self.names = {**NAMES, "x": self.x, "m": self.x > 0, "i": torch.tensor([0, 2, 1], device="opencl"), "y": y}

    def test_float64_is_refused(self):
        for line in ("x.double() + 1", "torch.ones(2, device='opencl', dtype=torch.float64).exp()", "x + torch.ones(4, 6, device='opencl').double()"):
            with self.assertRaisesRegex(NotImplementedError, "opencl:0 has no float64, and this needs it. Use float32"):
                eval(line, self.names)

    def test_expressions(self):
        for line in LINES.strip().replace("\n", "; ").split("; "):
            with self.subTest(line=line):
                eval(line, self.names)

    def test_modules(self):
        for module, given in MODULES.items():
            with self.subTest(module=module):
                net = eval(module, self.names).to("opencl")
                result = net(eval(given, self.names))
                (result[0] if isinstance(result, tuple) else result).square().sum().backward()
                self.assertTrue(all(p.grad is not None for p in net.parameters()))

    def test_optimizers(self):
        for name in OPTIMIZERS:
            with self.subTest(name=name):
                net = nn.Linear(6, 2).to("opencl")
                before = net.weight.detach().clone()
                optimizer = getattr(torch.optim, name)(net.parameters())
                net(self.x).square().mean().backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                self.assertFalse(torch.equal(before, net.weight))

    def test_scaler(self):
        scaler, net = torch.amp.GradScaler("opencl"), nn.Linear(6, 2).to("opencl")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with torch.autocast("opencl", dtype=torch.float16):
            loss = net(self.x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    unittest.main()
