"""What torch.backends has beside the switches of __init__.py: functions that turn things on, or say that they are not there."""
import contextlib
import types

from .. import _C


def _pair(name, get_doc, what, value=True):
    """(enable_x, x_enabled) over one noted value."""
    noted = [value]

    def enable(enabled):
        noted[0] = bool(enabled)

    def enabled():
        return noted[0]
    enable.__name__, enabled.__name__ = f"enable_{name}_sdp", f"{name}_sdp_enabled"
    enable.__doc__, enabled.__doc__ = f"Noted: {what}", get_doc
    return {enable.__name__: enable, enabled.__name__: enabled}


def _cuda():
    """For torch.backends.cuda."""
    kinds = {}
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        kinds.update(_pair(name, "What enable was given; True before.", "scaled_dot_product_attention has one implementation here."))
    reduced = [False]

    def allow_fp16_bf16_reduction_math_sdp(enabled):
        """Noted: attention adds in float32 always."""
        reduced[0] = bool(enabled)

    def fp16_bf16_reduction_math_sdp_allowed():
        """What allow_fp16_bf16_reduction_math_sdp was given."""
        return reduced[0]

    def is_flash_attention_available():
        """Whether PyTorch's flash attention is there: no, but attention here never stores the whole matrix either."""
        return False

    def is_ck_sdpa_available():
        """Whether AMD's attention is there: no."""
        return False

    @contextlib.contextmanager
    def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
        """The switches of attention within a block."""
        given = {"flash": enable_flash, "math": enable_math, "mem_efficient": enable_mem_efficient, "cudnn": enable_cudnn}
        before = {name: kinds[f"{name}_sdp_enabled"]() for name in given}
        for name, value in given.items():
            kinds[f"enable_{name}_sdp"](value)
        try:
            yield {}
        finally:
            for name, value in before.items():
                kinds[f"enable_{name}_sdp"](value)

    def preferred_linalg_library(backend=None):
        """Which library serves linear algebra: LAPACK on the host, whatever is asked for."""
        return "lapack"

    def preferred_rocm_fa_library(backend=None):
        """Which library serves attention on AMD's devices: none."""
        return "facula"

    def blas_workspace_size(size=None, backend=None):
        """Bytes set aside for a library of matrix products: none."""
        return 0

    def cublas_workspace_size(size=None):
        """Bytes set aside for cuBLAS: none."""
        return 0

    def cublaslt_workspace_size(size=None):
        """Bytes set aside for cuBLASLt: none."""
        return 0

    names = dict(locals())
    for hidden in ("kinds", "reduced", "name"):
        names.pop(hidden)
    return {**names, **kinds}


def _noted(module, doc, **values):
    """flags() and set_flags() of a module of switches, whose parameters are these, in torch's order with "_" before each for set_flags."""
    names = list(values)

    def set_all(given):
        before = tuple(getattr(module, n) for n in names)
        for n, value in given.items():
            if value is not None:
                setattr(module, n, value)
        return before

    @contextlib.contextmanager
    def flags(**given):
        unknown = [n for n in given if n not in values]
        if unknown:
            raise TypeError(f"flags() got an unexpected keyword argument '{unknown[0]}'; there are: {', '.join(names)}")
        before = set_all({**values, **given})
        try:
            yield
        finally:
            set_all(dict(zip(names, before)))
    flags.__doc__ = f"The switches of {doc} within a block."
    return set_all, flags


def _cudnn(module):
    """For torch.backends.cudnn."""
    set_all, inside = _noted(module, "cuDNN", enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
                             fp32_precision="none", depthwise_kernel="auto")

    def set_flags(_enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None, _allow_tf32=None, _fp32_precision="none",
                  _depthwise_kernel=None):
        """Sets the switches that are given; returns those of before."""
        return set_all({"enabled": _enabled, "benchmark": _benchmark, "benchmark_limit": _benchmark_limit, "deterministic": _deterministic,
                        "allow_tf32": _allow_tf32, "fp32_precision": _fp32_precision, "depthwise_kernel": _depthwise_kernel})

    def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True, fp32_precision="none",
              depthwise_kernel="auto"):
        """The switches within a block."""
        return inside(enabled=enabled, benchmark=benchmark, benchmark_limit=benchmark_limit, deterministic=deterministic, allow_tf32=allow_tf32,
                      fp32_precision=fp32_precision, depthwise_kernel=depthwise_kernel)

    def is_acceptable(tensor):
        """Whether cuDNN serves operations on this tensor."""
        return tensor.device.type == "cuda" and module.enabled and module.is_available() and tensor.is_floating_point()

    return {"set_flags": set_flags, "flags": flags, "is_acceptable": is_acceptable, "benchmark_limit": 10, "depthwise_kernel": "auto",
            "fp32_precision": "none", "conv": _Precision(), "rnn": _Precision()}


class _Precision(types.SimpleNamespace):
    """A switch of precision, noted: Facula computes float32 in float32."""

    def __init__(self):
        super().__init__(fp32_precision="none")


def _mkldnn(module):
    """For torch.backends.mkldnn."""
    set_all, inside = _noted(module, "oneDNN", enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none")

    def set_flags(_enabled=None, _deterministic=None, _allow_tf32=None, _fp32_precision="none"):
        """Sets the switches that are given; returns those of before."""
        return set_all({"enabled": _enabled, "deterministic": _deterministic, "allow_tf32": _allow_tf32, "fp32_precision": _fp32_precision})

    def flags(enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"):
        """The switches within a block."""
        return inside(enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32, fp32_precision=fp32_precision)

    def is_acl_available():
        """Whether Arm's compute library is used: no."""
        return False

    return {"set_flags": set_flags, "flags": flags, "is_acl_available": is_acl_available, "deterministic": False, "allow_tf32": True,
            "fp32_precision": "none", "conv": _Precision(), "matmul": _Precision(), "rnn": _Precision()}


def _mps(module):
    """For torch.backends.mps."""
    def is_macos_or_newer(major, minor):
        """Whether this is macOS of at least that version."""
        import platform
        found = [int(part) for part in platform.mac_ver()[0].split(".")[:2] if part]
        return bool(found) and found >= [major, minor]

    def is_macos13_or_newer(minor=0):
        """Whether this is macOS 13.minor or newer."""
        return is_macos_or_newer(13, minor)

    def get_name():
        """The name of Apple's GPU."""
        return _C._device_properties(_C.device("mps"))["name"]

    def get_core_count():
        """How many cores Apple's GPU has."""
        return _C._device_properties(_C.device("mps"))["multi_processor_count"]

    return {f.__name__: f for f in (is_macos_or_newer, is_macos13_or_newer, get_name, get_core_count)}


def _others(opt_einsum):
    """Of the modules that are nothing but these few names: {"cpu": {...}}."""
    set_all, inside = _noted(opt_einsum, "opt_einsum", enabled=None, strategy=None)

    def get_cpu_capability():
        """The vectors that the kernels use: "AVX2", "AVX512" or "DEFAULT"."""
        return {"avx2": "AVX2", "avx512": "AVX512"}.get(_C._instruction_set(), "DEFAULT")

    fast = [True]

    def get_fastpath_enabled():
        """Whether nn.MultiheadAttention may take a faster way: noted, there is one way."""
        return fast[0]

    def set_fastpath_enabled(value):
        """Noted: nn.MultiheadAttention has one way."""
        fast[0] = value

    def is_available():
        """Whether opt_einsum is used: no, einsum takes its operands from left to right."""
        return False

    def get_opt_einsum():
        """The package opt_einsum, which is not used: None."""

    def set_flags(_enabled=None, _strategy=None):
        """Sets the switches that are given; returns those of before."""
        return set_all({"enabled": _enabled, "strategy": _strategy})

    def flags(enabled=None, strategy=None):
        """The switches within a block."""
        return inside(enabled=enabled, strategy=strategy)

    return {"cpu": {"get_cpu_capability": get_cpu_capability},
            "mha": {"get_fastpath_enabled": get_fastpath_enabled, "set_fastpath_enabled": set_fastpath_enabled},
            "opt_einsum": {"is_available": is_available, "get_opt_einsum": get_opt_einsum, "set_flags": set_flags, "flags": flags, "enabled": False,
                           "strategy": None}}


def add(modules):
    """Fills the modules of torch.backends, a dict of them by name; what they have already stays."""
    parts = {"cuda": _cuda(), "cudnn": _cudnn(modules["cudnn"]), "mkldnn": _mkldnn(modules["mkldnn"]), "mps": _mps(modules["mps"]),
             **_others(modules["opt_einsum"])}
    for name, attributes in parts.items():
        for key, value in attributes.items():
            modules[name].__dict__.setdefault(key, value)
