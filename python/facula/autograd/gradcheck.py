"""Derivatives compared with differences of the function's values, in float64."""
from .. import _C
from .._C import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """The two do not agree.

    >>> from torch.autograd.gradcheck import GradcheckError
    >>> issubclass(GradcheckError, RuntimeError)
    True
    """


def _outputs(func, inputs):
    result = func(*inputs)
    return [r for r in ((result,) if isinstance(result, Tensor) else tuple(result)) if isinstance(r, Tensor) and r.is_floating_point()]


def _numerical(func, inputs, which, eps, out):
    """Rows: elements of the input; columns: elements of output number out."""
    rows = []
    x = inputs[which]
    flat = x.detach().clone().reshape(-1)
    for k in range(flat.numel()):
        ends = []
        for sign in (1, -1):
            moved = flat.clone()
            moved[k] += sign * eps
            changed = list(inputs)
            changed[which] = moved.view(x.shape).requires_grad_()
            ends.append(_outputs(func, changed)[out].detach().clone().reshape(-1))
        rows.append((ends[0] - ends[1]) / (2 * eps))
    return _C.stack(rows) if rows else None


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, **ignored):
    """True if the derivatives of func at inputs (float64, requires_grad) agree with differences; else an error, or False.

    >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, (x,))
    True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    outputs = _outputs(func, inputs)
    for o, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        for i in wanted:
            columns = []
            for k in range(output.numel()):
                seed = _C.zeros(output.numel(), dtype=output.dtype)
                seed[k] = 1
                g, = _C._grad((output,), (inputs[i],), (seed.view(output.shape),), True, False, True, True)
                columns.append(g.reshape(-1))
            numerical = _numerical(func, inputs, i, eps, o)
            if not columns or numerical is None:
                continue
            analytical = _C.stack(columns, 1)
            if bool(((analytical - numerical).abs() > atol + rtol * numerical.abs()).any()):
                if not raise_exception:
                    return False
                raise GradcheckError(f"Jacobian mismatch for output {o} with respect to input {i},\nnumerical:{numerical}\nanalytical:{analytical}\n")
    return True


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, **ignored):
    """The same for the derivatives of the derivatives.

    >>> x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(torch.sin, (x,))
    True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _outputs(func, inputs)
    seeds = tuple(_C.ones_like(o).requires_grad_() for o in outputs) if grad_outputs is None else grad_outputs
    seeds = (seeds,) if isinstance(seeds, Tensor) else tuple(seeds)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]

    def derivative(*args):
        values = args[:len(inputs)]
        return _C._grad(tuple(_outputs(func, values)), tuple(values[i] for i in wanted), args[len(inputs):], True, True, True, True)
    return gradcheck(derivative, inputs + seeds, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
