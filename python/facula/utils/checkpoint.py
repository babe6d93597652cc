"""Activation checkpointing: what a part of a model computes is not kept for the backward pass, but computed again in it.

A checkpointed part is one node of the graph. Its backward computes the part once more, with the random numbers that it had the
first time, and runs that graph's own backward. Gradients of parameters inside it go to their .grad, so use backward(), not
autograd.grad(), with respect to them.
"""
import warnings

import facula as torch

from .._nested import leaves, mapped
from ..random import fork_rng

__all__ = ["checkpoint", "checkpoint_sequential", "CheckpointError"]

_NAMED = ("torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, calling "
          "checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but if you need to "
          "preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on the "
          "differences between the two variants.")


class CheckpointError(RuntimeError):
    """The second computation was not like the first.

    >>> issubclass(torch.utils.checkpoint.CheckpointError, RuntimeError)
    True
    """


def _tensors(value):
    """The tensors of arguments or results, in order."""
    return [one for one in leaves(value) if isinstance(one, torch.Tensor)]


def _replaced(value, tensors):
    """The same structure with the next tensors of an iterator."""
    return mapped(value, lambda one: next(tensors) if isinstance(one, torch.Tensor) else one)


def _devices(tensors):
    return sorted({tensor.get_device() for tensor in tensors if tensor.is_cuda})


class _Part:
    """A function, its arguments, and the random numbers' states at its first call."""

    def __init__(self, function, args, kwargs, preserve):
        self.function, self.structure = function, (args, kwargs)
        self.inputs = _tensors((args, kwargs))
        self.preserve, self.devices = preserve, _devices(self.inputs)
        if preserve:
            self.cpu = torch.get_rng_state()
            self.states = [torch.cuda.get_rng_state(device) for device in self.devices]

    def first(self):
        args, kwargs = self.structure
        result = self.function(*args, **kwargs)
        self.structure = _replaced(self.structure, iter([torch.empty(0)] * len(self.inputs)))  # the node keeps the tensors
        return result

    def again(self, inputs):
        args, kwargs = _replaced(self.structure, iter(inputs))
        with fork_rng(self.devices, enabled=self.preserve):
            if self.preserve:
                torch.set_rng_state(self.cpu)
                for device, state in zip(self.devices, self.states):
                    torch.cuda.set_rng_state(state, device)
            with torch.enable_grad():
                return self.function(*args, **kwargs)


class _Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part, results, extra, *inputs):
        ctx.part = part
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(*[one for one, flag in results if not flag])
        return tuple(one for one, _ in results)

    @staticmethod
    def backward(ctx, *grads):
        inputs = [one.detach().requires_grad_(one.requires_grad) for one in ctx.saved_tensors]
        results = _tensors(ctx.part.again(inputs))
        if len(results) != len(grads):
            raise CheckpointError(f"torch.utils.checkpoint: A different number of tensors was computed again: {len(grads)} in "
                                  f"the forward pass, {len(results)} in the backward pass. The function must do the same both "
                                  "times.")
        pairs = [(one, grad) for one, grad in zip(results, grads) if one.requires_grad and grad is not None]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        torch.autograd.backward([one for one, _ in pairs], [grad for _, grad in pairs])
        return (None, None, None, *(one.grad if one.requires_grad else None for one in inputs))


def checkpoint(function, *args, use_reentrant=None, context_fn=None, determinism_check="default", debug=False, early_stop=True,
               preserve_rng_state=True, **kwargs):
    """function(*args, **kwargs), whose intermediate results are computed again in the backward pass instead of being kept.

    use_reentrant=False (recommended): gradients reach what the function uses, arguments or not. True: only if an argument
    requires a gradient. preserve_rng_state: dropout draws the same numbers both times. context_fn is not supported.

    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> torch.utils.checkpoint.checkpoint(lambda t: t.exp() * t, x, use_reentrant=False).backward()
    >>> x.grad
    tensor(22.1672)
    """
    if use_reentrant is None:
        warnings.warn(_NAMED, stacklevel=2)
        use_reentrant = True
    if context_fn is not None:
        raise NotImplementedError("checkpoint(): context_fn is not supported in Facula: wrap the function instead")
    if use_reentrant and kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    part = _Part(function, args, kwargs, preserve_rng_state)
    inputs, wanted = part.inputs, any(tensor.requires_grad for tensor in part.inputs)
    if use_reentrant and not wanted:
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
    with torch.set_grad_enabled(not use_reentrant):
        result = part.first()
    tensors = _tensors(result)
    flags = [wanted and (one.is_floating_point() or one.is_complex()) if use_reentrant else one.requires_grad for one in tensors]
    if not any(flags):
        return result
    plain = [(one.detach(), flag) for one, flag in zip(tensors, flags)]
    extra = None if wanted else torch.empty(1, requires_grad=True)  # a gradient is wanted inside, by a parameter
    outputs = _Node.apply(part, plain, extra, *inputs)
    return _replaced(result, iter(outputs))


def checkpoint_sequential(functions, segments, input, use_reentrant=None, preserve_rng_state=True):
    """A Sequential (or a list of modules) in `segments` parts, all but the last of which are checkpointed.

    >>> net = nn.Sequential(nn.ReLU(), nn.Tanh())
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> torch.utils.checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=False).backward()
    >>> x.grad
    tensor([0.0707])
    """
    if use_reentrant is None:
        warnings.warn(_NAMED.replace("calling checkpoint ", "calling checkpoint_sequential "), stacklevel=2)
        use_reentrant = True
    layers = list(functions.children()) if isinstance(functions, torch.nn.Sequential) else list(functions)
    size = len(layers) // segments

    def part(chosen):
        def run(value):
            for layer in chosen:
                value = layer(value)
            return value
        return run

    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(part(layers[start:end]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return part(layers[end:])(input)
