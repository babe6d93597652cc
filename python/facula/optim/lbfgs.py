"""LBFGS: a quasi-Newton method. The direction comes from the last steps and how the gradient changed along them (two loops
over the history); the step's length is fixed, or found by a line search for the strong Wolfe conditions."""
import facula as torch

from .optimizer import Optimizer

__all__ = ["LBFGS"]


def _cubic_minimum(x1, f1, g1, x2, f2, g2, bounds=None):
    """Where the cubic through two points with their slopes is least, within bounds."""
    low, high = bounds if bounds is not None else ((x1, x2) if x1 <= x2 else (x2, x1))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 ** 2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square ** 0.5
    if x1 > x2:
        x1, g1, x2, g2 = x2, g2, x1, g1
    at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    return min(max(at, low), high)


class _Point:
    """A step's length t, the loss there, the gradient, and its slope along the direction."""

    def __init__(self, t, f, g, slope):
        self.t, self.f, self.g, self.slope = t, f, g, slope


def _bracket(evaluate, start, point, length, c1, c2, tolerance, max_ls):
    """Points that enclose a good step, or one that is good: (points, whether it is one, evaluations, line steps)."""
    evaluations, before = 1, start
    for ls_iter in range(max_ls):
        if point.f > start.f + c1 * point.t * start.slope or (ls_iter > 1 and point.f >= before.f):
            return [before, point], False, evaluations, ls_iter
        if abs(point.slope) <= -c2 * start.slope:
            return [point], True, evaluations, ls_iter
        if point.slope >= 0:
            return [before, point], False, evaluations, ls_iter
        least, most = point.t + 0.01 * (point.t - before.t), point.t * 10
        t = _cubic_minimum(before.t, before.f, before.slope, point.t, point.f, point.slope, bounds=(least, most))
        before, point = point, evaluate(t)
        evaluations += 1
    return [start, point], False, evaluations, max_ls


def _strong_wolfe(evaluate, t, d, f, g, slope, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """A step's length with enough decrease and a flat enough slope: (loss, gradient, length, evaluations)."""
    size = d.abs().max()
    start = _Point(0, f, g, slope)
    points, done, evaluations, ls_iter = _bracket(evaluate, start, evaluate(t), size, c1, c2, tolerance_change, max_ls)
    stuck = False
    low, high = (0, 1) if len(points) == 1 or points[0].f <= points[-1].f else (1, 0)
    while not done and ls_iter < max_ls:
        a, b = points
        if abs(b.t - a.t) * size < tolerance_change:
            break
        t = _cubic_minimum(a.t, a.f, a.slope, b.t, b.f, b.slope)
        least, most = min(a.t, b.t), max(a.t, b.t)
        margin = 0.1 * (most - least)
        if min(most - t, t - least) < margin:  # too near an end: once is allowed, then a tenth of the interval away
            if stuck or t >= most or t <= least:
                t = most - margin if abs(t - most) < abs(t - least) else least + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        point = evaluate(t)
        evaluations += 1
        ls_iter += 1
        if point.f > f + c1 * point.t * slope or point.f >= points[low].f:
            points[high] = point
            low, high = (0, 1) if points[0].f <= points[1].f else (1, 0)
        else:
            if abs(point.slope) <= -c2 * slope:
                done = True
            elif point.slope * (points[high].t - points[low].t) >= 0:
                points[high] = points[low]
            points[low] = point
    best = points[low] if len(points) == 2 else points[0]
    return best.f, best.g, best.t, evaluations


class LBFGS(Optimizer):
    """LBFGS(params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100,
    line_search_fn=None)

    L-BFGS, for few parameters and losses without noise. One group; step(closure) computes the loss several times.

    max_iter, max_eval: the most iterations and losses of a step. tolerance_grad, tolerance_change: when it stops before.
    line_search_fn: None or "strong_wolfe".

    Errors: ValueError for more than one group; TypeError for step() without a closure.

        >>> w = torch.tensor([3.0], requires_grad=True)
        >>> optimizer = torch.optim.LBFGS([w], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = ((w - 1) ** 2).sum()
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> w
        tensor([1.], requires_grad=True)
    """

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100,
                 line_search_fn=None):
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_eval, tolerance_grad=tolerance_grad,
                                      tolerance_change=tolerance_change, history_size=history_size,
                                      line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state):
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # ---- all parameters as one vector ----

    def _flat_grad(self):
        return torch.cat([(p.new_zeros(p.numel()) if p.grad is None else p.grad).reshape(-1) for p in self._params])

    def _move(self, t, direction):
        at = 0
        for p in self._params:
            p.add_(direction[at:at + p.numel()].view_as(p), alpha=t)
            at += p.numel()

    def _put(self, values):
        for p, value in zip(self._params, values):
            p.copy_(value)

    def _evaluator(self, closure, d):
        """t -> the _Point at that step from here; parameters come back to where they are."""
        here = [p.clone() for p in self._params]

        def evaluate(t):
            self._move(t, d)
            f = float(closure())
            g = self._flat_grad()
            self._put(here)
            return _Point(t, f, g, g.dot(d))
        return evaluate

    # ---- the direction ----

    @staticmethod
    def _remember(state, g, history_size):
        y, s = g.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        ys = y.dot(s)
        if ys > 1e-10:
            if len(state["old_dirs"]) == history_size:
                for name in ("old_dirs", "old_stps", "ro"):
                    state[name].pop(0)
            state["old_dirs"].append(y)
            state["old_stps"].append(s)
            state["ro"].append(1.0 / ys)
            state["H_diag"] = ys / y.dot(y)

    @staticmethod
    def _direction(state, g, history_size):
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        al = state.setdefault("al", [None] * history_size)
        q = g.neg()
        for i in range(len(dirs) - 1, -1, -1):
            al[i] = steps[i].dot(q) * ro[i]
            q.add_(dirs[i], alpha=-al[i])
        d = torch.mul(q, state["H_diag"])
        for i in range(len(dirs)):
            d.add_(steps[i], alpha=al[i] - dirs[i].dot(d) * ro[i])
        return d

    @torch.no_grad()
    def step(self, closure):
        """One step: up to max_iter iterations. closure clears the gradients, computes the loss, calls backward and returns it."""
        closure = torch.enable_grad()(closure)
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        g = self._flat_grad()
        if g.abs().max() <= group["tolerance_grad"]:
            return first_loss
        for n in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                state.update(d=g.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
            else:
                self._remember(state, g, group["history_size"])
                state["d"] = self._direction(state, g, group["history_size"])
            d, before = state["d"], loss
            state["prev_flat_grad"], state["prev_loss"] = g.clone(), loss
            t = min(1.0, 1.0 / g.abs().sum()) * group["lr"] if state["n_iter"] == 1 else group["lr"]
            slope = g.dot(d)
            state["t"] = t
            if slope > -group["tolerance_change"]:
                break
            loss, g, t, count = self._search(closure, n, group, d, t, loss, g, slope)
            state["t"] = t
            evaluations += count
            state["func_evals"] += count
            if (n == group["max_iter"] or evaluations >= group["max_eval"] or g.abs().max() <= group["tolerance_grad"]
                    or d.mul(t).abs().max() <= group["tolerance_change"] or abs(loss - before) < group["tolerance_change"]):
                break
        return first_loss

    def _search(self, closure, n, group, d, t, loss, g, slope):
        """Moves along d: (loss, gradient, step's length, evaluations)."""
        if group["line_search_fn"] is not None:
            if group["line_search_fn"] != "strong_wolfe":
                raise RuntimeError("only 'strong_wolfe' is supported")
            loss, g, t, count = _strong_wolfe(self._evaluator(closure, d), t, d, loss, g, slope)
            self._move(t, d)
            return loss, g, t, count
        self._move(t, d)
        if n == group["max_iter"]:
            return loss, g, t, 0
        with torch.enable_grad():
            loss = float(closure())
        return loss, self._flat_grad(), t, 1
