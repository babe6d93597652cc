"""Everything public that Python can call, with arguments that are right: from the examples of the docstrings.

`calls()` gives functions and classes of all modules, `methods()` the methods of their instances, each once: (label, make), where
make() gives the function, its arguments and its keywords, all fresh. hostile.py replaces the arguments by wrong ones,
test_leaks.py calls the same thing a thousand times. Run with FACULA_SIM=cuda:2, which the examples of devices need.
"""

import ast
import contextlib
import doctest
import inspect
import io
import warnings

import facula
import test_help

# What must not be called with any arguments, and why.
NOT_CALLED = {
    "facula.multiprocessing.spawn": "starts as many processes as it is told",
    "facula.multiprocessing.start_processes": "starts as many processes as it is told",
    "facula.multiprocessing.ProcessContext": "its example starts processes",
    "facula.nn.modules.module.register_module_forward_pre_hook": "a wrong hook would stay for all modules",
    "facula.nn.modules.module.register_module_forward_hook": "a wrong hook would stay for all modules",
    "facula.nn.modules.module.register_module_full_backward_pre_hook": "a wrong hook would stay for all modules",
    "facula.nn.modules.module.register_module_full_backward_hook": "a wrong hook would stay for all modules",
    "facula.optim.optimizer.register_optimizer_step_pre_hook": "a wrong hook would stay for all optimizers",
    "facula.optim.optimizer.register_optimizer_step_post_hook": "a wrong hook would stay for all optimizers",
    "facula.distributions.register_kl": "what is registered stays",
    "facula.set_default_device": "all further tensors would lie there",
    "facula.set_num_threads": "starts as many threads as it is told",
    **{
        "facula.nn." + name: "makes as many layers as it is told, as in PyTorch"
        for name in ("RNN", "LSTM", "GRU", "Transformer", "TransformerEncoder", "TransformerDecoder")
    },
}
SAME = ("facula.xpu", "facula.mps", "facula.npu", "facula.opencl")  # the functions of facula.cuda for kinds that are not there
PLAIN = (object, tuple, list, dict, set, int, str, RuntimeError, Exception, BaseException)


def space():
    return {"torch": facula, "F": facula.nn.functional, "nn": facula.nn}


def found_call(tree, name):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None)) == name:
            return node
    return None


def example_call(text, name):
    """(function, arguments, keywords) of the call of `name` in a docstring's example; None if there is no such call."""
    names = space()
    for example in doctest.DocTestParser().get_examples((text or "").replace("from torch.", "from facula.")):
        tree = ast.parse(example.source)
        node = found_call(tree, name)
        if node is not None:
            with contextlib.suppress(Exception):

                def value(n):
                    return eval(compile(ast.Expression(n), "<example>", "eval"), names)

                return value(node.func), [value(a) for a in node.args], {k.arg: value(k.value) for k in node.keywords}
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            exec(compile(tree, "<example>", "exec"), names)
    return None


def calls():
    """Functions and classes that are not in the tables of examples: (label, make)."""
    for full, value in test_help.public():
        if full in NOT_CALLED or full.startswith(SAME) or inspect.isbuiltin(value) or inspect.ismethoddescriptor(value):
            continue
        name = full.rpartition(".")[2]
        yield full, lambda value=value, name=name: example_call(value.__doc__, name) or (value, [], {})


def weight_hook():
    return facula.nn.Linear(2, 2).register_forward_hook(lambda *a: None)


# Instances that no example makes by a call of the class.
RECIPES = {
    "EmbeddingBag": lambda: facula.nn.EmbeddingBag(3, 2),
    "PackedSequence": lambda: facula.nn.utils.rnn.pack_sequence([facula.ones(3), facula.ones(1)]),
    "UntypedStorage": lambda: facula.ones(3).untyped_storage(),
    "TypedStorage": lambda: facula.ones(3).storage(),
    "StreamContext": lambda: facula.cuda.stream(facula.cuda.Stream()),
    "RemovableHandle": weight_hook,
    "ParametrizationList": lambda: facula.nn.utils.parametrize.register_parametrization(
        facula.nn.Linear(2, 2), "weight", facula.nn.Identity()
    ).parametrizations.weight,
    "Module": lambda: facula.nn.Sequential(facula.nn.Linear(3, 2)),
    "Optimizer": lambda: facula.optim.SGD([facula.ones(2, requires_grad=True)], lr=0.1),
    "LRScheduler": lambda: facula.optim.lr_scheduler.StepLR(RECIPES["Optimizer"](), 1),
    "Node": lambda: facula.ones(2, requires_grad=True).exp().grad_fn,
}


def instance_of(kind, name):
    if name in RECIPES:
        return RECIPES[name]()
    made = example_call(kind.__doc__, name)
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = made[0](*made[1], **made[2])
        return one if isinstance(one, kind) else None
    return None


def methods():
    """Methods of instances of the classes, by the examples of the methods or without arguments: (label, make)."""
    seen = set()
    for full, kind in test_help.public():
        name = full.rpartition(".")[2]
        if not inspect.isclass(kind) or full in NOT_CALLED and not full.startswith("facula.nn.") or full.startswith(SAME) or issubclass(kind, facula.Tensor):
            continue
        one = instance_of(kind, name)
        for method in dir(kind) if one is not None else ():
            raw = inspect.getattr_static(kind, method)
            plain = any(method in vars(base) and vars(base)[method] is raw for base in PLAIN)
            hidden = method.startswith("_") and method not in SPECIAL
            if hidden or plain or id(raw) in seen or isinstance(raw, property) or not callable(getattr(one, method, None)):
                continue
            seen.add(id(raw))

            def make(kind=kind, name=name, method=method):
                return getattr(instance_of(kind, name), method), list(GOOD.get(method, ())), {}

            yield f"{full}.{method}", make


SPECIAL = ("__call__", "__getitem__", "__setitem__", "__delitem__", "__contains__", "__len__", "__enter__", "__exit__", "__iter__", "__setstate__",
           "__getstate__", "__eq__", "__hash__", "__repr__")
# Arguments that are right for most methods of a name.
GOOD = {
    "__call__": (facula.ones(2, 3),),
    "forward": (facula.ones(2, 3),),
    "__getitem__": (0,),
    "log_prob": (facula.tensor(0.5),),
    "cdf": (facula.tensor(0.5),),
    "expand": ((2,),),
    "load_state_dict": ({},),
}
