"""Pruning: parameters with some of their elements held at 0 by a mask.

A pruned parameter `weight` becomes `weight_orig`, which is trained, and `weight_mask`, a buffer; `weight` is their product, computed
before each call of the module. `remove` makes it a plain parameter again.
"""

from ... import _C
from ..parameter import Parameter

__all__ = [
    "BasePruningMethod",
    "PruningContainer",
    "Identity",
    "RandomUnstructured",
    "L1Unstructured",
    "RandomStructured",
    "LnStructured",
    "CustomFromMask",
    "identity",
    "random_unstructured",
    "l1_unstructured",
    "random_structured",
    "ln_structured",
    "global_unstructured",
    "custom_from_mask",
    "remove",
    "is_pruned",
]


def _count(amount, size):
    """How many of size are pruned: amount is a number of them, or a part between 0 and 1."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if isinstance(amount, int):
        if amount < 0:
            raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
        if amount > size:
            raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
        return amount
    if not 0.0 <= amount <= 1.0:
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
    return round(amount * size)


class BasePruningMethod:
    """The base class: a subclass has compute_mask(t, default_mask) and PRUNING_TYPE.

    PRUNING_TYPE: "unstructured" (elements), "structured" (slices along a dimension) or "global".

    >>> class Every2nd(nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = 'unstructured'
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    ...
    >>> Every2nd().prune(torch.ones(4))
    tensor([0., 1., 0., 1.])
    """

    PRUNING_TYPE = "unstructured"

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t, default_mask):
        """The mask for tensor t: 1 for what stays; default_mask is that of earlier prunings."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_mask(): a subclass of BasePruningMethod writes its own")

    def apply_mask(self, module):
        """The original times the mask."""
        mask, original = getattr(module, self._tensor_name + "_mask"), getattr(module, self._tensor_name + "_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes module's parameter `name`; further prunings of it are put together with the ones before."""
        old = _method_of(module, name)
        method = cls(*args, **kwargs)
        method._tensor_name = name
        original = getattr(module, name + "_orig") if old else getattr(module, name)
        if importance_scores is not None and importance_scores.shape != original.shape:
            raise ValueError("importance_scores should have the same shape as the parameter to prune")
        scores = original if importance_scores is None else importance_scores
        used = method
        if old:
            handle, before = old
            handle.remove()
            used = before if isinstance(before, PruningContainer) else PruningContainer(before)
            used.add_pruning_method(method)
            mask = used.compute_mask(scores, getattr(module, name + "_mask"))
            module._buffers[name + "_mask"] = mask
        else:
            mask = method.compute_mask(scores, _C.ones_like(original))
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            module.register_buffer(name + "_mask", mask)
        setattr(module, name, used.apply_mask(module))
        handle = module.register_forward_pre_hook(used)
        module.__dict__.setdefault("_pruned", {})[name] = (handle, used)
        return used

    def prune(self, t, default_mask=None, importance_scores=None):
        """A tensor with the mask put on it."""
        scores = t if importance_scores is None else importance_scores
        mask = _C.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module):
        """Takes the pruning away: the parameter is a plain one again, with zeros where it was pruned."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        delattr(module, name)
        del module._buffers[name + "_mask"]
        module.register_parameter(name, original)


def _method_of(module, name):
    """(handle, method) of a pruned parameter, or None."""
    return module.__dict__.get("_pruned", {}).get(name)


class PruningContainer(BasePruningMethod):
    """Prunings of one parameter one after the other: each looks only at what those before have left.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 1), 'weight', amount=1)
    >>> layer = nn.utils.prune.l1_unstructured(layer, 'weight', amount=2)
    >>> int(layer.weight_mask.sum())
    1
    """

    def __init__(self, *args):
        self._methods = ()
        for method in args:
            self._tensor_name = getattr(method, "_tensor_name", None)
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """One more, last."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer {self}."
                f" Found '{method._tensor_name}'"
            )
        self._methods += (method,)

    def __len__(self):
        return len(self._methods)

    def __iter__(self):
        return iter(self._methods)

    def __getitem__(self, idx):
        return self._methods[idx]

    def compute_mask(self, t, default_mask):
        """The mask of the last one, given what those before have left."""
        method, mask = self._methods[-1], default_mask.to(t.dtype)
        if method.PRUNING_TYPE == "global":
            kept = (slice(None),)
        elif method.PRUNING_TYPE == "unstructured":
            kept = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.dim()
            there = mask.sum([d for d in range(t.dim()) if d != dim]) != 0 if t.dim() > 1 else mask != 0
            kept = tuple(there if d == dim else slice(None) for d in range(t.dim()))
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}: give 'unstructured', 'structured' or 'global'")
        result = mask.clone()
        result[kept] = method.compute_mask(t[kept], default_mask=mask[kept]).to(t.dtype)
        return result


class Identity(BasePruningMethod):
    """Prunes nothing; gives a parameter its mask of ones.

    >>> nn.utils.prune.Identity().prune(torch.ones(2))
    tensor([1., 1.])
    """

    def compute_mask(self, t, default_mask):
        """The mask as it was."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """RandomUnstructured(amount): elements chosen at random.

    >>> int(nn.utils.prune.RandomUnstructured(3).prune(torch.ones(8)).sum())
    5
    """

    def __init__(self, amount):
        _count(amount, 2**62)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        """The mask with amount more zeros."""
        return _without_least(_C.rand_like(t), default_mask, _count(self.amount, t.numel()))


def _without_least(scores, mask, count):
    """mask with zeros at the places of the count least scores."""
    mask = mask.clone(memory_format=_C.contiguous_format)
    if count:
        mask.view(-1)[_C.topk(scores.reshape(-1), count, largest=False).indices] = 0
    return mask


class L1Unstructured(BasePruningMethod):
    """L1Unstructured(amount): the elements of least absolute value.

    >>> nn.utils.prune.L1Unstructured(0.5).prune(torch.tensor([3., -1., 2., -4.]))
    tensor([ 3., -0.,  0., -4.])
    """

    def __init__(self, amount):
        _count(amount, 2**62)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        """The mask with amount more zeros."""
        return _without_least(t.detach().abs(), default_mask, _count(self.amount, t.numel()))


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def compute_mask(self, t, default_mask):
        """The mask with amount more slices of zeros along dim."""
        if t.dim() < 2:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.dim()} dims"
            )
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        slices = t.detach().transpose(0, self.dim).reshape(t.shape[self.dim], -1)
        count = _count(self.amount, len(slices))
        mask = default_mask.clone()
        if count:
            mask.transpose(0, self.dim)[_C.topk(self._scores(slices), count, largest=False).indices] = 0
        return mask


class RandomStructured(_Structured):
    """RandomStructured(amount, dim=-1): slices along dim chosen at random.

    >>> nn.utils.prune.RandomStructured(1, dim=0).prune(torch.ones(3, 2)).sum()
    tensor(4.)
    """

    def __init__(self, amount, dim=-1):
        _count(amount, 2**62)
        self.amount, self.dim = amount, dim

    def _scores(self, slices):
        return _C.rand(len(slices), device=slices.device)


class LnStructured(_Structured):
    """LnStructured(amount, n, dim=-1): the slices along dim of least n-norm.

    >>> nn.utils.prune.LnStructured(1, 2, dim=0).prune(torch.tensor([[3., 4.], [1., 1.]]))
    tensor([[3., 4.],
            [0., 0.]])
    """

    def __init__(self, amount, n, dim=-1):
        _count(amount, 2**62)
        self.amount, self.n, self.dim = amount, n, dim

    def _scores(self, slices):
        return _C.norm(slices, p=self.n, dim=1)


class CustomFromMask(BasePruningMethod):
    """CustomFromMask(mask): what the mask says.

    >>> nn.utils.prune.CustomFromMask(torch.tensor([0, 1])).prune(torch.ones(2))
    tensor([0., 1.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        """The two masks together."""
        if default_mask.shape != self.mask.shape:
            raise ValueError(f"the mask has the shape {tuple(self.mask.shape)}, the parameter {tuple(default_mask.shape)}")
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module, name):
    """Gives a parameter a mask of ones.

    >>> nn.utils.prune.identity(nn.Linear(2, 1), 'bias').bias_mask
    tensor([1.])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prunes amount elements (a number, or a part from 0 to 1) of a parameter, chosen at random.

    >>> layer = nn.utils.prune.random_unstructured(nn.Linear(4, 1), 'weight', 0.25)
    >>> int(layer.weight_mask.sum())
    3
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prunes the amount elements of least absolute value; importance_scores are looked at instead, if given.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 1), 'weight', 2)
    >>> int((layer.weight == 0).sum())
    2
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prunes amount slices along dim, chosen at random.

    >>> layer = nn.utils.prune.random_structured(nn.Linear(4, 3), 'weight', 1, dim=0)
    >>> int(layer.weight_mask.sum())
    8
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prunes the amount slices along dim of least n-norm.

    >>> layer = nn.utils.prune.ln_structured(nn.Linear(4, 3), 'weight', 2, n=2, dim=1)
    >>> int(layer.weight_mask.sum())
    6
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes several parameters as if they were one: parameters is a list of (module, name).

    >>> a, b = nn.Linear(3, 1), nn.Linear(5, 1)
    >>> nn.utils.prune.global_unstructured([(a, 'weight'), (b, 'weight')], nn.utils.prune.L1Unstructured, amount=4)
    >>> int(a.weight_mask.sum() + b.weight_mask.sum())
    4
    """
    if not hasattr(parameters, "__iter__"):
        raise TypeError("global_unstructured(): parameters is not an Iterable of (module, name)")
    parameters, given = list(parameters), importance_scores or {}
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be a dict of {(module, name): scores}")
    scores = [given.get((m, n), getattr(m, n)).detach().reshape(-1) for m, n in parameters]
    masks = [getattr(m, n + "_mask", _C.ones_like(getattr(m, n))).reshape(-1) for m, n in parameters]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type {method.PRUNING_TYPE}'
        )
    container.add_pruning_method(method)
    mask, start = container.compute_mask(_C.cat(scores), _C.cat(masks)), 0
    for module, name in parameters:
        t = getattr(module, name)
        custom_from_mask(module, name, mask[start : start + t.numel()].view_as(t))
        start += t.numel()


def custom_from_mask(module, name, mask):
    """Prunes a parameter by a mask: 0 for what is pruned.

    >>> layer = nn.utils.prune.custom_from_mask(nn.Linear(2, 1), 'weight', torch.tensor([[1, 0]]))
    >>> layer.weight[0, 1].item()
    0.0
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module, name):
    """Makes a pruned parameter a plain one again; what was pruned stays 0.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 1), 'weight', 2)
    >>> layer = nn.utils.prune.remove(layer, 'weight')
    >>> sorted(layer.state_dict())
    ['bias', 'weight']
    """
    pruned = _method_of(module, name)
    if pruned is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    handle, method = pruned
    handle.remove()
    method.remove(module)
    del module.__dict__["_pruned"][name]
    return module


def is_pruned(module):
    """Whether a parameter of the module, or of one in it, is pruned.

    >>> nn.utils.prune.is_pruned(nn.Linear(2, 1))
    False
    """
    return any(m.__dict__.get("_pruned") for m in module.modules())
