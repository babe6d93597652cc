"""Cases of the second room of networks: convolution, pooling and padding in all dimensions, normalisation, resizing, losses."""

import inspect

import elementwise_cases
import torch
import torch.nn.functional as nnf
from cases import F, H, MOVE, OUT, T, Lst, case


def both(op, fn, layouts=None, near=60.0, **args):
    """Results in all floating types, derivatives in float64 and float32."""
    for types in (F, H):
        case(op, fn, types, layouts, bits=False, near=near, **args)


def convolutions():
    for op, sides in (("conv1d", 1), ("conv3d", 3)):
        f = getattr(nnf, op)

        def conv(x, weight, bias, stride=1, padding=0, dilation=1, groups=1, f=f):
            return f(x, weight, bias, stride, padding, dilation, groups)

        size = (5,) if sides == 1 else (3, 4, 3)
        both(op, conv, near=200.0, x=T(4 - sides, 2, *size), weight=T(3, 2, *(2,) * sides), bias=T(3))
        both(op, conv, near=200.0, x=T(4, *size), weight=T(4, 2, *(2,) * sides), bias=None, stride=(2,), padding=(1,), groups=2)
        both(op, conv, near=200.0, x=T(1, 2, *size), weight=T(2, 2, *(3,) * sides), bias=T(2), padding=(2,), dilation=(2,))
    for sides, size, kernel in ((1, (5,), (3,)), (2, (4, 3), (2, 3)), (2, (4, 5), (3, 4)), (3, (3, 2, 4), (2, 1, 3))):
        f = (nnf.conv1d, nnf.conv2d, nnf.conv3d)[sides - 1]

        def same(x, weight, bias, dilation, groups, f=f):
            return f(x, weight, bias, padding="same", dilation=dilation, groups=groups)

        for dilation in (1, 2):
            both("conv_same", same, near=200.0, x=T(2, 2, *size), weight=T(2, 1, *kernel), bias=T(2), dilation=(dilation,), groups=2)
    for op, sides in (("conv_transpose1d", 1), ("conv_transpose2d", 2), ("conv_transpose3d", 3)):
        f = getattr(nnf, op)

        def turned(x, weight, bias, stride=1, padding=0, output_padding=0, groups=1, dilation=1, f=f):
            return f(x, weight, bias, stride, padding, output_padding, groups, dilation)

        size = ((4,), (3, 4), (2, 1, 2))[sides - 1]
        both(op, turned, near=200.0, x=T(4 - sides, 2, *size), weight=T(2, 3, *(3,) * sides), bias=T(3))
        both(op, turned, near=200.0, x=T(4, *size), weight=T(4, 1, *(3,) * sides), bias=T(2), stride=(2,), padding=(1,),
             output_padding=(1,), groups=2)
        both(op, turned, near=200.0, x=T(1, 1, *size), weight=T(1, 2, *(2,) * sides), bias=None, padding=(1,), output_padding=(1,),
             dilation=(2,))


def padding():
    def pad(x, pads, mode="constant", value=None):
        return nnf.pad(x, pads, mode, value)

    for shape, pads in (((2, 3), (1, 2)), ((2, 3, 4), (0, 1, 2, -1)), ((3, 4), (-1, -1)), ((2, 1, 3, 2), (1, 1, 0, 0, 0, 2))):
        case("pad", pad, MOVE, x=T(*shape, kind="i", low=0, high=9), pads=pads)
        case("pad", pad, F, x=T(*shape), pads=pads, ulp=0, value=2.5, mode="constant")
    case("pad", pad, ("int64", "int32", "uint8", "bool"), x=T(2, 3), pads=(1, 2), value=1.0, mode="constant")
    for mode in ("reflect", "replicate", "circular"):
        for shape, pads in (((2, 3, 4), (1, 2)), ((2, 3), (2, -1)), ((1, 3, 4), (1, 0, 2, 1)), ((1, 2, 3, 4, 3), (1, 2, 0, 1, 2, 2))):
            case("pad", pad, MOVE, x=T(*shape, kind="i", low=0, high=9), pads=pads, mode=mode)


def pools():
    for sides in (1, 2, 3):
        size = ((6,), (5, 6), (4, 3, 5))[sides - 1]
        shape = (1,) * (sides != 3) + (2,) + size
        distinct, plain, positive = T(*shape, kind="p", low=0, high=0), T(*shape), T(*shape, low=0.5, high=3)
        most, mean = getattr(nnf, f"max_pool{sides}d"), getattr(nnf, f"avg_pool{sides}d")
        adaptive_most, adaptive = getattr(nnf, f"adaptive_max_pool{sides}d"), getattr(nnf, f"adaptive_avg_pool{sides}d")

        def largest(x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False, most=most):
            return most(x, kernel, stride, padding, dilation, ceil_mode, return_indices=True)

        def average(x, kernel, stride=None, padding=0, ceil_mode=False, count_include_pad=True, mean=mean):
            return mean(x, kernel, stride, padding, ceil_mode, count_include_pad)

        def power(x, norm_type, kernel, stride=None, ceil_mode=False, f=getattr(nnf, f"lp_pool{sides}d")):
            return f(x, norm_type, kernel[0], stride and stride[0], ceil_mode)  # torch's lp_pool1d takes no tuple

        if sides != 2:
            for types in (F, H):
                case(f"max_pool{sides}d", largest, types, ulp=0, x=distinct, kernel=(2,), indices=OUT)
                case(f"max_pool{sides}d", largest, types, ulp=0, x=distinct, kernel=(3,), stride=(2,), padding=(1,), ceil_mode=True,
                     indices=OUT)
                case(f"max_pool{sides}d", largest, types, "c", ulp=0, x=distinct, kernel=(2,), stride=(1,), dilation=(2,), indices=OUT)
            both(f"avg_pool{sides}d", average, x=plain, kernel=(2,))
            for include in (True, False):
                both(f"avg_pool{sides}d", average, x=plain, kernel=(3,), stride=(2,), padding=(1,), ceil_mode=True, count_include_pad=include)
        both(f"lp_pool{sides}d", power, x=positive, norm_type=2.0, kernel=(2,))
        case(f"lp_pool{sides}d", power, F, bits=False, near=60.0, x=positive, norm_type=3.0, kernel=(3,), stride=(1,))
        for out in ((1,), (2,), (3,), tuple(range(1, sides + 1)), (4,) * sides):
            both(f"adaptive_avg_pool{sides}d", lambda x, output_size, f=adaptive: f(x, output_size if len(output_size) > 1 else output_size[0]), x=plain, output_size=out)
            for types in (F, H):
                case(f"adaptive_max_pool{sides}d", lambda x, output_size, f=adaptive_most: f(x, output_size if len(output_size) > 1 else output_size[0], return_indices=True), types,
                     ulp=0, x=distinct, output_size=out, indices=OUT)
        count = 3**sides
        lead = (1,) * (sides != 3) + (2,)
        indices = T(*lead, *(2,) * sides, dtype="int64", values=[(7 * i + 3) % count for i in range(2**sides)] * 2)
        for types in (F, H):
            case(f"max_unpool{sides}d", lambda x, indices, kernel, stride, output_size, f=getattr(nnf, f"max_unpool{sides}d"): f(
                x, indices, kernel, stride, 0, output_size), types, ulp=0, x=T(*lead, *(2,) * sides), indices=indices, kernel=(2,) * sides,
                stride=(1,) * sides, output_size=(3,) * sides)


def normalisation():
    both("group_norm", lambda x, groups, weight, bias, eps=1e-5: nnf.group_norm(x, groups, weight, bias, eps), x=T(2, 4, 3), groups=2,
         weight=T(4), bias=T(4))
    both("group_norm", lambda x, groups, eps: nnf.group_norm(x, groups, None, None, eps), x=T(2, 6, 2, 2), groups=3, eps=1e-3)

    def instance(x, running_mean, running_var, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
        return nnf.instance_norm(x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)

    both("instance_norm", instance, x=T(2, 3, 4), running_mean=None, running_var=None, weight=T(3), bias=T(3))
    statistics = {"running_mean": T(3, grad=False), "running_var": T(3, low=0.5, high=2, grad=False)}
    both("instance_norm", instance, x=T(2, 3, 2, 2), **statistics, momentum=0.3, eps=1e-3, changes=("running_mean", "running_var"))
    case("instance_norm", instance, F, bits=False, near=60.0, x=T(2, 3, 2, 2), **statistics, weight=T(3), bias=T(3), use_input_stats=False)
    both("rms_norm", lambda x, shape, weight: nnf.rms_norm(x, shape, weight), x=T(2, 3, 2, 4), shape=(4,), weight=T(4))
    both("rms_norm", lambda x, shape, eps: nnf.rms_norm(x, shape, None, eps), x=T(2, 3, 4), shape=(3, 4), eps=0.5)
    both("local_response_norm", lambda x, size: nnf.local_response_norm(x, size), x=T(2, 4, 3), size=2)
    both("local_response_norm", lambda x, size, alpha, beta, k: nnf.local_response_norm(x, size, alpha, beta, k), x=T(1, 5, 2, 2), size=3,
         alpha=0.5, beta=1.5, k=2.0)
    both("normalize", lambda x: nnf.normalize(x), x=T(2, 3, 2, 2))
    both("normalize", lambda x, p, dim: nnf.normalize(x, p, dim), x=T(2, 3, 2), p=1.0, dim=-1)
    case("normalize", lambda x, p, dim, eps: nnf.normalize(x, p, dim, eps), F, x=T(2, 3), p=3.0, dim=0, eps=100.0, bits=False)


def resizing():
    for mode, sides in (("nearest", 1), ("nearest", 3), ("nearest-exact", 2), ("area", 2), ("linear", 1), ("bilinear", 2), ("trilinear", 3),
                        ("bicubic", 2)):
        size = ((5,), (3, 4), (2, 3, 2))[sides - 1]
        for out in ((7, 3, 4)[:sides], (2, 5, 3)[:sides]):
            both("interpolate", lambda x, size, mode: nnf.interpolate(x, size, mode=mode), x=T(4 - sides, 1, *size), size=out, mode=mode)
        for factor in (1.7, 2.0, 0.6):
            case("interpolate", lambda x, scale_factor, mode: nnf.interpolate(x, scale_factor=scale_factor, mode=mode), F, "c", bits=False,
                 near=60.0, x=T(1, 2, *size), scale_factor=factor, mode=mode)
        if "linear" in mode or mode == "bicubic":
            for out in ((7, 1, 4)[:sides], (2, 5, 3)[:sides]):
                case("interpolate", lambda x, size, mode, align_corners: nnf.interpolate(x, size, mode=mode, align_corners=align_corners),
                     F, "c", bits=False, near=60.0, x=T(1, 2, *size), size=out, mode=mode, align_corners=True)
    places = {"low": -1.4, "high": 1.4}
    for sides in (2, 3):
        for padding in ("zeros", "border", "reflection"):
            for align in (False, True):
                case("grid_sample", lambda x, grid, padding_mode, align_corners: nnf.grid_sample(x, grid, padding_mode=padding_mode,
                     align_corners=align_corners), F, near=60.0, bits=False, x=T(2, 2, *(3, 4, 2)[:sides]), grid=T(2, *(2, 3, 2)[:sides], sides, **places),
                     padding_mode=padding, align_corners=align)
    case("affine_grid", lambda theta, size: nnf.affine_grid(theta, size, align_corners=False), F, near=60.0, bits=False, theta=T(2, 2, 3), size=(2, 3, 4, 5))
    case("affine_grid", lambda theta, size, align_corners: nnf.affine_grid(theta, size, align_corners=align_corners), F, near=60.0, bits=False,
         theta=T(2, 3, 4), size=(2, 1, 2, 3, 4), align_corners=True)
    case("interpolate", lambda x, size: nnf.interpolate(x, size), ("uint8",), x=T(1, 2, 3, 2), size=(5, 4))
    whole = {"kind": "i", "low": 0, "high": 9}
    case("pixel_shuffle", lambda x, upscale_factor: nnf.pixel_shuffle(x, upscale_factor), MOVE, x=T(2, 8, 2, 3, **whole),
         upscale_factor=2)
    case("pixel_unshuffle", lambda x, downscale_factor: nnf.pixel_unshuffle(x, downscale_factor), MOVE, x=T(2, 1, 4, 6, **whole),
         downscale_factor=2)
    case("channel_shuffle", lambda x, groups: nnf.channel_shuffle(x, groups), MOVE, x=T(2, 6, 2, 2, **whole), groups=3)

    def unfold(x, kernel, dilation=1, padding=0, stride=1):
        return nnf.unfold(x, kernel, dilation, padding, stride)

    def fold(x, output_size, kernel, dilation=1, padding=0, stride=1):
        return nnf.fold(x, output_size, kernel, dilation, padding, stride)

    both("im2col", unfold, x=T(2, 2, 3, 4), kernel=(2, 3))
    both("im2col", unfold, x=T(2, 4, 5), kernel=(2, 2), dilation=(2, 1), padding=(1, 0), stride=(1, 2))
    both("col2im", fold, x=T(2, 12, 6), output_size=(3, 4), kernel=(2, 2))
    both("col2im", fold, x=T(8, 8), output_size=(4, 5), kernel=(2, 2), dilation=(2, 1), padding=(1, 0), stride=(1, 2))


def activations(tables):
    names = ("celu", "hardshrink", "softshrink", "tanhshrink", "prelu_element")
    elementwise_cases.ELEMENTWISE.update(
        celu=lambda x, alpha=1.0: nnf.celu(x, alpha),
        hardshrink=lambda x, lambd=0.5: nnf.hardshrink(x, lambd),
        softshrink=lambda x, lambd=0.5: nnf.softshrink(x, lambd),
        tanhshrink=lambda x: nnf.tanhshrink(x),
        prelu_element=lambda x, y: torch.where(x > 0, x, y * x),
    )
    elementwise_cases.make([r for r in tables["elementwise"] if r.name in names])
    both("glu", lambda x, dim=-1: nnf.glu(x, dim), x=T(2, 3, 2, 4))
    both("glu", lambda x, dim: nnf.glu(x, dim), x=T(2, 3), dim=0)
    both("prelu", lambda x, weight: nnf.prelu(x, weight), x=T(2, 3, 2, 2), weight=T(3))
    both("prelu", lambda x, weight: nnf.prelu(x, weight), x=T(4), weight=T(1))
    both("softmin", lambda x, dim: nnf.softmin(x, dim), x=T(2, 3, 2, 2), dim=1)
    both("bilinear", lambda x1, x2, weight, bias: nnf.bilinear(x1, x2, weight, bias), near=200.0, x1=T(2, 3), x2=T(2, 2), weight=T(4, 3, 2),
         bias=T(4))
    case("bilinear", lambda x1, x2, weight: nnf.bilinear(x1, x2, weight), F, bits=False, near=200.0, x1=T(2, 2, 3), x2=T(2, 2, 2),
         weight=T(4, 3, 2))
    drops = {"feature_dropout": nnf.dropout2d, "alpha_dropout": nnf.alpha_dropout, "feature_alpha_dropout": nnf.feature_alpha_dropout}
    for op, f in drops.items():
        for training in (True, False):
            for types in (F, H) if not training else (("float32",), ("float64",)):
                case(op, seeded(lambda x, p, training, f=f: f(x, p, training)), types, "c" if training else None, near=8.0, seed=7,
                     x=T(2, 3, 2, 2), p=0.3, training=training)
    for training in (True, False):
        for types in (("float32",), ("float64",)) if training else (F, H):
            case("rrelu", seeded(lambda x, lower, upper, training: nnf.rrelu(x, lower, upper, training)), types, "c" if training else None,
                 near=8.0, seed=7, x=T(2, 5), lower=0.1, upper=0.4, training=training)
    for hard in (False, True):
        for types in (("float32",), ("float64",)):
            case("gumbel_softmax", seeded(lambda logits, tau, hard, dim: nnf.gumbel_softmax(logits, tau, hard, 1e-10, dim)), types, near=20.0,
                 seed=7, logits=T(3, 4), tau=0.7, hard=hard, dim=1)


def losses():
    def margin(name, f, *, near=60.0, **args):
        for reduction in ("mean", "sum", "none"):
            both(name, lambda reduction, f=f, **a: f(reduction=reduction, **a), near=near, **args, reduction=reduction)

    signs = [1.0, -1.0, -1.0, 1.0, 1.0, -1.0]
    x, y, z = T(3, 4, low=-2, high=2), T(3, 4, low=-2, high=2), T(3, 4, low=-2, high=2)
    margin("triplet_margin_loss", nnf.triplet_margin_loss, anchor=x, positive=y, negative=z)
    case("triplet_margin_loss", lambda anchor, positive, negative, margin, p, swap: nnf.triplet_margin_loss(anchor, positive, negative, margin, p,
         swap=swap), F, bits=False, near=60.0, anchor=x, positive=y, negative=z, margin=3.0, p=3.0, swap=True)
    target, row = T(2, 3, values=signs, grad=False), T(6, values=signs, grad=False)
    margin("margin_ranking_loss", lambda x1, x2, target, margin, reduction: nnf.margin_ranking_loss(x1, x2, target, margin, reduction=reduction),
           x1=T(2, 3), x2=T(2, 3), target=target, margin=0.5)
    margin("hinge_embedding_loss", lambda x, target, margin, reduction: nnf.hinge_embedding_loss(x, target, margin, reduction=reduction),
           x=T(2, 3), target=target, margin=2.0)
    margin("cosine_embedding_loss", lambda x1, x2, target, margin, reduction: nnf.cosine_embedding_loss(x1, x2, target, margin,
           reduction=reduction), x1=T(6, 3), x2=T(6, 3), target=row, margin=-0.25)
    margin("soft_margin_loss", lambda x, target, reduction: nnf.soft_margin_loss(x, target, reduction=reduction), x=T(2, 3), target=target)
    classes = T(3, dtype="int64", values=[0, 3, 2])
    margin("multi_margin_loss", lambda x, target, reduction: nnf.multi_margin_loss(x, target, reduction=reduction), x=x, target=classes)
    case("multi_margin_loss", lambda x, target, p, margin, weight: nnf.multi_margin_loss(x, target, p, margin, weight), F, bits=False, near=60.0,
         x=x, target=classes, p=2, margin=2.0, weight=T(4, low=0.5, high=2, grad=False), second=False)
    labels = T(3, 4, dtype="int64", values=[3, 0, -1, 1, 1, -1, 0, 0, -1, 2, 2, 2])
    margin("multilabel_margin_loss", lambda x, target, reduction: nnf.multilabel_margin_loss(x, target, reduction=reduction), x=x, target=labels)
    margin("multilabel_soft_margin_loss", lambda x, target, weight, reduction: nnf.multilabel_soft_margin_loss(x, target, weight,
           reduction=reduction), x=x, target=T(3, 4, values=[0, 1, 1, 0] * 3, grad=False), weight=T(4))
    counts = T(3, 4, low=1.5, high=5, grad=False)
    for log_input in (True, False):
        margin("poisson_nll_loss", lambda x, target, log_input, full, reduction: nnf.poisson_nll_loss(x, target, log_input, full,
               reduction=reduction), near=200.0, x=T(3, 4, low=0.5, high=2), target=counts, log_input=log_input, full=log_input)
    variance = T(3, 4, low=0.5, high=2)
    for full in (True, False):
        margin("gaussian_nll_loss", lambda x, target, var, full, reduction: nnf.gaussian_nll_loss(x, target, var, full, reduction=reduction),
               near=200.0, x=x, target=y, var=variance if full else T(3, low=0.5, high=2), full=full)


def einsum():
    for equation, shapes in (
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("bij,bjk", ((2, 2, 3), (2, 3, 2))),
        ("bhid,bhjd->bhij", ((2, 2, 3, 2), (2, 2, 4, 2))),
        ("ii->i", ((3, 3),)),
        ("ii", ((3, 3),)),
        ("ij->ji", ((2, 3),)),
        ("i,j", ((2,), (3,))),
        ("ij,ij->", ((2, 3), (2, 3))),
        ("...ij,...jk->...ik", ((2, 1, 2, 3), (2, 3, 2))),
        ("b...i,oi->b...o", ((2, 2, 3), (4, 3))),
        ("bi,oij,bj->bo", ((2, 3), (2, 3, 4), (2, 4))),
        ("iji,jk->k", ((2, 3, 2), (3, 2))),
        ("ab,bc,cd->da", ((2, 3), (3, 1), (2, 2))),
    ):
        case("einsum", lambda equation, tensors: torch.einsum(equation, *tensors), F, bits=False, near=200.0, equation=equation,
             tensors=Lst(*(T(*s, low=-2, high=2) for s in shapes)))
    for types in (H, ("int64", "int32")):
        case("einsum", lambda equation, tensors: torch.einsum(equation, *tensors), types, bits=False, near=200.0, equation="bhid,bhjd->bhij",
             tensors=Lst(T(2, 2, 3, 2), T(2, 2, 4, 2)))


def seeded(f):
    """f, its draws from the seed that the case names."""
    def run(**args):
        torch.manual_seed(7)
        return f(**args)
    run.__signature__ = inspect.signature(f)
    return run


def make(tables):
    convolutions()
    padding()
    pools()
    normalisation()
    resizing()
    activations(tables)
    losses()
    einsum()
