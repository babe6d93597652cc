"""Types of results under autocast, on the CPU and on an accelerator: PyTorch's are kept in autocast.txt.gz, and tests/python/test_amp.py
asks Facula for its own.

    python3 tests/golden/autocast_cases.py --write     # with torch 2.13; no GPU is needed

The cases are all rows of python/examples.tab (functions, methods, forms in place, layers) and the lines below. Each runs with
its float32 tensors made of other types, as MIXES says, and on the device under test. Where PyTorch has no GPU, its fake tensors
follow CUDA's rules of autocast: they know device and type and hold no numbers.

A line of the table: the device, the case, and for each type of MIXES and each lower type the results' types as letters: f
float32, d float64, h float16, b bfloat16, i whole numbers, t bool, n no tensor; ! an error.
"""
import ast
import contextlib
import gzip
import os
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "autocast.txt.gz")
EXAMPLES = os.path.join(HERE, "..", "..", "python", "examples.tab")
FACTORIES = {"tensor", "ones", "zeros", "arange", "eye", "empty", "rand", "randn", "full"}
# types of a case's float32 tensors in turn; the last letter is for all that follow. l: autocast's type, o: the other one of 16 bits
MIXES = ("f", "l", "o", "d", "fl", "lf", "lo")
NO_CASES = "autocast", "cuda", "xpu", "npu", "Generator", "default_dtype", "share_memory", "is_shared", "numpy", "record_stream", "dlpack"  # of states and memory, not of types
OPERATORS = """
2 / X
2 - X
2 + X
2 * X
2 ** X
2 % X
2 // X
X / 2
X ** 2
X ** 0.5
X ** -1
X ** X
X % 2
X // 2
X / X
X - X
X + X
X * X
-X
abs(X)
X @ X
X > X
X == 2
X.__rtruediv__(2)
X.__rpow__(2)
X.__itruediv__(2)
X.__ipow__(2)
X.__iadd__(X)
X.__imul__(X)
X[0]
X[X > 1]
X[I]
X.clone().__setitem__(0, X[1])
torch.rsub(X, 2)
torch.pow(2, X)
torch.cat([X, X])
torch.stack([X, X])
torch.hstack([X, X])
torch.vstack([X, X])
torch.column_stack([X, X])
torch.where(X > 1, X, X)
torch.where(X > 1, X, 0.)
torch.lerp(X, X, 0.5)
torch.lerp(X, X, X)
torch.sum(X, 0)
torch.sum(X, dtype=torch.float16)
torch.prod(X, 0)
torch.prod(X, dtype=torch.float16)
torch.cumsum(X, 0, dtype=torch.float16)
torch.cumprod(X, 0, dtype=torch.bfloat16)
torch.softmax(X, 0, dtype=torch.float16)
F.log_softmax(X, 0, dtype=torch.float64)
F.softmin(X, 0, dtype=torch.float16)
torch.mean(X, 0)
torch.std(X, 0)
torch.var(X, 0)
torch.norm(X, 2, 0)
torch.norm(X, 1)
torch.norm(X, float('inf'))
X.norm(dim=1, keepdim=True)
X.sum_to_size(1, 4)
X.square()
X.square_()
X.exp_()
X.logsumexp(0)
torch.max(X, 0)
torch.min(X, X)
torch.sort(X)
torch.topk(X, 2)
torch.clamp(X, X, X)
torch.clamp(X, 0, 1)
torch.addcmul(X, X, X, value=2)
torch.addcdiv(X, X, X)
torch.addmm(X, X, X, beta=0.5)
torch.einsum('ij,jk->ik', X, X)
torch.einsum('ij->j', X)
torch.inner(X, X)
torch.inner(X[0], X)
torch.einsum('ij,ij->', X, X)
torch.tensordot(X, X, 1)
torch.matmul(X, X[0])
torch.matmul(X[0], X[0])
torch.matmul(X[0], X)
torch.linalg.matmul(X, X)
torch.linalg.multi_dot([X, X, X])
torch.linalg.matrix_power(X, 3)
torch.linalg.norm(X)
torch.linalg.norm(X, 1)
torch.linalg.vector_norm(X)
torch.linalg.vector_norm(X, 1, dim=0)
torch.linalg.matrix_norm(X)
torch.linalg.cross(X[:, :3], X[:, :3])
torch.linalg.vecdot(X, X)
torch.linalg.diagonal(X)
torch.linalg.inv(X)
torch.linalg.det(X)
torch.linalg.solve(X, X)
torch.linalg.cholesky(X)
torch.linalg.qr(X)
torch.linalg.svd(X)
torch.linalg.eigh(X)
torch.cdist(X, X)
torch.cdist(X, X, p=1.)
torch.cdist(X, X, p=float('inf'))
F.pdist(X)
torch.dist(X, X, 1)
F.gelu(X, approximate='tanh')
F.dropout(X, 0.5)
F.embedding(I, X)
F.linear(X, X)
F.linear(X, X, X[0])
F.linear(X[0], X)
F.scaled_dot_product_attention(X[None, None], X[None, None], X[None, None])
F.scaled_dot_product_attention(X[None, None], X[None, None], X[None, None], is_causal=True)
F.scaled_dot_product_attention(X[None, None], X[None, None], X[None, None], attn_mask=X)
F.scaled_dot_product_attention(X[None, None], X[None, None], X[None, None], attn_mask=X > 1)
F.gumbel_softmax(X)
F.rrelu(X, training=True)
F.batch_norm(X, X[0], X[1], X[2], X[3], training=True)
F.layer_norm(X, (4,), X[0], X[1])
F.group_norm(X, 2, X[0], X[1])
F.instance_norm(X[None], weight=X[0], bias=X[1])
F.rms_norm(X, (4,), X[0])
F.interpolate(X[None], scale_factor=2, mode='linear')
F.interpolate(X[None, None], scale_factor=2, mode='bilinear')
F.interpolate(X[None, None], scale_factor=2, mode='bicubic')
F.interpolate(X[None, None], scale_factor=2, mode='area')
F.interpolate(X[None, None], scale_factor=2)
F.interpolate(X[None, None], scale_factor=2, mode='nearest-exact')
F.interpolate(Y(1, 1, 2, 2, 2), scale_factor=2, mode='trilinear')
F.interpolate(Y(1, 1, 2, 2, 2), size=1, mode='area')
F.grid_sample(X[None, None], Y(1, 2, 2, 2))
F.affine_grid(Y(1, 2, 3), (1, 1, 2, 2))
F.conv2d(Y(1, 2, 4, 4), Y(3, 2, 3, 3), Y(3))
F.conv2d(Y(1, 2, 4, 4), Y(3, 2, 3, 3), padding='same')
F.conv1d(Y(1, 2, 4), Y(3, 2, 3), padding='same')
F.conv_transpose2d(Y(1, 2, 4, 4), Y(2, 3, 3, 3), Y(3))
F.adaptive_avg_pool2d(Y(1, 2, 4, 4), 2)
F.adaptive_max_pool2d(Y(1, 2, 4, 4), 2, return_indices=True)
F.cross_entropy(X, I)
F.cross_entropy(X, X)
F.cross_entropy(X, I, X[0])
F.cross_entropy(X, I, label_smoothing=0.1)
F.nll_loss(X, I, X[0])
F.mse_loss(X, X, reduction='none')
F.mse_loss(X, X, weight=X)
F.l1_loss(X, X, reduction='none')
F.l1_loss(X, X, weight=X)
F.huber_loss(X, X, weight=X)
F.smooth_l1_loss(X, X, reduction='none')
F.huber_loss(X, X, reduction='none')
F.kl_div(X, X, reduction='none')
F.kl_div(X, X, log_target=True)
F.binary_cross_entropy(X.clamp(0, 1), X.clamp(0, 1))
F.binary_cross_entropy_with_logits(X, X, X, pos_weight=X)
F.binary_cross_entropy_with_logits(X, X, reduction='none')
F.gaussian_nll_loss(X, X, X)
F.gaussian_nll_loss(X, X, X, full=True)
F.poisson_nll_loss(X, X, log_input=False)
F.poisson_nll_loss(X, X, full=True)
F.multilabel_soft_margin_loss(X, X, X[0])
F.multi_margin_loss(X, I, weight=X[0])
F.triplet_margin_loss(X, X, X, p=1.)
F.triplet_margin_with_distance_loss(X, X, X)
F.cosine_embedding_loss(X, X, X[0])
F.cosine_similarity(X, X, 0)
F.pairwise_distance(X, X, 1.)
F.normalize(X, 1.)
F.local_response_norm(X[None], 2)
F.local_response_norm(X[None, None], 2)
F.embedding_bag(I, X, torch.zeros(1).long())
F.pad(X, (1, 1))
F.pad(X[None], (1, 1), mode='reflect')
F.pad(Y(1, 2, 2, 2), (1, 1) * 3, mode='reflect')
F.pad(Y(1, 2, 2, 2), (1, 1) * 3, mode='replicate')
F.pad(X[None], (1, 1), mode='circular')
F.unfold(X[None, None], 2)
F.fold(X[None], 3, 2)
F.max_pool2d(X[None, None], 2, return_indices=True)
F.avg_pool2d(X[None, None], 2)
F.lp_pool1d(X[None], 3., 2)
F.one_hot(I, 4)
F.glu(X)
F.prelu(X, X[0])
F.hardtanh(X)
F.logsigmoid(X)
X.index_put((I,), X)
X.index_put((I,), X, accumulate=True)
X.clone().index_put_((I,), X)
X.index_add(0, I, X)
X.index_copy(0, I, X)
X.index_fill(0, I, 2.)
X.index_reduce(0, I, X, 'prod')
X.scatter(0, I[None], X)
X.scatter_add(0, I[None], X)
X.scatter_reduce(0, I[None], X, 'sum')
X.clone().scatter_add_(0, I[None], X)
X.masked_fill(X > 1, 2.)
X.masked_scatter(X > 1, X)
X.put_(I, X[0])
X.to(torch.float64)
X.double() @ X.double()
X.int().sum()
X.int() / 2
X.int() @ X.int()
X.int().exp()
X.bool().sum()
I.exp()
I.pow(2)
I.prod()
torch.zeros_like(X)
torch.rand_like(X)
torch.bernoulli(X.clamp(0, 1))
torch.multinomial(X, 1)
torch.normal(X, X)
torch.histc(X)
torch.bincount(I, X[0])
torch.searchsorted(X, X)
torch.bucketize(X, X[0])
torch.cov(X)
torch.corrcoef(X)
torch.quantile(X, X[0, 0].clamp(0, 1))
torch.quantile(X, 0.5, 0)
torch.logit(X)
torch.sinc(X)
torch.allclose(X, X)
torch.equal(X, X)
torch.nn.utils.clip_grad_norm_([nn.Parameter(X)], 1.)
torch.utils.checkpoint.checkpoint(lambda a: a @ a, X, use_reentrant=False)
nn.Linear(4, 3)(X)
nn.Linear(4, 3).half()(X)
nn.Linear(4, 3).double()(X)
nn.Bilinear(4, 4, 3)(X, X)
nn.Conv2d(2, 3, 3)(Y(1, 2, 4, 4))
nn.Conv2d(2, 3, 3, padding=1, padding_mode='circular')(Y(1, 2, 4, 4))
nn.ConvTranspose1d(2, 3, 3)(Y(1, 2, 4))
nn.BatchNorm1d(4)(X)
nn.BatchNorm1d(4).eval()(X)
nn.BatchNorm1d(4).half()(X)
nn.BatchNorm2d(2)(Y(1, 2, 4, 4))
nn.SyncBatchNorm(4)(X)
nn.LayerNorm(4)(X)
nn.LayerNorm(4).half()(X)
nn.GroupNorm(2, 4)(X)
nn.RMSNorm(4)(X)
nn.InstanceNorm1d(2, affine=True)(Y(1, 2, 4))
nn.Embedding(4, 3)(I)
nn.EmbeddingBag(4, 3)(I[None])
nn.PReLU()(X)
nn.Softmax(1)(X)
nn.CosineSimilarity()(X, X)
nn.PairwiseDistance()(X, X)
nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.LayerNorm(3), nn.Linear(3, 2))(X)
nn.LSTM(4, 3)(X)
nn.LSTM(4, 3, 2, bidirectional=True)(Y(2, 1, 4))
nn.GRU(4, 3)(X)
nn.RNN(4, 3)(X)
nn.RNN(4, 3, nonlinearity='relu')(X)
nn.LSTMCell(4, 3)(X)
nn.LSTMCell(4, 4)(X, (X, X))
nn.GRUCell(4, 3)(X)
nn.GRUCell(4, 4)(X, X)
nn.RNNCell(4, 3)(X)
nn.MultiheadAttention(4, 2)(Y(2, 1, 4), Y(2, 1, 4), Y(2, 1, 4))
nn.MultiheadAttention(4, 2, batch_first=True)(Y(2, 1, 4), Y(2, 1, 4), Y(2, 1, 4), need_weights=False)
nn.MultiheadAttention(4, 2, kdim=2, vdim=2)(Y(2, 1, 4), Y(2, 1, 2), Y(2, 1, 2))
nn.TransformerEncoderLayer(4, 2, 8)(Y(2, 1, 4))
nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()(Y(2, 1, 4))
nn.TransformerDecoderLayer(4, 2, 8)(Y(2, 1, 4), Y(2, 1, 4))
"""


class Rewriter(ast.NodeTransformer):
    """Puts _in(...) around what makes a tensor."""

    def visit_Call(self, node):
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) else ""
        space = node.func.value.id if name else ""
        makes = space == "torch" and name in FACTORIES and not any(k.arg in ("dtype", "device") for k in node.keywords)
        return ast.Call(ast.Name("_in", ast.Load()), [node], []) if makes else node


def compiled(code):
    """All statements but the last, and the last one as an expression: what it makes, without the attributes that only print."""
    *first, last = ast.parse(code.replace("; ", "\n")).body
    if not isinstance(last, ast.Expr):
        return None
    value = last.value
    while isinstance(value, ast.Attribute) and value.attr in ("shape", "dtype", "device"):
        value = value.value
    tree = [Rewriter().visit(n) for n in first], Rewriter().visit(value)
    module, expression = ast.Module(tree[0], []), ast.Expression(tree[1])
    return [compile(ast.fix_missing_locations(n), "<case>", how) for n, how in ((module, "exec"), (expression, "eval"))]


def cases():
    with open(EXAMPLES, encoding="utf-8") as table:
        rows = [line.split(" | ") for line in table if " | " in line and not line.startswith("#")]
    out = {}
    for name, code, *_ in rows:
        if not any(word in name + code for word in NO_CASES):
            out[name] = code.rstrip(" |\n")
    out.update((line, line) for line in OPERATORS.strip().split("\n"))
    return out


class Case:
    def __init__(self, code, device):
        self.code, self.device, self.floats, self.whole = compiled(code), device, 0, 0

    def run(self, types, count):
        """The letters of the results. types: of the float tensors in turn; count: how many whole-number tensors are floats instead."""
        made, ints = [], []

        def cast(t):
            if not isinstance(t, torch.Tensor):
                return t
            floating = t.dtype == torch.float32
            if t.dtype == torch.int64:
                ints.append(1)
                floating = len(ints) <= count
            if not floating:
                return t
            made.append(1)
            return t.detach().to(types[min(len(made), len(types)) - 1]).requires_grad_(t.requires_grad)

        def shaped(*shape):
            return cast(torch.ones(shape) + 0.25)

        class Names(dict):
            def __missing__(self, name):
                if name == "X":
                    return cast(torch.eye(4) + 0.25)
                if name == "I":
                    return torch.arange(4)
                raise KeyError(name)

        space = Names(torch=torch, F=F, nn=nn, _in=cast, Y=shaped, float=float, abs=abs, ValueError=ValueError)
        try:
            with torch.device(self.device):
                exec(self.code[0], space)
                result = eval(self.code[1], space)
        except Exception:
            return "!"
        finally:
            self.floats, self.whole = len(made), len(ints)
        return "".join(letters(result))


def letters(result):
    if isinstance(result, torch.Tensor):
        yield {torch.float32: "f", torch.float64: "d", torch.float16: "h", torch.bfloat16: "b", torch.bool: "t"}.get(result.dtype, "i")
    elif isinstance(result, (tuple, list)) and not isinstance(result, torch.Size):
        for one in result:
            yield from letters(one)
    else:
        yield "n"


@contextlib.contextmanager
def autocast(kind, low):
    was = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    torch.set_autocast_cache_enabled(False)  # it is emptied by `with torch.autocast`, which has no CUDA to use here
    torch.set_autocast_enabled(kind, True)
    torch.set_autocast_dtype(kind, low)
    try:
        yield
    finally:
        torch.set_autocast_enabled(kind, was[0])
        torch.set_autocast_dtype(kind, was[1])
        torch.set_autocast_cache_enabled(True)


def answers(code, kind, count=0):
    case = Case(code, kind)
    for low, other in ((torch.float16, torch.bfloat16), (torch.bfloat16, torch.float16)):
        types = {"f": torch.float32, "l": low, "o": other, "d": torch.float64}
        for mix in MIXES:
            if len(mix) > 1 and case.floats < 2:
                continue
            with autocast(kind, low):
                yield case.run([types[m] for m in mix], count)


def table(kind, counts):
    for name, code in cases().items():
        if compiled(code) is not None:
            count = counts.get(name, 0)
            yield f"{kind} | {name} | {count} | {' '.join(answers(code, kind, count))}"


def floats_of(code):
    """How many of the case's whole-number tensors are made floats: all, else the first alone, where there is no other float."""
    case = Case(code, "cpu")
    case.run([torch.float32], 0)
    if case.floats:
        return 0
    return next((n for n in (case.whole, 1) if n and case.run([torch.float32], n) != "!"), 0)


def stored():
    with gzip.open(TABLE, "rt", encoding="utf-8") as table_file:
        return [line.rstrip("\n").split(" | ") for line in table_file]


@contextlib.contextmanager
def accelerator():
    """A device of type cuda: a real or simulated one, else PyTorch's fake tensors."""
    if torch.cuda.is_available():
        yield
        return
    import logging
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    logging.disable()
    torch._dynamo.config.capture_scalar_outputs = True
    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)):
        yield


def main():
    warnings.simplefilter("ignore")
    if "--write" in sys.argv:
        counts = {name: floats_of(code) for name, code in cases().items() if compiled(code)}
        lines = list(table("cpu", counts))
        with accelerator():
            lines += table("cuda", counts)
        with open(TABLE, "wb") as out:
            out.write(gzip.compress(("\n".join(lines) + "\n").encode(), 9, mtime=0))
        print(len(lines), "cases")
        return
    counts = {name: int(count) for _, name, count, _ in stored()}
    for kind in ("cpu", "cuda"):
        for line in table(kind, counts):
            print(line)


if __name__ == "__main__":
    main()
