"""Cases of matrix products, layers and losses."""

import torch
import torch.nn.functional as nnf
from cases import F, H, I, OUT, T, case



def products():
    def product(op, f, a, b, **more):
        for types in (F, H, I):
            case(op, f, types, bits=False, near=90.0, a=T(*a, low=-2, high=2), b=T(*b, low=-2, high=2), **more)

    pairs = [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3, 4)),
        ((2, 2, 3), (3, 4)),
        ((2, 3), (2, 3, 2)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (3, 3, 2)),
        ((2, 0), (0, 3)),
        ((2, 2, 3), (3,)),
        ((3,), (2, 3, 2)),
    ]
    for a, b in pairs:
        product("matmul", lambda a, b: torch.matmul(a, b), a, b)
    product("mm", lambda a, b: torch.mm(a, b), (4, 5), (5, 3))
    product("bmm", lambda a, b: torch.bmm(a, b), (2, 3, 4), (2, 4, 2))
    product("mv", lambda a, b: torch.mv(a, b), (3, 4), (4,))
    product("dot", lambda a, b: torch.dot(a, b), (5,), (5,))
    product("outer", lambda a, b: torch.outer(a, b), (3,), (4,))
    # past the blocks of the fast kernels, few results kept: the product's row sums
    case("matmul", lambda a, b: torch.matmul(a, b), F, bits=False, near=4000.0, grad=False, a=T(1, 517), b=T(517, 3))
    case("matmul", lambda a, b: torch.matmul(a, b), F, bits=False, near=300.0, grad=False, a=T(37, 70), b=T(70, 19))
    for beta, alpha in ((1.0, 1.0), (0.5, -2.0), (0.0, 1.0)):
        case(
            "addmm",
            lambda input, mat1, mat2, beta, alpha: torch.addmm(input, mat1, mat2, beta=beta, alpha=alpha),
            F,
            bits=False,
            near=90.0,
            input=T(4),
            mat1=T(2, 3),
            mat2=T(3, 4),
            beta=beta,
            alpha=alpha,
        )
    for types in (F, H):
        for shape in ((2, 3), (3,), (2, 1, 2, 3)):
            case(
                "linear",
                lambda input, weight, bias: nnf.linear(input, weight, bias),
                types,
                bits=False,
                near=90.0,
                input=T(*shape),
                weight=T(4, 3),
                bias=T(4),
            )
    case(
        "linear",
        lambda input, weight, bias: nnf.linear(input, weight, bias),
        F,
        bits=False,
        near=90.0,
        input=T(2, 3),
        weight=T(4, 3),
        bias=None,
    )
    case(
        "linear_relu",
        lambda input, weight, bias: torch.relu(nnf.linear(input, weight, bias)),
        F,
        bits=False,
        near=90.0,
        input=T(2, 1, 2, 3),
        weight=T(4, 3),
        bias=T(4),
    )


def normalisers():
    for types in (F, H):
        for dim in (1, -1):
            for op, f in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
                case(op, lambda x, dim: f(x, dim), types, ulp=6, near=8.0, x=T(2, 3, 4, 2), dim=dim)
        case(
            "layer_norm",
            lambda x, shape, weight, bias, eps: nnf.layer_norm(x, shape, weight, bias, eps),
            types,
            x=T(2, 3, 2, 4),
            near=60.0,
            shape=(4,),
            weight=T(4),
            bias=T(4),
            eps=1e-5,
        )
    for op, f in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        case(
            op,
            lambda x, dim: f(x, dim),
            F,
            ulp=6,
            near=8.0,
            grad=False,
            x=T(2, 3, values=[1000.0, 0, -1000, float("-inf"), 1, 2]),
            dim=1,
        )
        case(op, lambda x, dim: f(x, dim), F, ulp=6, near=8.0, grad=False, x=T(1, 1500), dim=0)
        case(op, lambda x, dim: f(x, dim), F, ulp=6, near=8.0, grad=False, x=T(2, 0), dim=1)
    case(
        "layer_norm",
        lambda x, shape, weight, bias, eps: nnf.layer_norm(x, shape, weight, bias, eps),
        F,
        near=60.0,
        x=T(2, 3, 4),
        shape=(3, 4),
        weight=None,
        bias=None,
        eps=1e-3,
    )
    for shape in ((4, 3), (2, 3, 4), (2, 3, 2, 2)):
        for training in (True, False):
            case(
                "batch_norm",
                batch_norm,
                F,
                near=60.0,
                x=T(*shape),
                changes=("running_mean", "running_var"),
                running_mean=T(3, grad=False),
                running_var=T(3, low=0.5, high=2, grad=False),
                weight=T(3),
                bias=T(3),
                training=training,
                momentum=0.25,
                eps=1e-5,
            )
    case(
        "batch_norm",
        lambda x, running_mean, running_var, weight, bias, training, momentum, eps: nnf.batch_norm(
            x, None, None, None, None, True, momentum, eps
        ),
        F,
        near=60.0,
        x=T(4, 3),
        running_mean=None,
        running_var=None,
        weight=None,
        bias=None,
        training=True,
        momentum=0.1,
        eps=1e-5,
    )
    case("dropout", lambda x, p, training: torch.dropout(x, p, training), F, ulp=0, x=T(2, 3, 2, 2), p=0.5, training=False)
    case("dropout", lambda x, p, training: torch.dropout(x, p, training), F, ulp=0, x=T(2, 3), p=0.0, training=True)


def batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps):
    return nnf.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)


def convolutions():
    def conv(x, weight, bias, stride, padding, dilation, groups):
        return nnf.conv2d(x, weight, bias, stride, padding, dilation, groups)

    one, none = (1, 1), (0, 0)
    for shape, kernel, stride, padding, dilation, groups in (
        ((2, 2, 5, 4), (3, 2, 3, 3), one, none, one, 1),
        ((1, 2, 5, 6), (2, 2, 3, 2), (2, 1), (1, 1), one, 1),
        ((1, 4, 4, 4), (4, 2, 2, 2), one, (1, 0), one, 2),
        ((1, 1, 6, 6), (2, 1, 2, 2), (2, 2), (1, 2), (2, 3), 1),
        ((2, 3, 3, 3), (2, 3, 1, 1), one, none, one, 1),
        ((1, 3, 4, 4), (3, 1, 3, 3), one, one, one, 3),
    ):
        for bias in (True, False):
            case(
                "conv2d",
                conv,
                F,
                bits=False,
                near=200.0,
                grad=bias,
                x=T(*shape),
                weight=T(*kernel),
                bias=T(kernel[0]) if bias else None,
                stride=stride,
                padding=padding,
                dilation=dilation,
                groups=groups,
            )
    case(
        "conv2d",
        conv,
        H,
        bits=False,
        near=200.0,
        x=T(1, 2, 4, 4),
        weight=T(2, 2, 3, 3),
        bias=T(2),
        stride=one,
        padding=one,
        dilation=one,
        groups=1,
    )
    for types in (F, H):  # no image
        case(
            "conv2d",
            conv,
            types,
            bits=False,
            second=False,
            x=T(0, 2, 4, 4),
            weight=T(2, 2, 3, 3),
            bias=T(2),
            stride=one,
            padding=one,
            dilation=one,
            groups=1,
        )
        for shape, kernel, stride, padding, dilation, ceil in (
            ((2, 2, 4, 4), (2, 2), (2, 2), none, one, False),
            ((1, 2, 5, 5), (3, 2), (2, 1), (1, 1), one, False),
            ((1, 1, 5, 6), (2, 2), (2, 2), none, (2, 1), True),
            ((0, 2, 4, 4), (2, 2), (2, 2), none, one, False),
        ):
            distinct = T(*shape, kind="p", low=0, high=0)
            case(
                "max_pool2d",
                lambda x, kernel, stride, padding, dilation, ceil_mode: nnf.max_pool2d(
                    x, kernel, stride, padding, dilation, ceil_mode, return_indices=True
                ),
                types,
                ulp=0,
                x=distinct,
                kernel=kernel,
                stride=stride,
                padding=padding,
                dilation=dilation,
                ceil_mode=ceil,
                indices=OUT,
            )
            for include in (True, False):
                case(
                    "avg_pool2d",
                    lambda x, kernel, stride, padding, ceil_mode, count_include_pad: nnf.avg_pool2d(
                        x, kernel, stride, padding, ceil_mode, count_include_pad
                    ),
                    types,
                    near=20.0,
                    x=T(*shape),
                    kernel=kernel,
                    stride=stride,
                    padding=padding,
                    ceil_mode=ceil,
                    count_include_pad=include,
                )


def losses():
    labels = T(4, dtype="int64", values=[2, 0, 1, 2], grad=False)
    some = T(4, dtype="int64", values=[2, -100, 1, 1], grad=False)
    planes = T(2, 2, 2, dtype="int64", values=[2, 0, 1, 2, 1, 1, 0, 2], grad=False)
    for reduction in ("mean", "sum", "none"):
        for x, target, weight in (
            (T(4, 3), labels, None),
            (T(4, 3), some, T(3, low=0.5, high=2, grad=False)),
            (T(2, 3, 2, 2), planes, None),
            (T(3), T(dtype="int64", values=[1], grad=False), None),
        ):
            case(
                "nll_loss",
                lambda x, target, weight, reduction, ignore_index: nnf.nll_loss(
                    x, target, weight, reduction=reduction, ignore_index=ignore_index
                ),
                F,
                near=20.0,
                x=x,
                target=target,
                weight=weight,
                reduction=reduction,
                ignore_index=-100,
            )
            for smoothing in (0.0, 0.1):
                case(
                    "cross_entropy",
                    lambda x, target, weight, reduction, ignore_index, label_smoothing: nnf.cross_entropy(
                        x, target, weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing
                    ),
                    F,
                    near=20.0,
                    x=x,
                    target=target,
                    weight=weight,
                    reduction=reduction,
                    ignore_index=-100,
                    label_smoothing=smoothing,
                )
        case(
            "cross_entropy",
            lambda x, target, weight, reduction, ignore_index, label_smoothing: nnf.cross_entropy(
                x, target, weight, reduction=reduction, label_smoothing=label_smoothing
            ),
            F,
            near=20.0,
            x=T(4, 3),
            target=T(4, 3, low=0.1, high=0.5),
            weight=None,
            reduction=reduction,
            ignore_index=-100,
            label_smoothing=0.0,
        )
        pair(reduction)
    case(
        "kl_div_loss",
        lambda x, target, reduction, log_target: nnf.kl_div(x, target, reduction="batchmean"),
        F,
        near=20.0,
        x=T(4, 3, low=-3, high=-0.1),
        target=T(4, 3, low=0.1, high=0.9),
        reduction="batchmean",
        log_target=False,
    )


def pair(reduction):
    """Losses of an input and a target of its shape."""

    def loss(op, f, low=-3, high=3, target=(-3, 3), **more):
        for types in (F, H) if reduction == "mean" else (F,):
            case(
                op,
                f,
                types,
                near=30.0,
                x=T(2, 2, 2, 3, low=low, high=high),
                target=T(2, 2, 2, 3, low=target[0], high=target[1]),
                **more,
                reduction=reduction
            )

    loss("mse_loss", lambda x, target, reduction: nnf.mse_loss(x, target, reduction=reduction))
    loss("l1_loss", lambda x, target, reduction: nnf.l1_loss(x, target, reduction=reduction))
    for beta in (1.0, 0.25):
        loss(
            "smooth_l1_loss",
            lambda x, target, reduction, beta: nnf.smooth_l1_loss(x, target, reduction=reduction, beta=beta),
            beta=beta,
        )
        loss(
            "huber_loss",
            lambda x, target, reduction, delta: nnf.huber_loss(x, target, reduction=reduction, delta=beta),
            delta=beta,
        )
    weight = T(2, 2, 2, 3, low=0.5, high=2, grad=False)
    for w in (None, weight):
        loss(
            "bce_loss",
            lambda x, target, reduction, weight: nnf.binary_cross_entropy(x, target, weight, reduction=reduction),
            0.1,
            0.9,
            (0.1, 0.9),
            weight=w,
        )
        loss(
            "bce_with_logits_loss",
            lambda x, target, reduction, weight, pos_weight: nnf.binary_cross_entropy_with_logits(
                x, target, weight, reduction=reduction, pos_weight=pos_weight
            ),
            -4,
            4,
            (0, 1),
            weight=w,
            pos_weight=None if w is None else T(3, low=0.5, high=2, grad=False),
        )
    for log_target in (False, True):
        loss(
            "kl_div_loss",
            lambda x, target, reduction, log_target: nnf.kl_div(x, target, reduction=reduction, log_target=log_target),
            -3,
            -0.1,
            (-3, -0.1) if log_target else (0.1, 0.9),
            log_target=log_target,
        )


def make():
    products()
    normalisers()
    convolutions()
    losses()
