"""The layers: one class for each row of src/nn/layers.tab, made from facula._C's table; what a row cannot say is added here.

A layer's forward runs in C. Where an option that the row lacks is set (return_indices, momentum None ...), it goes through
_forward_otherwise instead."""

from ... import _C
from .module import Module

_nn = _C._nn


def _otherwise(function, *names):
    """A _forward_otherwise that calls nn.functional's function with these attributes."""

    def forward(self, input, *rest):
        from .. import functional

        return getattr(functional, function)(input, *rest, **{n: getattr(self, n) for n in names})

    return {"_forward_otherwise": forward}


def _restore(self, state, parameters):
    _C._restore_layer(self, {**state, **{name: value is not None for name, value in parameters.items()}})


# ---- normalisation ----


def _norm_otherwise(self, input):
    """momentum None: the plain average over all batches so far."""
    from .. import functional

    self._check_input_dim(input)
    factor = 0.0 if self.momentum is None else self.momentum
    if self.training and self.track_running_stats and self.num_batches_tracked is not None:
        self.num_batches_tracked.add_(1)
        factor = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
    batch = self.training or self.running_mean is None
    kept = not self.training or self.track_running_stats
    return functional.batch_norm(
        input,
        self.running_mean if kept else None,
        self.running_var if kept else None,
        self.weight,
        self.bias,
        batch,
        factor,
        self.eps,
    )


def _norm_load(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
    version = local_metadata.get("version")
    key = prefix + "num_batches_tracked"
    if (version is None or version < 2) and self.track_running_stats and key not in state_dict:  # from before the counter
        count = self.num_batches_tracked
        state_dict[key] = count if count is not None else _C.tensor(0)
    Module._load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


def _reset_running_stats(self):
    if self.running_mean is not None:
        self.running_mean.zero_()
        self.running_var.fill_(1)
        self.num_batches_tracked.zero_()


def _check_dims(dims, text):
    def check(self, input):
        if input.dim() not in dims:
            raise ValueError(f"expected {text} input (got {input.dim()}D input)")

    return {"_check_input_dim": check}


# ---- others ----


def _from_pretrained(
    cls, embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    """An embedding of given rows; freeze: they are not trained."""
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    rows, cols = embeddings.shape
    return cls(rows, cols, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)


def _embedding_init(
    self,
    num_embeddings,
    embedding_dim,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
    _weight=None,
    _freeze=False,
    device=None,
    dtype=None,
):
    if padding_idx is not None:
        if padding_idx >= num_embeddings or padding_idx < -num_embeddings:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= num_embeddings
    if _weight is not None and list(_weight.shape) != [num_embeddings, embedding_dim]:
        raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
    _C._layer_blank(_weight is not None)
    try:
        _C._LayerBase.__init__(
            self, num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, device, dtype
        )
    finally:
        _C._layer_blank(False)
    if _weight is not None:
        from ..parameter import Parameter

        self.weight = Parameter(_weight)
    self.weight.requires_grad_(not _freeze)


def _identity_init(self, *args, **kwargs):
    _C._LayerBase.__init__(self)


def _identity(self, input):
    return input


def _transposed(self, input, output_size=None):
    from .. import functional

    sides = len(self.kernel_size)
    padding = self.output_padding
    if output_size is not None:
        size = list(output_size)[-sides:]
        least = [
            (input.size(d - sides) - 1) * self.stride[d]
            - 2 * self.padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(sides)
        ]
        most = [n + self.stride[d] - 1 for d, n in enumerate(least)]
        if any(not lo <= n <= hi for n, lo, hi in zip(size, least, most)):
            raise ValueError(
                f"requested an output size of {size}, but valid sizes range from {least} to {most} (for an input of"
                f" {input.size()[2:]})"
            )
        padding = [n - lo for n, lo in zip(size, least)]
    return getattr(functional, f"conv_transpose{sides}d")(
        input, self.weight, self.bias, self.stride, self.padding, padding, self.groups, self.dilation
    )


def _unpooled(sides):
    def forward(self, input, indices, output_size=None):
        from .. import functional

        return getattr(functional, f"max_unpool{sides}d")(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    return {"_forward_otherwise": forward}


_POOL = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
_AVG = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
EXTRAS = {
    **{f"Conv{n}d": {"transposed": False, "output_padding": (0,) * n} for n in (1, 2, 3)},
    "Identity": {"__init__": _identity_init, "forward": _identity},
    "Embedding": {
        "__init__": _embedding_init,
        "from_pretrained": classmethod(_from_pretrained),
        **_otherwise("embedding", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
    },
    "GELU": _otherwise("gelu", "approximate"),
    "Softmax": _otherwise("softmax", "dim"),
    "LogSoftmax": _otherwise("log_softmax", "dim"),
    "Softmin": _otherwise("softmin", "dim"),
    **{f"MaxPool{n}d": _otherwise(f"max_pool{n}d", *_POOL) for n in (1, 2, 3)},
    **{f"AdaptiveMaxPool{n}d": _otherwise(f"adaptive_max_pool{n}d", "output_size", "return_indices") for n in (1, 2, 3)},
    **{f"AvgPool{n}d": _otherwise(f"avg_pool{n}d", *_AVG) for n in (2, 3)},
    **{f"MaxUnpool{n}d": _unpooled(n) for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": {"_forward_otherwise": _transposed, "transposed": True} for n in (1, 2, 3)},
    "BatchNorm1d": _check_dims((2, 3), "2D or 3D"),
    "BatchNorm2d": _check_dims((4,), "4D"),
    "BatchNorm3d": _check_dims((5,), "5D"),
    "InstanceNorm1d": _check_dims((2, 3), "2D or 3D"),
    "InstanceNorm2d": _check_dims((3, 4), "3D or 4D"),
    "InstanceNorm3d": _check_dims((4, 5), "4D or 5D"),
}
BASES = {
    "_NormBase": {"_version": 2, "_load_from_state_dict": _norm_load, "reset_running_stats": _reset_running_stats},
    "_BatchNorm": {"_forward_otherwise": _norm_otherwise},
}


def make():
    """-> {where: {name: class}}, and all classes by name."""
    places, classes = {}, {"Module": Module}
    root = __name__.rpartition(".")[0] + "."
    for number, (name, where, bases, doc) in enumerate(_C._layer_rows()):
        place = places.setdefault(where, {})
        base = Module
        for between in bases.split():
            if between not in place:
                place[between] = type(between, (base,), {"__module__": root + where, **BASES.get(between, {})})
            base = place[between]
        place[name] = classes[name] = type(
            name,
            (base, _C._LayerBase),
            {"__module__": root + where, "__doc__": doc, "_row": number, "_restore": _restore, **EXTRAS.get(name, {})},
        )
    return places, classes
