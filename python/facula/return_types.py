"""Results of several tensors, with names: max(x, dim) gives return_types.max(values=..., indices=...)."""
from ._C import _names


class _Result(tuple):
    """A tuple whose parts have names, printed as torch prints it."""
    __slots__ = ()
    _fields = ()

    def __new__(cls, parts):
        return tuple.__new__(cls, parts)

    def __repr__(self):
        parts = ",\n".join(f"{name}={part!r}" for name, part in zip(self._fields, self))
        return f"{_names}.return_types.{type(self).__name__}(\n{parts})"

    def __reduce__(self):
        return type(self), (tuple(self),)


def _make(name, *fields):
    parts = {field: property(lambda self, i=i: self[i], doc=f"Part {i} of the result.") for i, field in enumerate(fields)}
    doc = f"{name}(({', '.join(fields)})): a result of torch.{name.replace('linalg_', 'linalg.')}.\n\n>>> torch.return_types.{name}(({', '.join('123456'[: len(fields)])})).{fields[0]}\n1"
    return type(name, (_Result,), {"__slots__": (), "_fields": fields, "__module__": f"{_names}.return_types", "__doc__": doc, **parts})


for _name in ("max", "min", "sort", "topk", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin"):
    globals()[_name] = _make(_name, "values", "indices")
aminmax = _make("aminmax", "min", "max")
slogdet = _make("slogdet", "sign", "logabsdet")
linalg_slogdet = _make("linalg_slogdet", "sign", "logabsdet")
qr = _make("qr", "Q", "R")
linalg_qr = _make("linalg_qr", "Q", "R")
linalg_eigh = _make("linalg_eigh", "eigenvalues", "eigenvectors")
svd = _make("svd", "U", "S", "V")
linalg_svd = _make("linalg_svd", "U", "S", "Vh")
linalg_lstsq = _make("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
