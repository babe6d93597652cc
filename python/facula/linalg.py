"""Linear algebra: torch.linalg's names for the library's factorisations. LAPACK does the work, on the host."""

import functools as _functools

from . import _C, return_types as _types


__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "lstsq", "matmul", "matrix_exp", "matrix_norm",
    "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals",
    "vecdot", "vector_norm",
]


class LinAlgError(RuntimeError):
    """A matrix that is singular, not positive definite, or whose factorisation did not converge.

    >>> issubclass(torch.linalg.LinAlgError, RuntimeError)
    True
    """


_SIGNS = ("singular", "positive-definite", "failed to converge")


def _checked(function):
    @_functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            if type(error) is RuntimeError and any(sign in str(error) for sign in _SIGNS):
                raise LinAlgError(str(error)) from None
            raise

    return call


@_checked
def inv(A):
    """inv(A) -> Tensor

    The inverse of a square matrix [..., n, n].

    >>> torch.linalg.inv(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return _C.inverse(A)


@_checked
def det(A):
    """det(A) -> Tensor

    The determinant of a square matrix [..., n, n].

    >>> torch.linalg.det(torch.tensor([[1., 2.], [3., 4.]]))
    tensor(-2.)
    """
    return _C.det(A)


@_checked
def slogdet(A):
    """slogdet(A) -> (Tensor sign, Tensor logabsdet)

    The sign and the logarithm of the size of the determinant.

    >>> torch.linalg.slogdet(torch.tensor([[1., 2.], [3., 4.]])).sign
    tensor(-1.)
    """
    return _C._linalg_slogdet(A)


@_checked
def solve(A, B, *, left=True):
    """solve(A, B, *, left=True) -> Tensor

    X of A X = B (left) or X A = B; B [..., n, k], or [..., n].

    >>> torch.linalg.solve(torch.tensor([[2., 0.], [0., 4.]]), torch.tensor([2., 2.]))
    tensor([1.0000, 0.5000])
    """
    return _C._linalg_solve(A, B) if left else _C._linalg_solve(A.mT, B.mT).mT


@_checked
def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """solve_triangular(A, B, *, upper, left=True, unitriangular=False) -> Tensor

    X of A X = B where only A's upper (or lower) triangle counts; unitriangular: its diagonal is taken for ones.

    >>> torch.linalg.solve_triangular(torch.tensor([[2., 9.], [0., 4.]]), torch.tensor([[2.], [4.]]), upper=True)
    tensor([[-3.5000],
            [ 1.0000]])
    """
    A = A.triu(int(unitriangular)) if upper else A.tril(-int(unitriangular))
    if unitriangular:
        A = A + _C.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    return solve(A, B, left=left)


@_checked
def cholesky(A, *, upper=False):
    """cholesky(A, *, upper=False) -> Tensor

    The lower triangle L of A = L L^T, for a symmetric positive-definite A.

    >>> torch.linalg.cholesky(torch.tensor([[4., 2.], [2., 5.]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return _C.cholesky(A, upper)


@_checked
def qr(A, mode="reduced"):
    """qr(A, mode='reduced') -> (Tensor Q, Tensor R)

    A = Q R; mode "complete": Q square; "r": R alone.

    >>> Q, R = torch.linalg.qr(torch.tensor([[1., 2.], [3., 4.], [5., 6.]]))
    >>> Q.shape, R.shape
    (torch.Size([3, 2]), torch.Size([2, 2]))
    """
    return _C._linalg_qr(A, mode)


@_checked
def eigh(A, UPLO="L"):
    """eigh(A, UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)

    Of a symmetric matrix, of which the lower ("L") or upper ("U") triangle is read. Values in rising order, vectors in columns.

    >>> torch.linalg.eigh(torch.tensor([[2., 1.], [1., 2.]])).eigenvalues
    tensor([1., 3.])
    """
    return _C._linalg_eigh(A, UPLO)


@_checked
def eigvalsh(A, UPLO="L"):
    """eigvalsh(A, UPLO='L') -> Tensor

    The eigenvalues of a symmetric matrix, in rising order.

    >>> torch.linalg.eigvalsh(torch.tensor([[2., 1.], [1., 2.]]))
    tensor([1., 3.])
    """
    return _C._linalg_eigh(A, UPLO)[0]


@_checked
def svd(A, full_matrices=True):
    """svd(A, full_matrices=True) -> (Tensor U, Tensor S, Tensor Vh)

    A = U diag(S) Vh, S in falling order. full_matrices: U and Vh are square.

    >>> torch.linalg.svd(torch.tensor([[3., 0.], [0., 4.]])).S
    tensor([4., 3.])
    """
    return _C._linalg_svd(A, full_matrices)


@_checked
def svdvals(A):
    """svdvals(A) -> Tensor

    The singular values, in falling order.

    >>> torch.linalg.svdvals(torch.tensor([[3., 0.], [0., 4.]]))
    tensor([4., 3.])
    """
    return _C._linalg_svdvals(A)


@_checked
def pinv(A, rtol=None, *, rcond=None):
    """pinv(A, rtol=None) -> Tensor

    The inverse of Moore and Penrose; singular values up to rtol times the largest count as zero.

    >>> torch.linalg.pinv(torch.tensor([[2.], [0.]]))
    tensor([[0.5000, 0.0000]])
    """
    rtol = rcond if rtol is None else rtol
    return _C._linalg_pinv(A) if rtol is None else _C._linalg_pinv(A, float(rtol))


@_checked
def matrix_rank(A, tol=None, *, rtol=None):
    """matrix_rank(A, *, rtol=None) -> Tensor

    How many singular values are above rtol times the largest.

    >>> torch.linalg.matrix_rank(torch.tensor([[1., 2.], [2., 4.]]))
    tensor(1)
    """
    if tol is not None:
        return (svdvals(A) > tol).sum(-1)
    return _C._linalg_matrix_rank(A) if rtol is None else _C._linalg_matrix_rank(A, float(rtol))


@_checked
def lstsq(A, B, rcond=None, *, driver=None):
    """lstsq(A, B, rcond=None) -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)

    The shortest X with the least |A X - B|, by singular values, whichever driver is named.

    >>> A = torch.tensor([[1., 0.], [1., 1.], [1., 2.]])
    >>> torch.linalg.lstsq(A, torch.tensor([[1.], [3.], [5.]])).solution
    tensor([[1.],
            [2.]])
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), not {driver}")
    m, n = A.shape[-2:]
    vector = B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])
    right = B.unsqueeze(-1) if vector else B
    solution = pinv(A, rcond) @ right
    rank, none = matrix_rank(A, rtol=rcond), _C.empty(0, dtype=A.dtype, device=A.device)
    full = m > n and bool((rank == n).all())
    residuals = (A @ solution - right).square().sum(-2) if full else none
    values = svdvals(A) if driver in ("gelsd", "gelss") else none
    return _types.linalg_lstsq((solution.squeeze(-1) if vector else solution, residuals, rank, values))


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """vector_norm(x, ord=2, dim=None, keepdim=False) -> Tensor

    The norm of x as a vector, or of the vectors along dim.

    >>> torch.linalg.vector_norm(torch.tensor([[3., 4.], [6., 8.]]), dim=1)
    tensor([ 5., 10.])
    """
    if x.dtype not in (_C.float16, _C.bfloat16, _C.float32, _C.float64) and dtype is None:
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {x.dtype}")
    return _C.norm(x, ord, dim, keepdim, dtype=dtype)


@_checked
def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """matrix_norm(A, ord='fro', dim=(-2, -1), keepdim=False) -> Tensor

    ord: "fro", "nuc", 2, -2, 1, -1, inf or -inf.

    >>> torch.linalg.matrix_norm(torch.tensor([[3., 0.], [0., 4.]]), ord=2)
    tensor(4.)
    """
    A = A if dtype is None else A.to(dtype)
    if ord == "fro":
        return _C.norm(A, 2, dim, keepdim)
    A = A.movedim(dim, (-2, -1))
    if ord in ("nuc", 2, -2):
        values = svdvals(A)
        result = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord == 2 else values.amin(-1)
    elif ord in (1, -1, float("inf"), float("-inf")):
        sums = A.abs().sum(-2 if abs(ord) == 1 else -1)
        result = sums.amax(-1) if ord > 0 else sums.amin(-1)
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    for d in sorted(d % A.dim() for d in dim) if keepdim else ():
        result = result.unsqueeze(d)
    return result


def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """norm(A, ord=None, dim=None, keepdim=False) -> Tensor

    The norm of vectors, or of matrices where ord is given and dim names two dimensions (or A has two).

    >>> torch.linalg.norm(torch.tensor([3., 4.]))
    tensor(5.)
    """
    pair = dim is not None and not isinstance(dim, int) and len(dim) == 2
    if ord is not None and (pair or (dim is None and A.dim() == 2)):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@_checked
def cond(A, p=None):
    """cond(A, p=None) -> Tensor

    The condition number: the largest singular value over the smallest, or the norm p of A times that of its inverse.

    >>> torch.linalg.cond(torch.tensor([[2., 0.], [0., 8.]]))
    tensor(4.)
    """
    if p in (None, 2):
        values = svdvals(A)
        return values[..., 0] / values[..., -1]
    return matrix_norm(A, p) * matrix_norm(inv(A), p)


def matrix_exp(A):
    """matrix_exp(A) -> Tensor

    The exponential of square matrices.

    >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return _C.matrix_exp(A)


@_checked
def matrix_power(A, n):
    """matrix_power(A, n) -> Tensor

    A times itself n times; n below 0: of the inverse.

    >>> torch.linalg.matrix_power(torch.tensor([[1., 1.], [0., 1.]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    if n < 0:
        A, n = inv(A), -n
    result = None
    while n:
        if n & 1:
            result = A if result is None else result @ A
        A, n = (A @ A if n > 1 else A), n >> 1
    return _C.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand(A.shape).clone() if result is None else result


def multi_dot(tensors):
    """multi_dot(tensors) -> Tensor

    The product of matrices, in the order of products that costs least.

    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 1), torch.ones(1, 2)])
    tensor([[3., 3.],
            [3., 3.]])
    """
    tensors = list(tensors)
    first, last = tensors[0].dim() == 1, tensors[-1].dim() == 1
    tensors[0] = tensors[0].unsqueeze(0) if first else tensors[0]
    tensors[-1] = tensors[-1].unsqueeze(1) if last else tensors[-1]
    sizes = [t.shape[0] for t in tensors] + [tensors[-1].shape[1]]

    @_functools.lru_cache(None)
    def best(i, j):
        if i == j:
            return 0, i
        return min((best(i, k)[0] + best(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))

    def product(i, j):
        k = best(i, j)[1]
        return tensors[i] if i == j else product(i, k) @ product(k + 1, j)

    result = product(0, len(tensors) - 1)
    result = result.squeeze(0) if first else result
    return result.squeeze(-1) if last else result


def matmul(input, other):
    """matmul(input, other) -> Tensor

    torch.matmul.

    >>> torch.linalg.matmul(torch.ones(2), torch.ones(2))
    tensor(2.)
    """
    return _C.matmul(input, other)


def cross(input, other, *, dim=-1):
    """cross(input, other, *, dim=-1) -> Tensor

    The vectors at right angles to both.

    >>> torch.linalg.cross(torch.tensor([1., 0., 0.]), torch.tensor([0., 1., 0.]))
    tensor([0., 0., 1.])
    """
    return _C.cross(input, other, dim)


def vecdot(x, y, *, dim=-1):
    """vecdot(x, y, *, dim=-1) -> Tensor

    Scalar products along dim.

    >>> torch.linalg.vecdot(torch.tensor([1., 2.]), torch.tensor([3., 4.]))
    tensor(11.)
    """
    x, y = _C.broadcast_tensors(x, y)
    return (x.movedim(dim, -1).unsqueeze(-2) @ y.movedim(dim, -1).unsqueeze(-1)).squeeze((-2, -1))


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """diagonal(A, *, offset=0, dim1=-2, dim2=-1) -> Tensor

    A diagonal of each matrix.

    >>> torch.linalg.diagonal(torch.tensor([[1., 2.], [3., 4.]]))
    tensor([1., 4.])
    """
    return _C.diagonal(A, offset, dim1, dim2)
