"""Jacobians, Hessians and products with them, of functions of tensors."""
from .. import _C
from .._C import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _prepare(inputs, create_graph):
    """The inputs as leaves of a graph of their own, or as they are when the caller differentiates through."""
    single = isinstance(inputs, Tensor)
    tensors = (inputs,) if single else tuple(inputs)
    return tuple(x.view(x.shape) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in tensors), single


def _unpack(values, single):
    return values[0] if single else tuple(values)


def _call(func, inputs):
    result = func(*inputs)
    single = isinstance(result, Tensor)
    return ((result,) if single else tuple(result)), single


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """d func(inputs) / d inputs: for an output of shape A and an input of shape B a tensor of shape A + B.

    >>> torch.autograd.functional.jacobian(lambda x: x * x, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    with _C.enable_grad():
        xs, single_in = _prepare(inputs, create_graph)
        ys, single_out = _call(func, xs)
        rows = []
        for y in ys:
            flat, parts = y.reshape(-1), [[] for _ in xs]
            for k in range(flat.numel()):
                if not y.requires_grad:
                    grads = tuple(_C.zeros_like(x) for x in xs)
                else:
                    grads = _C._grad((flat[k],), xs, None, True, create_graph, True, True)
                for part, g in zip(parts, grads):
                    part.append(g)
            rows.append(tuple(_C.stack(part).view(tuple(y.shape) + tuple(x.shape)) if part else _C.zeros(tuple(y.shape) + tuple(x.shape))
                              for part, x in zip(parts, xs)))
    rows = [_unpack(r, single_in) for r in rows]
    return rows[0] if single_out else tuple(rows)


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function with one result.

    >>> torch.autograd.functional.hessian(lambda x: (x ** 3).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    single = isinstance(inputs, Tensor)

    def gradient(*xs):
        y = func(*xs)
        if y.numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        return _unpack(_C._grad((y.reshape(()),), xs, None, True, True, True, True), single)
    return jacobian(gradient, inputs, create_graph=create_graph)


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v times the Jacobian)

    >>> torch.autograd.functional.vjp(lambda x: x * x, torch.tensor([1.0, 2.0]), torch.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with _C.enable_grad():
        xs, single_in = _prepare(inputs, create_graph)
        ys, single_out = _call(func, xs)
        seeds = None if v is None else ((v,) if isinstance(v, Tensor) else tuple(v))
        grads = _C._grad(ys, xs, seeds, True, create_graph, True, True)
    ys = ys if create_graph else tuple(y.detach() for y in ys)
    return _unpack(ys, single_out), _unpack(grads, single_in)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the Jacobian times v), by differentiating the vector-Jacobian product.

    >>> torch.autograd.functional.jvp(lambda x: x * x, torch.tensor([1.0, 2.0]), torch.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with _C.enable_grad():
        xs, single_in = _prepare(inputs, create_graph)
        ys, single_out = _call(func, xs)
        direction = tuple(_C.ones_like(x) for x in xs) if v is None else ((v,) if isinstance(v, Tensor) else tuple(v))
        seeds = tuple(_C.zeros_like(y).requires_grad_() for y in ys)
        grads = _C._grad(ys, xs, seeds, True, True, True, True)
        products = _C._grad(grads, seeds, direction, True, create_graph, True, True)
    ys = ys if create_graph else tuple(y.detach() for y in ys)
    return _unpack(ys, single_out), _unpack(products, single_out)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the Hessian times v)

    >>> torch.autograd.functional.hvp(lambda x: (x ** 3).sum(), torch.tensor([1.0, 2.0]), torch.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with _C.enable_grad():
        xs, single = _prepare(inputs, create_graph)
        y = func(*xs)
        direction = tuple(_C.ones_like(x) for x in xs) if v is None else ((v,) if isinstance(v, Tensor) else tuple(v))
        grads = _C._grad((y,), xs, None, True, True, True, True)
        products = _C._grad(grads, xs, direction, True, create_graph, True, True)
    return (y if create_graph else y.detach()), _unpack(products, single)


vhp = hvp
