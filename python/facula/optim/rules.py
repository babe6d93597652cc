"""The optimizers whose update rules are rows of the library: SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, NAdam,
RAdam, ASGD, Rprop.

A step is one call into C for all groups: it reads the options from param_groups and launches one kernel. `state` has PyTorch's
structure; it is built when it is asked for, and what is changed in it counts from the next step on.
"""
from collections import defaultdict

import facula as torch

from .. import _C
from .optimizer import Optimizer, _every_post, _every_pre, _run_hooked

__all__ = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop", "SparseAdam"]


class RowOptimizer(Optimizer):
    """An optimizer whose rule is a row of the library."""

    _row = None  # the rule's name there

    def __init__(self, params, defaults):
        self._rule = _C._Rule(self._row, defaultdict(dict))
        super().__init__(params, defaults)

    @property
    def state(self):
        """{parameter: {"step": tensor, ...}}: what is kept between steps. Its tensors are the optimizer's own."""
        return self._rule.state

    @state.setter
    def state(self, value):
        self._rule.state = value

    def __setstate__(self, state):
        state = dict(state)
        if "_rule" not in self.__dict__:
            self._rule = _C._Rule(self._row, defaultdict(dict))
        self.state = state.pop("state", self.state)
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
        self._rule.follow(self.param_groups)

    def step(self, closure=None):
        """One step for all parameters that have a gradient.

        closure: computes the loss and its gradients again and returns it; it runs before the step.
        """
        if closure is None and not (self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks
                                    or _every_pre or _every_post):
            return self._rule.step(self.param_groups)
        return _run_hooked(_row_step, self, () if closure is None else (closure,), {})

    step.hooked = True


def _row_step(self, closure=None):
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    self._rule.step(self.param_groups)
    return loss


# ---- checks, in PyTorch's words ----

def _at_least_0(**options):
    """word=value: the words of the error with _ for spaces."""
    for words, value in options.items():
        if isinstance(value, torch.Tensor) and value.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= value:
            raise ValueError(f"Invalid {words.replace('__', ' ')}: {value}")


def _check_betas(betas):
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def _check_ways(fused=None, foreach=None, differentiable=False):
    """How a step is computed is the library's own affair: one kernel for all parameters, whatever is asked for."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if differentiable:
        raise NotImplementedError("differentiable=True is not in Facula: a step is a kernel without derivatives. Write the step "
                                  "with tensor operations on functions of the parameters (torch.autograd.grad with "
                                  "create_graph=True)")


class SGD(RowOptimizer):
    """SGD(params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False)

    Gradient descent, with momentum if asked for.

    params: tensors, (name, tensor) pairs, or dicts that each make a group with options of its own. lr: the learning rate.
    foreach, differentiable, fused: accepted as in PyTorch (differentiable=True is an error).

    Errors: ValueError for options out of range and for an empty list.

        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.SGD([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.7000], requires_grad=True)
    """

    _row = "SGD"

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, foreach=None,
                 differentiable=False, fused=None):
        _at_least_0(learning__rate=lr, momentum__value=momentum, weight_decay__value=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        _check_ways(fused, foreach, differentiable)
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
                                      maximize=maximize, foreach=foreach, differentiable=differentiable, fused=fused))


class Adam(RowOptimizer):
    """Adam(params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, maximize=False)

    Adam: steps of the mean gradient over the root of the mean square.

    betas: how slowly both means forget. eps: added to the root. amsgrad: the largest mean square so far is used.
    decoupled_weight_decay: AdamW's weight decay. foreach, capturable, differentiable, fused: accepted as in PyTorch
    (differentiable=True is an error).

    Errors: ValueError for options out of range and for an empty list.

        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.Adam([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.9000], requires_grad=True)
    """

    _row = "Adam"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False):
        _at_least_0(learning__rate=lr, epsilon__value=eps)
        _check_betas(betas)
        _at_least_0(weight_decay__value=weight_decay)
        _check_ways(fused, foreach, differentiable)
        if decoupled_weight_decay:
            self._row = "AdamW"
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize,
                                      foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused,
                                      decoupled_weight_decay=decoupled_weight_decay))


class AdamW(Adam):
    """AdamW(params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False)

    Adam whose weight decay shrinks the parameters and does not go through the gradient's means.

    Errors: ValueError for options out of range and for an empty list.

        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.AdamW([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.8990], requires_grad=True)
    """

    _row = "AdamW"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False,
                 foreach=None, capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
                         differentiable=differentiable, fused=fused, decoupled_weight_decay=True)


class RMSprop(RowOptimizer):
    """RMSprop(params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False)

    Gradients over the root of their mean square. alpha: how slowly the mean forgets; centered: the variance in its place.

    Errors: ValueError for options out of range and for an empty list.

        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.RMSprop([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([-5.9605e-08], requires_grad=True)
    """

    _row = "RMSprop"

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False,
                 foreach=None, maximize=False, differentiable=False):
        _at_least_0(learning__rate=lr, epsilon__value=eps, momentum__value=momentum, weight_decay__value=weight_decay,
                    alpha__value=alpha)
        _check_ways(None, foreach, differentiable)
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
                                      weight_decay=weight_decay, capturable=capturable, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable))


class Adagrad(RowOptimizer):
    """Adagrad(params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10)

    Gradients over the root of the sum of their squares, which begins with initial_accumulator_value.

    Errors: ValueError for options out of range and for an empty list.

        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.Adagrad([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.9000], requires_grad=True)
    """

    _row = "Adagrad"

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *,
                 maximize=False, differentiable=False, fused=None):
        _at_least_0(learning__rate=lr, lr_decay__value=lr_decay, weight_decay__value=weight_decay,
                    initial_accumulator_value__value=initial_accumulator_value, epsilon__value=eps)
        _check_ways(fused, foreach, differentiable)
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, fused=fused))
        state = self.state
        for group in self.param_groups:
            for param in group["params"]:
                state[param] = {"step": torch.tensor(0.0, dtype=torch.float32),
                                "sum": torch.full_like(param, group["initial_accumulator_value"], requires_grad=False)}

    def share_memory(self):
        """Has no counterpart: parameters are shared between processes by torch.save and torch.load."""
        raise NotImplementedError("Adagrad.share_memory is not in Facula: processes do not share optimizers")


class Adadelta(RowOptimizer):
    """Adadelta(params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0)

    Steps as large as the steps before, by running means of their squares and the gradients'. rho: how slowly the means forget.

    Errors: ValueError for options out of range and for an empty list.

        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.Adadelta([w])
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.9968], requires_grad=True)
    """

    _row = "Adadelta"

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False,
                 differentiable=False):
        _at_least_0(learning__rate=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        _at_least_0(epsilon__value=eps, weight_decay__value=weight_decay)
        _check_ways(None, foreach, differentiable)
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      capturable=capturable, foreach=foreach, differentiable=differentiable))


class Adamax(RowOptimizer):
    """Adamax(params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)

    Adam with the largest recent gradient in place of the root of the mean square.

    Errors: ValueError for options out of range and for an empty list.

        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.Adamax([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.9000], requires_grad=True)
    """

    _row = "Adamax"

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False,
                 differentiable=False, capturable=False):
        _at_least_0(learning__rate=lr, epsilon__value=eps)
        _check_betas(betas)
        _at_least_0(weight_decay__value=weight_decay)
        _check_ways(None, foreach, differentiable)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))


class NAdam(RowOptimizer):
    """NAdam(params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, decoupled_weight_decay=False)

    Adam with Nesterov's momentum.

    Errors: ValueError for options out of range and for an empty list.

        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.NAdam([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.8944], requires_grad=True)
    """

    _row = "NAdam"

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False, differentiable=False):
        _at_least_0(learning__rate=lr, epsilon__value=eps)
        _check_betas(betas)
        _at_least_0(weight_decay__value=weight_decay, momentum_decay__value=momentum_decay)
        _check_ways(None, foreach, differentiable)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
                                      decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, foreach=foreach,
                                      capturable=capturable, differentiable=differentiable))


class RAdam(RowOptimizer):
    """RAdam(params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False)

    Adam whose first steps, while the mean square is uncertain, do not divide by it.

    Errors: ValueError for options out of range and for an empty list.

        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.RAdam([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.7000], requires_grad=True)
    """

    _row = "RAdam"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *,
                 foreach=None, maximize=False, capturable=False, differentiable=False):
        _at_least_0(learning__rate=lr, epsilon__value=eps)
        _check_betas(betas)
        _at_least_0(weight_decay__value=weight_decay)
        _check_ways(None, foreach, differentiable)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize, foreach=foreach,
                                      capturable=capturable, decoupled_weight_decay=decoupled_weight_decay,
                                      differentiable=differentiable))


class ASGD(RowOptimizer):
    """ASGD(params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0)

    Gradient descent that also keeps the mean of the parameters, state[p]["ax"], from step t0 on.

    Errors: ValueError for options out of range and for an empty list.

        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.ASGD([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.7000], requires_grad=True)
    """

    _row = "ASGD"

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        _at_least_0(learning__rate=lr, weight_decay__value=weight_decay)
        _check_ways(None, foreach, differentiable)
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, capturable=capturable))


class Rprop(RowOptimizer):
    """Rprop(params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50))

    Steps whose size depends on whether the gradient keeps its sign: it shrinks by etas[0], or grows by etas[1].

    Errors: ValueError for options out of range and for an empty list.

        >>> w = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.Rprop([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.9000], requires_grad=True)
    """

    _row = "Rprop"

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None, maximize=False,
                 differentiable=False):
        _at_least_0(learning__rate=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        _check_ways(None, foreach, differentiable)
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))


class SparseAdam(Optimizer):
    """SparseAdam(params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False)

    Adam for sparse gradients, which Facula has none of: as in PyTorch, a step with a dense gradient is refused. Use Adam.

    >>> p = torch.ones(1, requires_grad=True)
    >>> optimizer = torch.optim.SparseAdam([p], lr=0.1)
    >>> optimizer.step()
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        for name, value in (("learning rate", lr), ("epsilon value", eps)):
            if not 0.0 < value:
                raise ValueError(f"Invalid {name}: {value}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))

    def step(self, closure=None):
        """Does nothing where no parameter has a gradient.

        Errors: RuntimeError where one has, since it is dense.
        """
        loss = None if closure is None else torch.enable_grad()(closure)()
        if any(p.grad is not None for group in self.param_groups for p in group["params"]):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead: in Facula all gradients are "
                               "dense, those of nn.Embedding(sparse=True) too, and torch.optim.Adam takes the same arguments")
        return loss
