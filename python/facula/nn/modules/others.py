"""Layers that are a function and a few numbers, and no rows."""

from ... import _C
from .. import functional, init
from ..parameter import Parameter
from .module import Module


class CosineSimilarity(Module):
    """CosineSimilarity(dim=1, eps=1e-08): cosine of the angle between x1 and x2 along dim.

    >>> nn.CosineSimilarity(dim=0)(torch.tensor([1., 0.]), torch.tensor([1., 1.]))
    tensor(0.7071)
    """

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """PairwiseDistance(p=2.0, eps=1e-06, keepdim=False): p-norm of x1 - x2 + eps along the last dimension.

    >>> nn.PairwiseDistance()(torch.zeros(1, 2), torch.tensor([[3., 4.]]))
    tensor([5.0000])
    """

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1, x2):
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class EmbeddingBag(Module):
    """EmbeddingBag(num_embeddings, embedding_dim, ..., mode='mean'): sums, means or largest elements of bags of embeddings.

    Bags are the rows of a 2-D input, or begin at offsets in a 1-D one. per_sample_weights, for mode='sum': factors.

    >>> bag = nn.EmbeddingBag.from_pretrained(torch.tensor([[1., 2.], [3., 4.], [5., 6.]]), mode='sum')
    >>> bag(torch.tensor([0, 2, 1]), torch.tensor([0, 2]))
    tensor([[6., 8.],
            [3., 4.]])
    """

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        _weight=None,
        include_last_offset=False,
        padding_idx=None,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.max_norm, self.norm_type = (
            num_embeddings,
            embedding_dim,
            max_norm,
            norm_type,
        )
        self.scale_grad_by_freq, self.mode, self.sparse, self.include_last_offset = (
            scale_grad_by_freq,
            mode,
            sparse,
            include_last_offset,
        )
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        if _weight is None:
            self.weight = Parameter(_C.empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight)

    def reset_parameters(self):
        """Draws the initial values anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with _C.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return functional.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self):
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, usual in (("max_norm", None), ("norm_type", 2), ("scale_grad_by_freq", False)):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        text += f", mode={self.mode!r}"
        return text + (f", padding_idx={self.padding_idx}" if self.padding_idx is not None else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        include_last_offset=False,
        padding_idx=None,
    ):
        """One with given rows; freeze: they are not trained."""
        rows, cols = embeddings.shape
        bag = cls(
            rows, cols, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset, padding_idx
        )
        bag.weight.requires_grad_(not freeze)
        return bag


def make(_Loss):
    """Losses that are no rows."""

    class TripletMarginWithDistanceLoss(_Loss):
        """TripletMarginWithDistanceLoss(*, distance_function=None, margin=1.0, swap=False, reduction='mean')

        >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1))
        >>> loss(torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2))
        tensor(1.)
        """

        def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
            super().__init__()
            if margin <= 0:
                raise ValueError(f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead")
            self.distance_function = distance_function if distance_function is not None else PairwiseDistance()
            self.margin, self.swap, self.reduction = margin, swap, reduction

        def forward(self, anchor, positive, negative):
            return functional.triplet_margin_with_distance_loss(
                anchor,
                positive,
                negative,
                distance_function=self.distance_function,
                margin=self.margin,
                swap=self.swap,
                reduction=self.reduction,
            )

    return {"TripletMarginWithDistanceLoss": TripletMarginWithDistanceLoss}


def make_sync(BatchNorm, BatchNorm2d, row_base):
    """SyncBatchNorm, which has BatchNorm2d's row."""

    class SyncBatchNorm(BatchNorm, row_base):
        """SyncBatchNorm(num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, process_group=None)

        BatchNorm whose statistics are those of all processes. Facula runs in one process, where it is BatchNorm; inputs have 2 or more
        dimensions.

        >>> nn.SyncBatchNorm(2)(torch.tensor([[1., 2.], [3., 6.]]))
        tensor([[-1.0000, -1.0000],
                [ 1.0000,  1.0000]], grad_fn=<NativeBatchNormBackward0>)
        """

        _row, _restore = BatchNorm2d._row, BatchNorm2d._restore

        def __init__(
            self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None, device=None, dtype=None
        ):
            super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
            self.process_group = process_group

        def forward(self, input):
            return self._forward_otherwise(input)

        def _check_input_dim(self, input):
            if input.dim() < 2:
                raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

        @classmethod
        def convert_sync_batchnorm(cls, module, process_group=None):
            """The module with all BatchNorm layers in it made SyncBatchNorm, with their parameters and buffers."""
            made = module
            if isinstance(module, BatchNorm) and not isinstance(module, cls):
                made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_group)
                for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                    setattr(made, name, getattr(module, name))
                made.training = module.training
            for name, child in module.named_children():
                made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
            return made

    return SyncBatchNorm


def make_all(places):
    """-> {where: {name: class}}"""
    norms = places["batchnorm"]
    result = {
        "distance": {"CosineSimilarity": CosineSimilarity, "PairwiseDistance": PairwiseDistance},
        "sparse": {"EmbeddingBag": EmbeddingBag},
        "batchnorm": {"SyncBatchNorm": make_sync(norms["_BatchNorm"], norms["BatchNorm2d"], _C._LayerBase)},
        "loss": {**make(places["loss"]["_Loss"]), "NLLLoss2d": places["loss"]["NLLLoss"]},
    }
    for where, names in result.items():
        for cls in names.values():
            cls.__module__ = __name__.rpartition(".")[0] + "." + where
            cls.__qualname__ = cls.__name__
    return result
