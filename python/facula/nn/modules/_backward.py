"""Full backward hooks: functions that hand tensors through, and tell when their gradients come."""

import warnings

from ... import _C
from ...autograd import Function


class _Inputs(Function):
    @staticmethod
    def forward(ctx, watch, *tensors):
        ctx.watch = watch
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return (None, *ctx.watch.input_grads(grads))


class _Outputs(Function):
    @staticmethod
    def forward(ctx, watch, *tensors):
        ctx.watch = watch
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return (None, *ctx.watch.output_grads(grads))


def _is_in_graph(t):
    return isinstance(t, _C.Tensor) and t.requires_grad


class Watch:
    """One call of a module whose backward somebody watches."""

    def __init__(self, module, hooks, pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_output = None

    def _through(self, function, values):
        """-> values with those that are in the graph handed through function, and their places."""
        places = [i for i, v in enumerate(values) if _is_in_graph(v)] if _C.is_grad_enabled() else []
        if places:
            values = list(values)
            results = function.apply(self, *(values[i] for i in places))
            for i, r in zip(places, results if isinstance(results, tuple) else (results,)):
                values[i] = r
        return tuple(values), places

    def inputs(self, args):
        args, self.input_places = self._through(_Inputs, args)
        self.n_inputs = len(args)
        return args

    def outputs(self, result):
        many = isinstance(result, (tuple, list))
        values, self.output_places = self._through(_Outputs, result if many else (result,))
        self.n_outputs = len(values)
        if not many:
            return values[0]
        if hasattr(result, "_fields"):
            return type(result)(*values)
        return type(result)(values)

    @staticmethod
    def _whole(places, grads, n):
        whole = [None] * n
        for i, g in zip(places, grads):
            whole[i] = g
        return tuple(whole)

    def _pick(self, places, whole, changed, what):
        if changed is None:
            return whole
        if not isinstance(changed, tuple):
            changed = (changed,)
        if len(changed) != len(whole):
            raise RuntimeError(
                f"Backward {what}hook returned an invalid number of grad, got {len(changed)}, but expected {len(whole)}"
            )
        return changed

    def output_grads(self, grads):
        whole = self._whole(self.output_places, grads, self.n_outputs)
        for hook in self.pre_hooks:
            whole = self._pick(self.output_places, whole, hook(self.module, whole), "pre ")
        self.grad_output = whole
        if not self.input_places and self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs"
                " require gradients. See"
                " https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.register_full_backward_hook"
                " for more details.",
                stacklevel=5,
            )
            for hook in self.hooks:
                if hook(self.module, (None,) * self.n_inputs, whole) is not None:
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or None for all"
                        " gradients."
                    )
        return tuple(whole[i] for i in self.output_places)

    def input_grads(self, grads):
        whole = self._whole(self.input_places, grads, self.n_inputs)
        if self.grad_output is not None:
            for hook in self.hooks:
                whole = self._pick(self.input_places, whole, hook(self.module, whole, self.grad_output), "")
        return tuple(whole[i] for i in self.input_places)
