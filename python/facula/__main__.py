"""python -m facula script.py [args]: run a program written for PyTorch, unchanged, with Facula as its torch.

    python -m facula script.py [args]     python -m facula -m module [args]     python -m facula -c "code" [args]
    python -m facula - [args]             (the program is read from standard input)
    python -m facula                      (an interactive session, as python itself starts one)
    python -m facula selftest [--device cuda:0] [--op softmax]     (every operator of a device against the CPU)
    python -m facula doctor [cuda]        (why a device is not there, and how to mend it)

The program sees what it would see under python itself: sys.argv, sys.path[0], __name__, __file__, exit codes, and tracebacks
that begin with its own lines. By the time that this file runs, the package has seen that it runs as torch (_names.py).
"""
import os
import sys
import types

USAGE = __doc__[:__doc__.index("The program")].rstrip()
OURS = {os.path.abspath(__file__), __file__, "<frozen runpy>"}


def fresh_main(**facts):
    """A new __main__, as the interpreter makes it, in the place of this one."""
    main = types.ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]
    for name, value in facts.items():
        setattr(main, "__" + name + "__", value)
    main.__dict__.setdefault("__annotations__", {})
    sys.modules["__main__"] = main
    return main


def run(code, main):
    exec(code, main.__dict__)


def run_file(path, args):
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        return run_container(path, args)
    sys.argv = [path, *args]
    set_path0(os.path.dirname(os.path.realpath(path)))
    try:
        with open(path, "rb") as f:
            text = f.read()
    except OSError as e:
        sys.stderr.write(f"{sys.executable}: can't open file {os.path.abspath(path)!r}: [Errno {e.errno}] {e.strerror}\n")
        sys.exit(2)
    from importlib.machinery import SourceFileLoader
    full = os.path.abspath(path)
    main = fresh_main(file=full, cached=None, loader=SourceFileLoader("__main__", full))
    run(compile(text, full, "exec", dont_inherit=True), main)


def run_container(path, args):
    """A folder or an archive with a __main__.py."""
    import runpy
    sys.argv = [path, *args]
    set_path0(path)
    _, spec, code = runpy._get_main_module_details()
    run_spec(spec, code)


def run_module(name, args):
    import runpy
    sys.argv = ["-m", *args]
    try:
        _, spec, code = runpy._get_module_details(name)
    except ImportError as e:
        sys.exit(f"{sys.executable}: {e}")
    sys.argv[0] = spec.origin
    run_spec(spec, code)


def run_spec(spec, code):
    run(code, fresh_main(file=spec.origin, cached=spec.cached, loader=spec.loader, package=spec.parent, spec=spec))


def run_text(text, name, args):
    sys.argv = [name, *args]
    set_path0("")
    run(compile(text, "<string>" if name == "-c" else "<stdin>", "exec", dont_inherit=True), fresh_main())


def set_path0(folder):
    """python -m has put the working directory first (unless it was told not to): the program's folder belongs there."""
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path[0] = folder


def interact():
    import code
    main = fresh_main()
    set_path0("")
    sys.argv = [""]
    try:
        import readline
        import rlcompleter
        readline.set_completer(rlcompleter.Completer(main.__dict__).complete)
        readline.parse_and_bind("tab: complete")
    except ImportError:
        pass
    torch = sys.modules["torch"]
    banner = f"Facula {torch.__version__} on Python {sys.version.split()[0]}: `import torch` is Facula here"
    code.interact(banner, local=main.__dict__, exitmsg="")


def selftest(args):
    import argparse
    parser = argparse.ArgumentParser(prog="python -m facula selftest", description="Checks every operator of a device against the CPU.")
    parser.add_argument("--device", help="cuda, cuda:1, npu, ... (the best there is)")
    parser.add_argument("--op", help="one operator alone, such as softmax")
    wish = parser.parse_args(args)
    try:
        sys.exit(0 if sys.modules["torch"].selftest(wish.device, wish.op) else 1)
    except (RuntimeError, ValueError) as error:
        sys.exit(f"facula selftest: {error}")


def choose(args):
    if not args:
        if sys.stdin is not None and sys.stdin.isatty():
            return interact()
        return run_text(sys.stdin.read() if sys.stdin else "", "", args)
    first = args[0]
    if first in ("-h", "--help"):
        return print(USAGE)
    if first in ("-V", "--version"):
        return print("Facula", sys.modules["torch"].__version__)
    if first == "-":
        return run_text(sys.stdin.read(), first, args[1:])
    if first in ("-m", "-c"):
        if len(args) < 2:
            sys.exit(f"Argument expected for the {first} option\n{USAGE}")
        return run_module(args[1], args[2:]) if first == "-m" else run_text(args[1], first, args[2:])
    if first == "selftest" and not os.path.exists(first):
        return selftest(args[1:])
    if first == "doctor" and not os.path.exists(first):
        return sys.exit(0 if sys.modules["torch"].doctor(*args[1:2]) else 1)
    if first.startswith("-") and not os.path.exists(first):
        sys.exit(f"facula: unknown option {first}\n{USAGE}")
    return run_file(first, args[1:])


def hide_our_lines():
    """Called for an exception on its way out: whoever prints it (the program's own sys.excepthook, too) sees its lines only."""
    hook = sys.excepthook

    def once(kind, value, trace):
        sys.excepthook = hook
        while trace is not None and is_ours(trace.tb_frame):
            trace = trace.tb_next
        hook(kind, value.with_traceback(trace), trace)
    sys.excepthook = once


def is_ours(frame):
    return frame.f_code.co_filename in OURS or frame.f_globals.get("__name__") == "runpy"


if __name__ == "__main__":
    try:
        choose(sys.argv[1:])
    except SystemExit:
        raise
    except BaseException:
        hide_our_lines()
        raise
