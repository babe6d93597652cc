"""The type that operators give on the CPU, from float32 and from lower precision, without autocast and with it ("a>b" where that differs).

PyTorch's answers are kept in autocast.txt: `python3 tests/golden/autocast_cases.py > tests/golden/autocast.txt` with PyTorch.
tests/python/test_amp.py asks Facula.
"""
import warnings

import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")
cases = {}


def mk(*shape):
    return torch.rand(*shape) + 0.1


def add(name, function, *args):
    cases[name] = function, args


x=mk(2,3,8,8)
m=mk(4,4); v=mk(4); b=mk(2,4,4)
for n in "acos asin cosh erfinv exp expm1 log log10 log1p log2 reciprocal rsqrt sinh tan sqrt sigmoid tanh".split(): add(n,getattr(torch,n),m*0.9-0.05)
add('pow',lambda a:torch.pow(a,2.5),m)
add('softplus',F.softplus,m)
add('gelu',F.gelu,m)
add('matmul',torch.matmul,m,m)
add('mm',torch.mm,m,m)
add('bmm',torch.bmm,b,b)
add('mv',torch.mv,m,v)
add('dot',torch.dot,v,v)
add('outer',torch.outer,v,v)
add('addmm',torch.addmm,m,m,m)
add('baddbmm',torch.baddbmm,b,b,b)
add('addbmm',torch.addbmm,m,b,b)
add('addmv',torch.addmv,v,m,v)
add('addr',torch.addr,m,v,v)
add('tensordot',lambda a,c:torch.tensordot(a,c,1),m,m)
add('inner',torch.inner,m,m)
add('kron',torch.kron,m,m)
add('cross',lambda a,c:torch.cross(a,c,dim=0),mk(3,2),mk(3,2))
add('dist',torch.dist,m,m)
add('cdist',torch.cdist,m,m+1)
add('pairwise_distance',F.pairwise_distance,m,m+1)
add('cosine_similarity',F.cosine_similarity,m,m+1)
add('einsum',lambda a,c:torch.einsum('ij,jk->ik',a,c),m,m)
add('linear',F.linear,m,m,v)
add('bilinear',F.bilinear,m,m,mk(3,4,4))
add('softmax',lambda a:F.softmax(a,1),m)
add('log_softmax',lambda a:F.log_softmax(a,1),m)
add('softmin',lambda a:F.softmin(a,1),m)
add('gumbel_softmax',F.gumbel_softmax,m)
add('sdpa',F.scaled_dot_product_attention,mk(1,2,4,8),mk(1,2,4,8),mk(1,2,4,8))
add('layer_norm',lambda a,w:F.layer_norm(a,(4,),w,w),m,v)
add('group_norm',lambda a:F.group_norm(a,3),x)
add('instance_norm',lambda a:F.instance_norm(a),x)
add('rms_norm',lambda a:F.rms_norm(a,(8,)),x)
add('batch_norm',lambda a,w:F.batch_norm(a,w*0,w*0+1,w,w,True),x,mk(3))
add('local_response_norm',lambda a:F.local_response_norm(a,2),x)
add('normalize',lambda a:F.normalize(a),m)
add('conv1d',F.conv1d,mk(2,3,8),mk(4,3,3),mk(4))
add('conv2d',F.conv2d,x,mk(4,3,3,3),mk(4))
add('conv3d',F.conv3d,mk(1,2,4,4,4),mk(2,2,3,3,3))
add('conv_transpose1d',F.conv_transpose1d,mk(2,3,8),mk(3,4,3))
add('conv_transpose2d',F.conv_transpose2d,x,mk(3,4,3,3))
add('conv_transpose3d',F.conv_transpose3d,mk(1,2,4,4,4),mk(2,2,3,3,3))
add('conv_same',lambda a,w:F.conv2d(a,w,padding='same'),x,mk(4,3,3,3))
add('avg_pool1d',lambda a:F.avg_pool1d(a,2),mk(2,3,8))
add('avg_pool2d',lambda a:F.avg_pool2d(a,2),x)
add('avg_pool3d',lambda a:F.avg_pool3d(a,2),mk(1,2,4,4,4))
add('max_pool2d',lambda a:F.max_pool2d(a,2),x)
add('adaptive_avg_pool1d',lambda a:F.adaptive_avg_pool1d(a,3),mk(2,3,8))
add('adaptive_avg_pool2d',lambda a:F.adaptive_avg_pool2d(a,3),x)
add('adaptive_avg_pool3d',lambda a:F.adaptive_avg_pool3d(a,2),mk(1,2,4,4,4))
add('adaptive_max_pool2d',lambda a:F.adaptive_max_pool2d(a,3),x)
add('lp_pool2d',lambda a:F.lp_pool2d(a,2.,2),x)
add('interpolate',lambda a:F.interpolate(a,scale_factor=2,mode='bilinear'),x)
add('prelu',F.prelu,m,mk(1))
add('glu',F.glu,m)
add('sum',torch.sum,m)
add('mean',torch.mean,m)
add('prod',torch.prod,m)
add('norm',torch.norm,m)
add('cumsum',lambda a:torch.cumsum(a,0),m)
add('cumprod',lambda a:torch.cumprod(a,0),m)
add('logsumexp',lambda a:torch.logsumexp(a,0),m)
add('logcumsumexp',lambda a:torch.logcumsumexp(a,0),m)
add('var',torch.var,m)
add('std',torch.std,m)
add('trace',torch.trace,m)
add('cov',torch.cov,m)
add('corrcoef',torch.corrcoef,m)
add('quantile',lambda a:torch.quantile(a,0.5),m)
add('nanquantile',lambda a:torch.nanquantile(a,0.5),m)
add('median',torch.median,m)
add('amax',torch.amax,m)
add('nansum',torch.nansum,m)
add('nanmean',torch.nanmean,m)
add('diff',torch.diff,m)
t=mk(4,4); cls=torch.tensor([0,1,2,3])
for n in "mse_loss l1_loss smooth_l1_loss huber_loss kl_div soft_margin_loss poisson_nll_loss hinge_embedding_loss multilabel_soft_margin_loss binary_cross_entropy_with_logits".split(): add(n,getattr(F,n),m,t)
add('binary_cross_entropy',F.binary_cross_entropy,m.clamp(0,1),t.clamp(0,1))
add('cross_entropy',lambda a:F.cross_entropy(a,cls),m)
add('nll_loss',lambda a:F.nll_loss(a,cls),m)
add('multi_margin_loss',lambda a:F.multi_margin_loss(a,cls),m)
add('multilabel_margin_loss',lambda a:F.multilabel_margin_loss(a,torch.zeros(4,4,dtype=torch.long)),m)
add('margin_ranking_loss',lambda a,c:F.margin_ranking_loss(a,c,torch.ones(4)),v,v+1)
add('cosine_embedding_loss',lambda a,c:F.cosine_embedding_loss(a,c,torch.ones(4)),m,m+1)
add('triplet_margin_loss',F.triplet_margin_loss,m,m+1,m+2)
add('gaussian_nll_loss',F.gaussian_nll_loss,m,m+1,m+2)
add('addcdiv',torch.addcdiv,m,m,m)
add('addcmul',torch.addcmul,m,m,m)
add('atan2',torch.atan2,m,m)
add('add',torch.add,m,m)
add('mul',torch.mul,m,m)
add('index_copy',lambda a,c:torch.index_copy(a,0,cls,c),m,m)
add('scatter_add',lambda a,c:torch.scatter_add(a,0,torch.zeros(4,4,dtype=torch.long),c),m,m)
add('index_put',lambda a,c:a.index_put((cls,),c),m,m)
add('dropout',lambda a:F.dropout(a,0.5),m)
add('embedding',lambda w:F.embedding(cls,w),m)


def name_of(result):
    return str((result[0] if isinstance(result, (tuple, list)) else result).dtype)[6:]


def answer(function, args, low, on):
    try:
        with torch.autocast("cpu", dtype=low, enabled=on):
            return name_of(function(*args))
    except Exception:
        return "-"


def table():
    for name, (function, args) in cases.items():
        row = [name]
        for low in (torch.bfloat16, torch.float16):
            for given in (args, [a.to(low) for a in args]):
                off, on = (answer(function, given, low, o) for o in (False, True))
                row.append(on if off == on else f"{off}>{on}")
        yield " ".join(row)
    low = m.to(torch.bfloat16)
    mixed = {"cat": lambda a, c: torch.cat([a, c]), "stack": lambda a, c: torch.stack([a, c]), "addcmul": lambda a, c: torch.addcmul(a, c, c),
             "index_copy": lambda a, c: torch.index_copy(a, 0, cls, c), "add": lambda a, c: a + c, "where": lambda a, c: torch.where(a > 0.5, a, c),
             "mse_loss": F.mse_loss, "mm": torch.mm}
    for name, function in mixed.items():
        yield f"mixed {name} {answer(function, (low, m), torch.bfloat16, True)} {answer(function, (m, low), torch.bfloat16, True)}"
    wide = m.double()
    for name, function in {"mm": torch.mm, "mse_loss": F.mse_loss, "prod": torch.prod}.items():
        yield f"double {name} {answer(function, (wide, wide) if name != 'prod' else (wide,), torch.bfloat16, True)}"


if __name__ == "__main__":
    print("\n".join(table()))
