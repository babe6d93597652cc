"""Function: a derivative written by hand."""
import functools

from .._C import FunctionCtx, _FunctionBase, no_grad

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class Function(_FunctionBase):
    """Subclass it with static methods forward(ctx, *args) and backward(ctx, *grads), and call MyFunction.apply(*args).

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    ...
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor(2.)
    """

    @staticmethod
    def forward(*args, **kwargs):
        """Computes the results; nothing in it is recorded."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Given the gradients of the results, returns those of the arguments of forward, None where there is none.

        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> torch.autograd.backward([x * x])
        >>> x.grad
        tensor(6.)
        """
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD.")

    setup_context = None

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static forward "
                           "method: MyFunction.apply(x)")


def once_differentiable(backward):
    """Around backward: its own steps are not recorded.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @torch.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         return grad * 2
    ...
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(Double.apply(x), x)
    (tensor(2.),)
    """
    @functools.wraps(backward)
    def wrapped(ctx, *grads):
        with no_grad():
            return backward(ctx, *grads)
    return wrapped
