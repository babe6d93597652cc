"""What programs see of tensors: printed forms, types, errors, devices. One line of Python each, run by PyTorch (make_facts.py
writes its answers to python_facts.json.gz) and by Facula (tests/python/test_facts.py compares).

An answer is the text of the value, or the class and first sentence of the error; warnings are noted too. Lines that Facula
answers otherwise on purpose stand in DIFFERS, each with its reason: the test fails when they agree again.
"""
import re
import warnings

PRINTING = """
torch.tensor([1, 2, 3])
torch.tensor([1, -20, 300])
torch.tensor(5)
torch.tensor(5.)
torch.tensor(3.14159265)
torch.tensor(True)
torch.tensor([True, False])
torch.tensor([True, True])
torch.tensor([])
torch.zeros(0, 3)
torch.tensor([], dtype=torch.int64)
torch.tensor([], dtype=torch.bool)
torch.zeros(2, 0, dtype=torch.int32)
torch.tensor([1., 2., 3.])
torch.tensor([1., 2.5])
torch.tensor([-1.5, 2.25])
torch.tensor([1e-5, 1.])
torch.tensor([1e-4, 1.])
torch.tensor([1e-3, 1.])
torch.tensor([99999., 1.])
torch.tensor([1e8])
torch.tensor([123456789.])
torch.tensor([1., 1000.])
torch.tensor([1., 1001.5])
torch.tensor([0., 0.])
torch.tensor([-0.])
torch.tensor([nan, 1.])
torch.tensor([inf, -inf, nan])
torch.tensor([inf, 1.5])
torch.tensor([nan, 100000., 3.])
torch.tensor([1e38, 1e-38, -1.])
torch.tensor([1e-45])
torch.tensor(nan)
torch.tensor(-inf)
torch.tensor(1e-8)
torch.tensor(1234567.)
torch.tensor(1e9)
torch.tensor([1., 2.], dtype=torch.float64)
torch.tensor([.1, .2], dtype=torch.float16)
torch.tensor([.1, .2], dtype=torch.bfloat16)
torch.tensor([1000.5, 2.25], dtype=torch.bfloat16)
torch.tensor([1, 2], dtype=torch.uint8)
torch.tensor([1, 2], dtype=torch.int8)
torch.tensor([1, 2], dtype=torch.int16)
torch.tensor([1, 2], dtype=torch.int32)
torch.tensor([2**40, 1])
torch.tensor([-2**63])
torch.tensor([0.99999])
torch.tensor([1.99999999])
torch.tensor([12345.678])
torch.tensor([[1.5, -2], [nan, 1e7]])
torch.arange(1001)
torch.arange(1000)
torch.arange(1001.)
torch.arange(40)
torch.arange(6.).reshape(2, 3)
torch.zeros(1001, 2)
torch.arange(8.).reshape(2, 2, 2) / 3
torch.arange(2000.).reshape(40, 50)
torch.arange(1320).reshape(11, 10, 12)
torch.arange(20000).reshape(10, 10, 10, 20)
torch.zeros(1, 1, 1, 1, 1)
torch.zeros(2, 0, 3)
torch.ones(3).expand(2, 3)
torch.arange(12).reshape(3, 4).t()
torch.arange(0., 3., 0.25)
torch.linspace(-1, 1, 30)
torch.tensor([1., 2.], requires_grad=True)
torch.tensor([1., 2.], requires_grad=True) * 2
(torch.tensor([1., 2.], requires_grad=True) * 2).sum()
torch.tensor([1., 2.], dtype=torch.float64, requires_grad=True).exp()
torch.zeros(0, requires_grad=True)
torch.arange(1001., requires_grad=True)
torch.ones(2, requires_grad=True)[0]
torch.ones(2, 2, requires_grad=True).t()
torch.ones(2, 2, requires_grad=True) @ torch.ones(2, 2)
torch.ones(30, dtype=torch.float64)
torch.ones(30, requires_grad=True) + 1
torch.ones(31, dtype=torch.float16)
torch.tensor([1.5]).detach()
torch.nn.Parameter(torch.tensor([1., 2.]))
torch.nn.Parameter(torch.tensor([1., 2.]), requires_grad=False)
torch.zeros(2, 3).shape
torch.Size([])
torch.Size([2, 3])[1:]
torch.Size([2]) + torch.Size([3])
torch.half
torch.long
torch.float
torch.double
torch.uint8
torch.strided
torch.channels_last
torch.contiguous_format
f'{torch.tensor(1.5)}'
f'{torch.tensor(1.23456):.3f}'
f'{torch.tensor([1.5])}'
f'{torch.tensor([1.5]):.3f}'
f'{torch.tensor(7):4d}'
'%d' % torch.tensor(2)
'%s' % torch.tensor(2)
'%.2f' % torch.tensor(2.5)
[torch.tensor(1), torch.tensor([2.])]
{'a': torch.tensor(1)}
(torch.tensor(1.), None)
torch.max(torch.tensor([[3.]]), 1)
torch.tensor([3., 1.]).sort()
torch.tensor([[3., 1.]]).topk(1)
torch.tensor([3., 1.]).median(0)
torch.tensor([3., 1.]).mode()
torch.tensor([3., 1.]).kthvalue(1)
torch.tensor([3., 1.]).cummax(0)
torch.tensor([3., 1.]).aminmax()
torch.finfo(torch.float32)
torch.finfo(torch.float16)
torch.finfo(torch.bfloat16)
torch.finfo(torch.float64)
torch.iinfo(torch.int8)
torch.iinfo(torch.uint8)
torch.iinfo(torch.int64)
str(torch.tensor([1.5]))
torch.tensor([1.5]).__repr__()
torch.set_printoptions(precision=2) or torch.tensor([1., 2.345])
torch.set_printoptions(precision=2, sci_mode=True) or torch.tensor([1., 2.345])
torch.set_printoptions(precision=2, sci_mode=False) or torch.tensor([1e-8, 1.])
torch.set_printoptions(threshold=5, edgeitems=1) or torch.arange(6)
torch.set_printoptions(threshold=5, edgeitems=1) or torch.arange(12).reshape(3, 4)
torch.set_printoptions(profile='short') or torch.arange(1001)
torch.set_printoptions(profile='short') or torch.tensor([1.23456])
torch.set_printoptions(profile='full') or torch.arange(1001).numel()
torch.set_printoptions(linewidth=40) or torch.arange(20)
torch.set_printoptions(linewidth=40) or torch.arange(20., requires_grad=True)
torch.set_printoptions(edgeitems=0, threshold=1) or torch.arange(20)
torch.set_printoptions(profile='nothing') or torch.tensor([1.23456])
torch.nn.Linear(2, 3)
torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Linear(2, 1)))
torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), torch.nn.ReLU()])
torch.nn.Sequential()
torch.nn.ModuleList()
torch.nn.Module()
torch.nn.ParameterList([torch.ones(2)])
torch.nn.Conv1d(1, 2, 3)
torch.nn.Conv2d(1, 2, 3)
torch.nn.Conv2d(4, 8, (3, 5), 2, 1, 2, 2, False, 'reflect')
torch.nn.Conv2d(1, 2, 3, padding='same')
torch.nn.ConvTranspose2d(4, 8, 3, output_padding=1, stride=2)
torch.nn.Bilinear(2, 3, 4)
torch.nn.BatchNorm2d(4)
torch.nn.LayerNorm(4)
torch.nn.RMSNorm(4)
torch.nn.GroupNorm(2, 4)
torch.nn.InstanceNorm2d(4)
torch.nn.LocalResponseNorm(2)
torch.nn.Dropout(.1)
torch.nn.ReLU(inplace=True)
torch.nn.LeakyReLU(.1)
torch.nn.PReLU()
torch.nn.ELU()
torch.nn.GELU()
torch.nn.Softplus()
torch.nn.Hardtanh()
torch.nn.Softmax(dim=1)
torch.nn.Softmax()
torch.nn.LogSoftmax(-1)
torch.nn.GLU()
torch.nn.Threshold(.1, 20)
torch.nn.MaxPool2d(2)
torch.nn.AvgPool2d(2)
torch.nn.AvgPool1d(2)
torch.nn.AdaptiveAvgPool2d((2, None))
torch.nn.LPPool2d(2, 3)
torch.nn.Flatten()
torch.nn.Unflatten(1, (2, 3))
torch.nn.Embedding(10, 3, padding_idx=1, max_norm=2.)
torch.nn.EmbeddingBag(10, 3, mode='sum')
torch.nn.LSTM(2, 3, num_layers=2, batch_first=True, dropout=.1, bidirectional=True)
torch.nn.GRU(2, 3, bias=False)
torch.nn.LSTM(2, 3, proj_size=1)
torch.nn.RNNCell(2, 3, nonlinearity='relu')
torch.nn.MultiheadAttention(4, 2)
torch.nn.Upsample(scale_factor=2.)
torch.nn.Upsample(size=(4, 4), mode='bilinear')
torch.nn.ZeroPad2d(1)
torch.nn.ConstantPad1d(2, 3.5)
torch.nn.ReflectionPad2d((1, 2, 3, 4))
torch.nn.PixelShuffle(2)
torch.nn.Fold((4, 4), 2)
torch.nn.Unfold(2)
torch.nn.MSELoss()
torch.nn.CrossEntropyLoss()
torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=.1)
torch.optim.Adam([torch.ones(1, requires_grad=True)])
torch.optim.AdamW([torch.ones(1, requires_grad=True)])
torch.optim.RMSprop([torch.ones(1, requires_grad=True)])
torch.optim.Adagrad([torch.ones(1, requires_grad=True)])
torch.optim.Adadelta([torch.ones(1, requires_grad=True)])
torch.optim.NAdam([torch.ones(1, requires_grad=True)])
torch.optim.Rprop([torch.ones(1, requires_grad=True)])
torch.optim.LBFGS([torch.ones(1, requires_grad=True)])
torch.set_grad_enabled(True)
torch.device('cuda', 1)
"""

TYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
PROMOTION = [f"torch.promote_types(torch.{a}, torch.{b})" for a in TYPES for b in TYPES]
PROMOTION += [f"(torch.ones(2, dtype=torch.{a}) + {b}).dtype" for a in TYPES for b in
              ("True", "1", "1.0", "torch.tensor(1)", "torch.tensor(1.0, dtype=torch.float64)", "torch.tensor(True)",
               "torch.tensor(1, dtype=torch.int8)", "torch.tensor(1., dtype=torch.float16)")]
PROMOTION += [f"{f}(torch.ones(2, dtype=torch.{a})).dtype" for a in TYPES for f in
              ("torch.exp", "torch.sum", "torch.prod", "torch.mean", "torch.std", "torch.abs", "torch.neg", "torch.argmax", "torch.sqrt",
               "torch.sigmoid", "torch.relu", "torch.floor", "torch.round", "torch.logical_not", "torch.bitwise_not", "torch.isnan",
               "torch.sign", "torch.square", "torch.median", "torch.amax", "torch.any", "torch.all", "torch.count_nonzero",
               "(lambda x: torch.cumsum(x, 0))", "(lambda x: x / x)", "(lambda x: x // x)", "(lambda x: x % x)", "(lambda x: x ** 2)",
               "(lambda x: x ** 2.)", "(lambda x: x - x)", "(lambda x: x * x)", "(lambda x: x < x)", "(lambda x: x & x)", "(lambda x: x @ x)",
               "(lambda x: torch.softmax(x, 0))", "(lambda x: 2 / x)", "(lambda x: 2 - x)", "(lambda x: torch.where(x > 0, x, 0))",
               "(lambda x: torch.cat([x, torch.ones(1)]))", "(lambda x: torch.stack([x, x]))", "(lambda x: torch.clamp(x, 0, 1))",
               "(lambda x: torch.clamp(x, 0.5))", "(lambda x: torch.maximum(x, torch.ones(2)))", "(lambda x: x.to(torch.uint8))")]
PROMOTION += [f"torch.can_cast(torch.{a}, torch.{b})" for a in ("float32", "int64", "bool", "uint8") for b in TYPES]
PROMOTION += [f"torch.result_type(torch.ones(2, dtype=torch.{a}), {b})" for a in ("bool", "int8", "float16") for b in ("1", "1.", "True", "torch.ones(1)")]

SEMANTICS = """
torch.tensor([100, 100], dtype=torch.int8) + torch.tensor(300)
torch.tensor([1, 2], dtype=torch.uint8) + (-1)
torch.tensor([-7]) // 2
torch.tensor([-7]) % 3
torch.tensor([7]) % -3
torch.fmod(torch.tensor([-7]), 3)
torch.tensor([1.]) / 0
torch.tensor([1]) / 0
torch.tensor([1]) // 0
torch.tensor([1]) % 0
torch.tensor([2]) ** -1
torch.tensor([2]) ** -1.0
torch.tensor([1]).mul_(1.5)
torch.tensor([1]).add_(torch.tensor([1.5]))
torch.tensor([True]) - torch.tensor([True])
-torch.tensor([True])
torch.tensor([True]) - 1
1 - torch.tensor([True])
~torch.tensor([1.])
torch.tensor([True]) + torch.tensor([True])
torch.mm(torch.ones(2, 2), torch.ones(2, 2).double())
torch.ones(2, 2) @ torch.ones(2, 2).double()
torch.bmm(torch.ones(1, 2, 2), torch.ones(1, 2, 2).double())
torch.addmm(torch.ones(2, 2), torch.ones(2, 2).double(), torch.ones(2, 2))
torch.nn.functional.linear(torch.ones(2, 2).double(), torch.ones(2, 2))
torch.mean(torch.ones(2, dtype=torch.int64))
torch.std(torch.ones(2, dtype=torch.int64))
torch.softmax(torch.ones(2, dtype=torch.int32), 0)
torch.add(torch.tensor([1]), torch.tensor([1]), alpha=1.5)
torch.where(torch.tensor([1]), torch.tensor([1]), torch.tensor([1]))
torch.ones(2).masked_fill(torch.tensor([1, 0]), 2)
torch.tensor([nan]).int()
torch.tensor([3e9]).int()
torch.tensor([300.]).byte()
torch.tensor([-1.]).byte()
torch.tensor([1.9, -1.9]).long()
torch.tensor([.5, 1.5, 2.5, -.5]).round()
torch.tensor([300], dtype=torch.uint8)
torch.tensor([-1], dtype=torch.uint8)
torch.tensor(2**63)
torch.tensor(1.5, dtype=torch.int32)
torch.tensor([1., nan, 3.]).max()
torch.tensor([1., nan, 3.]).argmax()
torch.tensor([1., nan, 3.]).sort()
torch.tensor([nan]).sign()
torch.tensor([1, 3, 3]).argmax()
torch.tensor([[1, 3, 3]]).max(1)
torch.tensor([2, 2, 1, 1]).mode()
torch.tensor([4, 1, 3, 2]).median()
torch.ones(3) + torch.ones(4)
torch.ones(2, 3) * torch.ones(2)
torch.ones(3).add_(torch.ones(2, 3))
torch.ones(3).expand(2, 4)
torch.ones(2, 3).expand(3)
torch.broadcast_shapes((3,), (3, 2))
torch.ones(2, 3).t().view(6)
torch.ones(6).view(4)
torch.ones(6).reshape(4)
torch.ones(6).view(-1, -1)
torch.ones(6).view(2, -2)
torch.ones(0).view(-1, 0)
torch.ones(2, 3).view(torch.float64)
torch.ones(2, 3).t().view(torch.int16)
torch.ones(2, 3).view(torch.int32)
torch.ones(2, 3).sum(2)
torch.ones(2, 3).unsqueeze(4)
torch.ones(2, 3).transpose(0, 5)
torch.tensor(1.).sum(1)
torch.ones(2)[2]
torch.ones(2, 3)[0, 0, 0]
torch.tensor(1.)[0]
torch.ones(2)[1.5]
torch.ones(2)[torch.tensor([1.])]
torch.ones(5)[torch.tensor([True, False])]
torch.ones(4, 4)[torch.tensor([0, 1]), torch.tensor([0, 1, 2])]
torch.ones(2)['a']
torch.ones(2)[::-1]
torch.ones(2)[None, ..., None].shape
torch.ones(2, 3)[..., ...]
torch.ones(2, 3)[True].shape
torch.ones(2, 3)[False].shape
torch.ones(2, 3)[[0, 1], [1, 2]]
torch.ones(2, 3)[[5]]
torch.ones(2, 3).select(0, 5)
torch.ones(2).narrow(0, 1, 5)
torch.gather(torch.ones(2, 2), 1, torch.tensor([[0, 2]]))
torch.gather(torch.ones(2, 2), 1, torch.tensor([0]))
torch.gather(torch.ones(2, 2), 1, torch.tensor([[0.]]))
torch.ones(2).index_select(0, torch.tensor([5]))
torch.nn.functional.embedding(torch.tensor([5]), torch.ones(2, 2))
torch.ones(3).take(torch.tensor([5]))
torch.ones(0).max()
torch.ones(0).argmax()
torch.ones(0, 3).max(0)
torch.ones(2, 2).sum((0, 0))
torch.ones(0).sum()
torch.ones(0).prod()
torch.ones(0).any()
torch.ones(0).all()
torch.ones(0).mean()
torch.ones(6).item()
bool(torch.ones(2))
bool(torch.ones(0))
float(torch.ones(2))
int(torch.ones(2))
range(3)[torch.tensor(1)]
range(3)[torch.tensor(1.)]
len(torch.tensor(1))
list(torch.tensor(1))
torch.mm(torch.ones(2, 3), torch.ones(2, 3))
torch.ones(2, 3) @ torch.ones(2, 3)
torch.mm(torch.ones(2), torch.ones(2, 3))
torch.bmm(torch.ones(2, 2), torch.ones(2, 2, 2))
torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 3, 4))
torch.mv(torch.ones(2, 3), torch.ones(4))
torch.dot(torch.ones(3), torch.ones(4))
torch.matmul(torch.tensor(1.), torch.ones(2))
torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 5))
torch.cat([])
torch.cat([torch.ones(2, 3), torch.ones(3, 4)])
torch.cat([torch.ones(3), torch.ones(3, 4)])
torch.cat([torch.ones(0), torch.ones(3, 4)]).shape
torch.stack([])
torch.stack([torch.ones(2), torch.ones(3)])
torch.ones(5).split([2, 2])
torch.ones(5).chunk(0)
torch.ones(2, 3).permute(0)
torch.ones(2, 3).permute(0, 0)
torch.ones(2, 3, 4).t()
torch.ones(2, 3, 4).T.shape
torch.ones(2, 3).repeat(2)
torch.ones(2).unfold(0, 3, 1)
torch.ones(2).as_strided((3,), (1,))
torch.ones(2).topk(5)
torch.ones(1).expand(3).add_(1)
torch.tensor([[1, 2], [3]])
torch.tensor('abc')
torch.tensor(None)
torch.tensor([None])
torch.tensor(torch.tensor(1))
torch.tensor([[1], 2])
torch.zeros(1.5)
torch.zeros('a')
torch.zeros(2, dtype='float32')
torch.zeros(2, dtype=float)
torch.zeros(-1)
torch.zeros(2, -1)
torch.arange(0, 5, 0)
torch.arange(5, 0, 1)
torch.linspace(0, 1, -1)
torch.eye(-1)
torch.full((2,), True)
torch.full((2,), 1)
torch.full((2,), 1.)
torch.sin(1.5)
torch.relu()
torch.ones(2, foo=1)
torch.ones(2) + 'a'
torch.ones(2) == None
torch.ones(2) == 'a'
torch.ones(2) != None
torch.ones(2) < 'a'
None + torch.ones(2)
torch.foo
torch.ones(2).foo
torch.from_numpy([1])
torch.set_default_dtype(torch.int32)
torch.ones(2, 3).flatten(1, 0)
torch.ones(4).unflatten(0, (3, 2))
torch.ones(2, 3).squeeze(5)
torch.ones(2, 3).swapaxes(0, 1).is_contiguous()
torch.ones(2) in [torch.ones(2)]
1 in torch.ones(2)
'a' in torch.ones(2)
hash(torch.ones(2)) == hash(torch.ones(2))
torch.ones(2, 3).size(5)
torch.ones(2, 3).stride()
torch.ones(2, 3).t().stride()
torch.ones(2, 3).numel()
torch.tensor([1, 2]).tolist()
torch.tensor([[True]]).tolist()
torch.tensor(2).tolist()
torch.tensor([1.5]).item()
type(torch.tensor(True).item())
torch.ones(2, 3).masked_select(torch.tensor([True, False, True]))
torch.ones(2).scatter(0, torch.tensor([5]), 1.)
torch.ones(2).index_add(0, torch.tensor([5]), torch.ones(1))
torch.triu(torch.ones(2))
torch.bincount(torch.tensor([-1]))
torch.bincount(torch.tensor([1.]))
torch.nn.functional.one_hot(torch.tensor([5]), 3)
torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0, 3]))
torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0]))
torch.nn.functional.nll_loss(torch.ones(2, 3), torch.tensor([0, 1], dtype=torch.int32))
torch.nn.functional.mse_loss(torch.ones(2), torch.ones(2, 1))
torch.nn.functional.mse_loss(torch.ones(2), torch.ones(2), reduction='foo')
torch.nn.functional.mse_loss(torch.tensor([1., 5.]), torch.tensor([.5, 2.]), weight=torch.tensor([1., 3.]), reduction='mean')
torch.nn.functional.mse_loss(torch.tensor([1., 5.]), torch.tensor([.5, 2.]), weight=torch.tensor([1., 3.]), reduction='sum')
torch.nn.functional.mse_loss(torch.tensor([1., 5.]), torch.tensor([.5, 2.]), weight=torch.tensor([1., 3.]), reduction='none')
torch.nn.functional.mse_loss(torch.ones(2), torch.ones(2), weight=torch.ones(3))
torch.nn.functional.mse_loss(torch.ones(2), torch.zeros(2), weight=torch.ones(2).double())
torch.nn.functional.mse_loss(torch.ones(2, requires_grad=True), torch.zeros(2), weight=torch.tensor([1, 3]))
torch.nn.functional.l1_loss(torch.tensor([1., 5.]), torch.tensor([.5, 2.]), weight=torch.tensor([1., 3.]), reduction='mean')
torch.nn.functional.l1_loss(torch.tensor([1., 5.]), torch.tensor([.5, 2.]), weight=torch.tensor([1., 3.]), reduction='sum')
torch.nn.functional.l1_loss(torch.tensor([1., 5.]), torch.tensor([.5, 2.]), weight=torch.tensor([1., 3.]), reduction='none')
torch.nn.functional.l1_loss(torch.ones(2), torch.ones(2), weight=torch.ones(3))
torch.nn.functional.l1_loss(torch.ones(2), torch.zeros(2), weight=torch.ones(2).double())
torch.nn.functional.l1_loss(torch.ones(2, requires_grad=True), torch.zeros(2), weight=torch.tensor([1, 3]))
torch.nn.functional.huber_loss(torch.tensor([1., 5.]), torch.tensor([.5, 2.]), weight=torch.tensor([1., 3.]), reduction='mean')
torch.nn.functional.huber_loss(torch.tensor([1., 5.]), torch.tensor([.5, 2.]), weight=torch.tensor([1., 3.]), reduction='sum')
torch.nn.functional.huber_loss(torch.tensor([1., 5.]), torch.tensor([.5, 2.]), weight=torch.tensor([1., 3.]), reduction='none')
torch.nn.functional.huber_loss(torch.ones(2), torch.ones(2), weight=torch.ones(3))
torch.nn.functional.huber_loss(torch.ones(2), torch.zeros(2), weight=torch.ones(2).double())
torch.nn.functional.huber_loss(torch.ones(2, requires_grad=True), torch.zeros(2), weight=torch.tensor([1, 3]))
torch.addr(torch.ones(1, 1).half(), torch.ones(1), torch.ones(1))
torch.addr(torch.ones(1, 1), torch.ones(1).half(), torch.ones(1).double())
torch.normal(torch.ones(1).half(), torch.ones(1)).dtype
torch.normal(torch.ones(1), torch.ones(1).half()).dtype
torch.ones(2).layout
torch.inner(torch.ones(2), torch.ones(2).double())
torch.linalg.vecdot(torch.ones(3, 2), torch.ones(2))
torch.linalg.vecdot(torch.ones(3, 2), torch.ones(3, 2), dim=0)
torch.linalg.vecdot(torch.tensor([1., 2.]), torch.tensor([3., 4.]))
torch.nn.functional.conv2d(torch.ones(1, 2, 5, 5), torch.ones(4, 3, 3, 3))
torch.nn.functional.conv2d(torch.ones(1, 3, 2, 2), torch.ones(4, 3, 3, 3))
torch.nn.functional.conv2d(torch.ones(5, 5), torch.ones(4, 3, 3, 3))
torch.nn.functional.max_pool2d(torch.ones(1, 1, 1), 2)
torch.nn.functional.max_pool2d(torch.ones(1, 4, 4), 2, padding=2)
torch.nn.functional.layer_norm(torch.ones(2, 4), (3,))
torch.nn.functional.gelu(torch.ones(1), approximate='x')
torch.nn.functional.glu(torch.ones(3))
torch.nn.functional.softmax(torch.ones(2))
torch.nn.functional.dropout(torch.ones(2), 2.)
torch.nn.functional.huber_loss(torch.ones(2), torch.ones(2), delta=-1.)
torch.nn.functional.smooth_l1_loss(torch.ones(2), torch.ones(2), beta=-1.)
torch.nn.functional.binary_cross_entropy(torch.tensor([2.]), torch.tensor([1.]))
torch.nn.functional.binary_cross_entropy(torch.tensor([.5]), torch.tensor([[1.]]))
torch.nn.functional.binary_cross_entropy_with_logits(torch.tensor([.5]), torch.tensor([[1.]]))
torch.ones(2).uniform_(1, 0)
torch.ones(2).normal_(0, -1)
torch.ones(2).bernoulli_(2.)
torch.ones(2).exponential_(-1.)
torch.ones(2).random_(5, 5)
torch.bernoulli(torch.tensor([2.]))
torch.multinomial(torch.tensor([-1.]), 1)
torch.multinomial(torch.tensor([0.]), 1)
torch.multinomial(torch.tensor([1.]), 2)
torch.randint(5, 5, (1,))
torch.randperm(-1)
torch.manual_seed(2**64)
torch.manual_seed('a')
torch.manual_seed(-1).initial_seed()
torch.manual_seed(1.7).initial_seed()
torch.Generator().initial_seed()
torch.Generator().set_state(torch.zeros(10, dtype=torch.uint8))
torch.Generator().set_state(torch.zeros(5056, dtype=torch.uint8))
torch.Generator().set_state(torch.zeros(5056))
torch.get_rng_state().shape
torch.manual_seed(0).get_state()[:24].tolist()
torch.testing.assert_close(torch.ones(1), torch.ones(1) + 1)
torch.testing.assert_close(torch.ones(1), torch.ones(1).double())
torch.testing.assert_close(torch.ones(1), torch.ones(2))
torch.sum(torch.ones(2), 0, keepdim=1)
torch.topk(torch.ones(2), True)
torch.softmax(torch.ones(2), 'a')
torch.add(torch.ones(2), None)
torch.cat(torch.ones(2))
torch.cat([torch.ones(2), 1])
torch.full((2,), None)
torch.ones([True])
torch.zeros(True)
torch.ones(2).add(torch.ones(2), foo=1)
torch.ones(2).sum(foo=1)
torch.nn.functional.relu()
torch.sigmoid('a')
torch.matmul(torch.ones(2), 2)
torch.stack(torch.ones(2), 'a')
torch.ones(2).reshape('a')
torch.is_tensor(1)
torch.numel(1)
"""

AUTOGRAD = """
torch.ones(2, requires_grad=True).add_(1)
torch.ones(2, requires_grad=True)[0].add_(1)
(lambda x, e: (x.add_(1), e.backward()))(*(lambda y: (y, y.exp().sum()))(torch.ones(2, requires_grad=True).clone()))
(lambda y: (lambda e: (e.add_(1), e.sum().backward()))(y.exp()))(torch.ones(2, requires_grad=True))
torch.ones(4, requires_grad=True).clone().unbind()[0].add_(1)
torch.ones(4, requires_grad=True).clone().split(2)[0].add_(1)
torch.ones(2, requires_grad=True).backward()
torch.ones(1, 1, requires_grad=True).backward()
torch.ones(1).backward()
(lambda y: (y.backward(), y.backward()))(torch.ones(2, requires_grad=True).exp().sum())
(lambda y: (y.backward(), y.backward()))(torch.ones(2, requires_grad=True).sum())
torch.ones(2, requires_grad=True).mul(2).backward(torch.ones(3))
torch.autograd.grad(torch.ones(1, requires_grad=True).sum(), torch.ones(1, requires_grad=True))
torch.autograd.grad(torch.ones(1, requires_grad=True).sum(), torch.ones(1, requires_grad=True), allow_unused=True)
torch.autograd.grad(torch.ones(1, requires_grad=True).sum(), torch.ones(1, requires_grad=True), materialize_grads=True)
torch.ones(1, requires_grad=True).sum().backward(inputs=[])
torch.ones(2, requires_grad=True).mul(2).grad
torch.ones(2).retain_grad()
setattr(torch.ones(2, requires_grad=True).mul(2), 'requires_grad', False)
torch.ones(2, dtype=torch.int64).requires_grad_()
torch.ones(2, dtype=torch.int64, requires_grad=True)
torch.nn.Parameter(torch.ones(2, dtype=torch.int64))
setattr(torch.ones(2), 'grad', torch.ones(3))
setattr(torch.ones(2), 'grad', torch.ones(2).double())
setattr(torch.ones(2), 'grad', 1)
torch.add(torch.ones(2, requires_grad=True), 1, out=torch.ones(2))
torch.ones(2, requires_grad=True).clone()[0].detach_()
torch.ones(2, requires_grad=True).resize_(3)
copy.deepcopy(torch.ones(2, requires_grad=True).mul(2))
torch.ones(2).register_hook(print)
(lambda x: (x.register_hook(lambda g: 1), x.sum().backward()))(torch.ones(2, requires_grad=True))
(lambda x: (x.register_hook(lambda g: g[:1]), x.sum().backward()))(torch.ones(2, requires_grad=True))
float(torch.tensor(1., requires_grad=True))
torch.ones(2, requires_grad=True).mul(2).grad_fn.name()
torch.ones(2, requires_grad=True).exp().grad_fn
torch.ones(2, requires_grad=True).exp().grad_fn.next_functions[0][0].name()
torch.ones(2, requires_grad=True).exp().sum().grad_fn.next_functions[0][0].name()
torch.ones(2)._version
torch.ones(2).add_(1).add_(1)._version
(lambda x: (x[0].add_(1), x._version))(torch.ones(2))
(lambda x: (x.data.add_(1), x._version))(torch.ones(2))
(lambda x: (x.detach().add_(1), x._version))(torch.ones(2))
torch.inference_mode()(lambda: torch.ones(2))()._version
torch.inference_mode()(lambda: torch.ones(2))().add_(1)
torch.inference_mode()(lambda: torch.ones(2))().mul(torch.ones(2, requires_grad=True))
torch.inference_mode()(lambda: torch.ones(2))().requires_grad_()
torch.no_grad()(lambda: torch.ones(2, requires_grad=True).mul(2).requires_grad)()
torch.enable_grad()(lambda: torch.ones(2, requires_grad=True).mul(2).requires_grad)()
torch.ones(2, requires_grad=True).numpy()
torch.ones(2, requires_grad=True).detach().is_leaf
torch.ones(2, requires_grad=True).is_leaf
torch.ones(2, requires_grad=True).mul(1).is_leaf
torch.set_grad_enabled('x')
"""

DEVICES = """
torch.device('cuda')
torch.device('cuda:1')
torch.device('cuda', 1)
torch.device(type='cuda', index=1)
torch.device('cuda', index=1)
torch.device(device='cuda')
torch.device(torch.device('cuda:1'))
torch.device('cuda', None)
torch.device(b'cuda')
torch.device(1)
str(torch.device('cuda:1'))
f"{torch.device('cpu')}"
torch.device('cuda:1').type
torch.device('cuda:1').index
torch.device('cuda').index
setattr(torch.device('cpu'), 'type', 1)
torch.device('cpu').foo
torch.device('cuda') == torch.device('cuda:0')
torch.device('cpu') == torch.device('cpu:0')
torch.device('cuda:0') == 'cuda:0'
torch.device('cuda') < torch.device('cpu')
[hash(torch.device(d)) for d in ('cpu', 'cpu:0', 'cuda', 'cuda:0', 'cuda:1')]
bool(torch.device('cpu'))
torch.device('cuda').__reduce__()[1]
torch.device('cuda:1').__reduce__()[1]
pickle.loads(pickle.dumps(torch.device('cuda:1')))
copy.deepcopy(torch.device('cuda:1'))
torch.device('cuda:127')
torch.device('cuda:99999999999')
torch.device('')
torch.device('foo')
torch.device('CUDA')
torch.device('gpu')
torch.device('cuda:')
torch.device('cuda:-1')
torch.device('cuda:x')
torch.device('cuda:01')
torch.device('cuda:1:2')
torch.device('cuda: 1')
torch.device(' cuda')
torch.device('cuda1')
torch.device(':1')
torch.device('float32')
torch.device('3')
torch.device('cpu', -1)
torch.device(-1)
torch.device(-2)
torch.device('cuda:1', 0)
torch.device('cuda', '1')
torch.device(type='cuda', idx=1)
torch.device()
torch.device(1.0)
torch.device(None)
torch.device(True)
torch.device('mps:0')
torch.device('xpu')
torch.get_default_device()
torch.set_default_device('foo')
torch.set_default_dtype(int)
torch.ones(1).device
torch.ones(1, device='cpu:0').device
torch.ones(1, device='cpu:1').device
torch.ones(1, device=torch.device('cpu')).device
torch.ones(1, device=None).device
torch.ones(1).is_cuda, torch.ones(1).is_cpu, torch.ones(1).is_mps, torch.ones(1).is_xpu, torch.ones(1).is_meta
torch.ones(1).get_device()
torch.get_device(torch.ones(1))
torch.ones(1).type()
torch.ones(1, dtype=torch.int64).type()
torch.ones(1, dtype=torch.bool).type()
torch.ones(1).type('torch.DoubleTensor').dtype
torch.ones(1).type(torch.int32).dtype
torch.ones(1).type('foo')
(lambda x: x.to('cpu') is x)(torch.ones(1))
(lambda x: x.to() is x)(torch.ones(1))
(lambda x: x.to(None) is x)(torch.ones(1))
(lambda x: x.to(torch.float32) is x)(torch.ones(1))
(lambda x: x.to('cpu', copy=True) is x)(torch.ones(1))
(lambda x: x.float() is x)(torch.ones(1))
(lambda x: x.cpu() is x)(torch.ones(1))
torch.ones(1).to(float).dtype
torch.ones(1).to(int).dtype
torch.ones(1).to(bool).dtype
torch.ones(1).to(1.0).dtype
torch.ones(1).to(torch.ones(1).half()).dtype
torch.ones(1).to('cpu', torch.float64).dtype
torch.ones(1).to(dtype=torch.float64, device='cpu').dtype
torch.ones(1).to(torch.float64, True, True).dtype
torch.ones(1).to([1])
torch.ones(1).to(torch.float32, 'cpu')
torch.ones(1).to('cpu', foo=1)
torch.ones(1).to('float32')
torch.ones(1).to('foo')
torch.ones(1).to(memory_format=torch.channels_last)
torch.ones(1, requires_grad=True).to(torch.float64).grad_fn
torch.ones(1).cuda('cpu')
torch.ones(1).is_pinned()
torch.zeros(2, device=1.5)
torch.zeros(2, device=[1])
torch.ones(2, dtype=torch.float64).new_zeros(2).dtype
torch.ones(2, dtype=torch.float64).new_tensor([1]).dtype
torch.ones(2, dtype=torch.float64).new_ones(2, dtype=torch.int8).dtype
torch.ones(2).__cuda_array_interface__
torch.ones(2, dtype=torch.bfloat16).numpy()
torch.cuda.is_available()
torch.cuda.device_count()
torch.cuda.is_initialized()
torch.ones(1).cuda()
torch.ones(1).to('cuda')
torch.zeros(1, device='cuda')
torch.zeros(1, device=0)
torch.zeros(1, device='cuda:7')
torch.tensor([1], device='cuda')
torch.as_tensor([1], device='cuda')
torch.ones(1).new_zeros(1, device='cuda')
torch.nn.Linear(1, 1).cuda()
torch.nn.Linear(1, 1, device='cuda')
torch.cuda.memory_allocated()
torch.cuda.max_memory_allocated()
torch.cuda.memory_reserved()
torch.cuda.empty_cache()
torch.cuda.manual_seed(1)
torch.cuda.manual_seed_all(1)
torch.cuda.current_device()
torch.cuda.set_device(0)
torch.cuda.get_device_name()
torch.cuda.synchronize()
torch.cuda.set_device(-1)
torch.cuda.set_device('cpu')
torch.accelerator.is_available()
torch.accelerator.device_count()
torch.accelerator.current_accelerator()
"""

CASES = {name: [line for line in text.strip().split("\n")] if isinstance(text, str) else text for name, text in
         {"printing": PRINTING, "promotion": PROMOTION, "semantics": SEMANTICS, "autograd": AUTOGRAD, "devices": DEVICES}.items()}

DIFFERS = {line: reason for reason, lines in {
    "Facula's names of types": """
setattr(torch.ones(2), 'grad', torch.ones(2).double())
torch.ones(2).masked_fill(torch.tensor([1, 0]), 2)
""",
    "one sentence says what is wrong, where PyTorch lists all signatures": """
torch.ones(1).to('cpu', foo=1)
torch.ones(2).sum(foo=1)
""",
    "a type of C is named with its module by Python's operators": """
torch.ones(2) + 'a'
torch.ones(2) < 'a'
None + torch.ones(2)
""",
    "CUDA's array interface is not there; DLPack is": "torch.ones(2).__cuda_array_interface__",
    "without a device there is no accelerator, whatever was built": "torch.accelerator.current_accelerator()",
    "t is recorded as transpose": "torch.ones(2, 2, requires_grad=True).t()",
    "refused as by the other operators of numbers": """
torch.relu(torch.ones(2, dtype=torch.bool)).dtype
torch.square(torch.ones(2, dtype=torch.bool)).dtype
""",
    "products of matrices share one check": """
torch.bmm(torch.ones(1, 2, 2), torch.ones(1, 2, 2).double())
torch.nn.functional.linear(torch.ones(2, 2).double(), torch.ones(2, 2))
""",
    "the old way to index is gone, and so is its warning": "torch.ones(2)['a']",
    "all functions that make tensors share one check": """
torch.zeros(-1)
torch.zeros(2, -1)
""",
    "C prints 2, Python 2.0": "torch.nn.functional.dropout(torch.ones(2), 2.)",
    "a function of C, as torch.relu": "torch.nn.functional.relu()",
}.items() for line in lines.strip().split("\n")}


def first_sentence(text):
    """Up to the first full stop that ends a sentence, on the first line."""
    line = text.strip().split("\n")[0]
    end = re.search(r"\.(?=\s|$)", line)
    return (line[:end.start()] if end else line).rstrip(". ")


def shown(value):
    text = str(value) if isinstance(value, str) else repr(value)
    return re.sub(r"0x[0-9a-f]+", "0x", text).replace("facula.", "torch.")


def answer(line, torch):
    """[kind, text, warnings]: kind "value", or the name of the error's class."""
    import copy
    import pickle
    torch.set_printoptions(profile="default")
    torch.manual_seed(0)
    names = {"torch": torch, "nan": float("nan"), "inf": float("inf"), "copy": copy, "pickle": pickle}
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            found = ["value", shown(eval(line, names))]
        except Exception as error:
            found = [type(error).__name__, first_sentence(str(error)).replace("facula.", "torch.")]
        finally:
            torch.set_printoptions(profile="default")
            torch.set_default_dtype(torch.float32)
            torch.set_default_device(None)
    return found + [[first_sentence(str(w.message)).replace("facula.", "torch.") for w in noted if w.category is UserWarning]]
