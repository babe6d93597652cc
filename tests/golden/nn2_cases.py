"""Cases of the second room of networks: convolution, pooling and padding in all dimensions, normalisation, resizing, losses."""

import torch
import torch.nn.functional as nnf
from cases import F, H, MOVE, OUT, T, case


def both(op, fn, layouts="cts", near=60.0, **args):
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
        case("pad", pad, MOVE, "ctsfM", x=T(*shape, kind="i", low=0, high=9), pads=pads)
        case("pad", pad, F, x=T(*shape), pads=pads, ulp=0, value=2.5, mode="constant")
    case("pad", pad, ("int64", "int32", "uint8", "bool"), x=T(2, 3), pads=(1, 2), value=1.0, mode="constant")
    for mode in ("reflect", "replicate", "circular"):
        for shape, pads in (((2, 3, 4), (1, 2)), ((2, 3), (2, -1)), ((1, 3, 4), (1, 0, 2, 1)), ((1, 2, 3, 4, 3), (1, 2, 0, 1, 2, 2))):
            case("pad", pad, MOVE, "cts", x=T(*shape, kind="i", low=0, high=9), pads=pads, mode=mode)


def pools():
    for sides in (1, 2, 3):
        size = ((6,), (5, 6), (4, 3, 5))[sides - 1]
        distinct, plain = T(4 - sides, 1, *size, kind="p", low=0, high=0), T(4 - sides, 1, *size)
        positive = T(1, *size, low=0.5, high=3)
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
                case(f"max_pool{sides}d", largest, types, "cts", ulp=0, x=distinct, kernel=(2,), indices=OUT)
                case(f"max_pool{sides}d", largest, types, "cts", ulp=0, x=distinct, kernel=(3,), stride=(2,), padding=(1,), ceil_mode=True,
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
                     "cts", ulp=0, x=distinct, output_size=out, indices=OUT)
        count = 3**sides
        indices = T(2, *(2,) * sides, dtype="int64", values=[(7 * i + 3) % count for i in range(2**sides)] * 2)
        for types in (F, H):
            case(f"max_unpool{sides}d", lambda x, indices, kernel, stride, output_size, f=getattr(nnf, f"max_unpool{sides}d"): f(
                x, indices, kernel, stride, 0, output_size), types, "cts", ulp=0, x=T(2, *(2,) * sides), indices=indices, kernel=(2,) * sides,
                stride=(1,) * sides, output_size=(3,) * sides)


def make(tables):
    convolutions()
    padding()
    pools()
