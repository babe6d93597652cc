"""no_grad and its kind: the modes themselves are in C; around functions and generators they are put here."""
import functools

from .._C import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]


def _wrap(mode, function):
    """function, run under the mode; of a generator, each of its steps."""
    import inspect  # 5 ms that nobody needs who decorates nothing

    if inspect.isclass(function):
        raise TypeError("a mode is put around functions; of a class, put it around the methods")
    if inspect.isgeneratorfunction(function):
        @functools.wraps(function)
        def generator(*args, **kwargs):
            source, sent = function(*args, **kwargs), None
            while True:
                with mode.clone():
                    try:
                        value = source.send(sent)
                    except StopIteration as stop:
                        return stop.value
                sent = yield value
        return generator

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with mode.clone():
            return function(*args, **kwargs)
    return wrapped
