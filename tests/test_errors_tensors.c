/* Errors of what orders, counts, summarises, arranges and chooses, as docs/errors.md lists them. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:2 */
/* test-env-opencl: FACULA_OPENCL=cpu */
#include "autograd/composite.h"
#include "support/check.h"
#include "support/refused.h"
#include <facula.h>
#include <math.h>

static fa_tensor *zeros(fa_shape shape) { return fa_zeros(shape, .device = device); }
static fa_tensor *whole(fa_shape shape) { return fa_zeros(shape, .dtype = FA_INT64, .device = device); }
static fa_tensor *vector(void) { return watch(counting(FA_SHAPE(3))); }
static fa_tensor *matrix(void) { return watch(counting(FA_SHAPE(2, 3))); }
static fa_tensor *cube(void) { return watch(counting(FA_SHAPE(2, 2, 3))); }
static fa_tensor *number(double value) { return fa_full(FA_SHAPE_0D, value, .device = device); }
static fa_tensor *ints(int64_t value) { return fa_full(FA_SHAPE(1), value, .device = device); }
static const fa_shape none = {0, {0}};

static void order(void **state) {
    (void)state;
    fa_tensor *v = vector(), *m = matrix(), *flags = fa_gt_scalar(v, 1), *zero = number(1);
    REFUSED(fa_topk(v, 4, 0, true, NULL), RUNTIME,
            "selected index k out of range: k is 4, dimension 0 has 3 elements. k is 0 to that many.");
    REFUSED(fa_topk(flags, 1, 0, true, NULL), RUNTIME, "topk does not support bool dtypes on CPU, nor on other devices");
    REFUSED(fa_kthvalue(v, 0, 0, false, NULL), RUNTIME,
            "kthvalue(): selected number k out of range for dimension 0: k is 0, there are 3 elements, and k counts from 1");
    REFUSED(fa_kthvalue(zeros(FA_SHAPE(0)), 1, 0, false, NULL), INDEX,
            "kthvalue(): Expected reduction dim 0 to have non-zero size.");
    REFUSED(fa_median(flags), UNSUPPORTED, "\"median_cpu\" not implemented for 'Bool'");
    REFUSED(fa_logcumsumexp(whole(FA_SHAPE(2)), 0), UNSUPPORTED,
            "\"logcumsumexp_out_cpu\" not implemented for 'Long'. It takes floating tensors");
    REFUSED(fa_searchsorted(flags, flags, false, false), UNSUPPORTED, "\"searchsorted_out_cpu\" not implemented for 'Bool'");
    REFUSED(fa_searchsorted(zero, v, false, false), RUNTIME,
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension");
    REFUSED(fa_searchsorted(m, counting(FA_SHAPE(3, 3)), false, false), RUNTIME,
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
            "input value tensor must match, but we got boundaries tensor [2, 3] and input value tensor [3, 3]");
    REFUSED(fa_bucketize(v, m, false, false), RUNTIME, "boundaries tensor must be 1 dimension, but got dim(2)");
}

static void counted(void **state) {
    (void)state;
    fa_tensor *v = vector(), *m = matrix(), *n = whole(FA_SHAPE(3)), *flags = fa_gt_scalar(v, 1);
    REFUSED(fa_unique_dim(zeros(FA_SHAPE(3, 0)), 0, NULL, NULL), RUNTIME,
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied: dimension 1");
    REFUSED(fa_bincount(v, NULL, 0), UNSUPPORTED,
            "\"bincount_cpu\" not implemented for 'Float': x holds whole numbers, fa_cast(x, FA_INT64)");
    REFUSED(fa_bincount(whole(FA_SHAPE(2, 2)), NULL, 0), RUNTIME,
            "bincount only supports 1-d non-negative integral inputs. x has 2 dimensions.");
    REFUSED(fa_bincount(ints(-1), NULL, 0), RUNTIME,
            "bincount only supports 1-d non-negative integral inputs. The smallest is -1.");
    REFUSED(fa_bincount(n, NULL, -1), RUNTIME, "minlength should be >= 0, but it is -1");
    REFUSED(fa_bincount(n, zeros(FA_SHAPE(2)), 0), RUNTIME,
            "weights should be 1-d and have the same length as input: 2 and 3 elements");
    REFUSED(fa_histc(n, 2, 0, 1), UNSUPPORTED, "\"histogram_cpu\" not implemented for 'Long'. It takes floating tensors");
    REFUSED(fa_histc(v, 0, 0, 1), RUNTIME, "torch.histogram(): bins must be > 0, but got 0 for dimension 0");
    REFUSED(fa_histc(v, 2, 3, 1), RUNTIME, "torch.histc: max must be larger than min; low is 3, high 1");
    REFUSED(fa_histc(v, 2, 0, INFINITY), RUNTIME, "torch.histc: range of [0, inf] is not finite: give low and high");
    REFUSED(fa_isin(flags, flags, false), RUNTIME, "Unsupported input type encountered for isin(): Bool.");
    REFUSED(fa_scatter_reduce(v, 0, ints(0), fa_narrow(v, 0, 0, 1), "most", true), RUNTIME,
            "reduce argument must be either sum, prod, mean, amax or amin, got most");
    REFUSED(fa_scatter_join(v, 0, ints(0), fa_narrow(v, 0, 0, 1), 7), VALUE,
            "argument 'how' is 7; 1 multiplies, 2 takes the largest, 3 the smallest");
    REFUSED(fa_index_reduce(m, 0, ints(0), m, "sum", true), RUNTIME,
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got sum.");
    REFUSED(fa_index_reduce(m, 0, ints(0), m, "prod", true), RUNTIME,
            "index_reduce_(): Number of indices (1) should be equal to source.size(dim): (2), for dim: 0; the index is a vector");
}

static void statistics(void **state) {
    (void)state;
    fa_tensor *v = vector(), *c = cube(), *n = whole(FA_SHAPE(3)), *half = number(0.5), *empty = zeros(FA_SHAPE(0));
    REFUSED(fa_aminmax(empty, NULL), RUNTIME,
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.");
    REFUSED(fa_nanmean(n), RUNTIME, "nanmean(): expected input to have floating point or complex dtype but got Long");
    REFUSED(fa_quantile(n, half, "linear"), RUNTIME, "quantile() input tensor must be either float or double dtype; it is int64");
    REFUSED(fa_quantile(empty, half, "linear"), RUNTIME, "quantile() input tensor must be non-empty");
    REFUSED(fa_quantile(v, zeros(FA_SHAPE(2, 2)), "linear"), RUNTIME,
            "quantile() q must be a scalar or 1D tensor; it has 2 dimensions");
    REFUSED(fa_quantile(v, fa_cast(half, FA_FLOAT64), "linear"), RUNTIME,
            "quantile() q tensor must be same dtype as the input tensor: float64 and float32");
    REFUSED(fa_quantile(v, half, "cubic"), RUNTIME,
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got cubic");
    REFUSED(fa_quantile(v, number(2), "linear"), RUNTIME, "quantile() q must be in the range [0, 1] but got 2");
    REFUSED(fa_cov(fa_gt_scalar(v, 1), 1), RUNTIME, "cov(): bool dtype is not supported for input");
    REFUSED(fa_cov(c, 1), RUNTIME, "cov(): expected input to have two or fewer dimensions but got an input with 3 dimensions");
    REFUSED(fa_isclose(v, n, 0, 0, false), RUNTIME, "Float did not match Long: x and y have the same dtype, fa_cast one of them");
    REFUSED(fa_isclose(v, v, -1, 0, false), RUNTIME, "rtol must be greater than or equal to zero, but got -1");
    REFUSED(fa_isclose(v, v, 0, -1, false), RUNTIME, "atol must be greater than or equal to zero, but got -1");
    REFUSED(fa_diff(half, 1, 0), RUNTIME, "diff expects input to be at least one-dimensional");
    REFUSED(fa_diff(v, -1, 0), RUNTIME, "order must be non-negative but got -1");
}

static void shapes(void **state) {
    (void)state;
    fa_tensor *v = vector(), *m = matrix(), *c = cube(), *zero = number(1), *at = ints(0);
    fa_tensor *parts[2] = {NULL}, *nine[9];
    for (int i = 0; i < 9; i++) nine[i] = v;
    REFUSED(fa_movedim(m, FA_DIMS(0, 0), FA_DIMS(0, 1)), RUNTIME, "movedim: repeated dim in `source` ([0, 0])");
    REFUSED(fa_movedim(m, FA_DIMS(0), FA_DIMS(0, 1)), RUNTIME,
            "movedim: Invalid source or destination dims: source (1 dims) should contain the same number of dims as destination "
            "(2 dims)");
    REFUSED(fa_roll_dims(m, none, none), RUNTIME, "roll: `shifts` required, one for each dimension");
    REFUSED(fa_roll_dims(m, FA_DIMS(1, 1), FA_DIMS(0)), RUNTIME, "shifts and dimensions must align. shifts: 2, dims:1");
    REFUSED(fa_rot90(v, 1, 0, 1), RUNTIME, "expected total dims >= 2, but got total dims = 1");
    REFUSED(fa_rot90(m, 1, 0, -2), RUNTIME, "expected rotation dims to be different, but got dim0 = 0 and dim1 = 0");
    REFUSED(fa_repeat_interleave_tensor(v, whole(FA_SHAPE(1, 3)), 0), RUNTIME,
            "repeats must be 0-dim or 1-dim tensor; it has 2 dimensions");
    REFUSED(fa_repeat_interleave_tensor(v, v, 0), UNSUPPORTED,
            "\"repeat_interleave_cpu\" not implemented for 'Float': repeats are fa_cast(repeats, FA_INT64)");
    REFUSED(fa_repeat_interleave_tensor(v, whole(FA_SHAPE(2)), 0), RUNTIME,
            "repeats must have the same size as input along dim, but got repeats.size(0) = 2 and input.size(0) = 3");
    REFUSED(fa_repeat_interleave_tensor(v, ints(-1), 0), RUNTIME, "repeats can not be negative; the smallest is -1");
    REFUSED(fai_repeat_interleave_sized(v, ints(2), 0, 1), RUNTIME, "allocated size does not match required size: output_size is 1, the repeats add up to");
    REFUSED(fa_repeat_interleave_tensor(zero, at, 0), INDEX, "Dimension specified as 0 but tensor has no dimensions");
    REFUSED(fa_diag_embed(zero, 0, 0, 1), INDEX, "x has 0 dimensions; it must have 1 to 7, and the result has one more");
    REFUSED(fa_diag_embed(v, INT64_MIN, 0, 1), RUNTIME, "offset=-9223372036854775808 is out of range: no matrix has such a diagonal");
    REFUSED(fa_diag_embed(v, 0, 0, 0), RUNTIME, "diagonal dimensions cannot be identical 0, 0");
    REFUSED(fa_diag(c, 0), RUNTIME, "diag(): Supports 1D or 2D tensors. Got 3D");
    REFUSED(fa_trace(v), RUNTIME, "trace: expected a matrix, but got tensor with dim 1");
    REFUSED(fa_tril_indices(-1, 2, 0, device), RUNTIME, "row must be non-negative, got-1");
    REFUSED(fa_triu_indices(2, -1, 0, device), RUNTIME, "col must be non-negative, got-1");
    REFUSED(fa_cartesian_prod(&m, 1), RUNTIME, "Expect a 1D vector, but got shape [2, 3]");
    REFUSED(fa_combinations(v, -1, false), RUNTIME, "Expect a non-negative number, but got -1");
    REFUSED(fa_combinations(v, 9, false), UNSUPPORTED, "combinations of 9 elements: at most 8 are supported");
    REFUSED(fa_take(v, v), RUNTIME, "take(): Expected a long tensor for index, but got Float");
    REFUSED(fa_take_along_dim(v, v, 0), RUNTIME, "torch.take_along_dim(): dtype of indices should be Long but got Float");
    REFUSED(
        fa_take_along_dim(m, at, 0), RUNTIME,
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got 2 dimensions for input, "
        "and 1 dimensions for indices");
    REFUSED(
        fa_put_(fa_clone(v), at, v, false), INDEX,
        "put_(): Expected source and index to have the same number of elements, but got source.numel() = 3, index.numel() = 1");
    REFUSED(fa_meshgrid(nine, 2, "ij", parts, 1), VALUE, "argument 'room': there is room for 1 parts, but there are 2");
    REFUSED(fa_meshgrid(NULL, 0, "ij", parts, 2), RUNTIME, "meshgrid expects a non-empty TensorList");
    REFUSED(fa_meshgrid(nine, 9, "ij", NULL, 0), RUNTIME, "a grid of 9 dimensions; a tensor has at most 8");
    REFUSED(fa_meshgrid(&m, 1, "ij", parts, 2), RUNTIME,
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but number 0 of it has 2 dimensions");
    REFUSED(fa_meshgrid((fa_tensor *[]){v, at}, 2, "ij", parts, 2), RUNTIME,
            "torch.meshgrid expects all tensors to have the same dtype: number 1 of the list is int64, the first one float32");
    REFUSED(fa_meshgrid(&v, 1, "ji", parts, 2), RUNTIME,
            "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: ji");
}

static void products(void **state) {
    (void)state;
    fa_tensor *v = vector(), *m = matrix(), *c = cube(), *n = whole(FA_SHAPE(2, 3)), *five = zeros(FA_SHAPE(1, 1, 1, 1, 1)),
              *eight = zeros(FA_SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
    REFUSED(fa_tensordot(m, m, FA_DIMS(0), FA_DIMS(0, 1)), RUNTIME, "both dimension lists should have same length: 1 and 2");
    REFUSED(fa_tensordot(m, n, FA_DIMS(0), FA_DIMS(0)), RUNTIME,
            "both inputs should have same dtype: they are float32 and int64");
    REFUSED(fa_tensordot(m, m, FA_DIMS(0), FA_DIMS(1)), RUNTIME,
            "contracted dimensions need to match, but first has size 2 in dim 0 and second has size 3 in dim 1");
    REFUSED(fa_tensordot(c, c, FA_DIMS(0, 0), FA_DIMS(0, 1)), RUNTIME, "dim 0 appears multiple times in the list of dims");
    REFUSED(fa_baddbmm(v, m, c), RUNTIME, "batch1 must be a 3D tensor; it has 2 dimensions");
    REFUSED(fa_addbmm(v, c, m), RUNTIME, "batch2 must be a 3D tensor; it has 2 dimensions");
    REFUSED(fa_baddbmm(v, c, c), RUNTIME,
            "Expected size for first two dimensions of batch2 tensor to be: [2, 3] but got: [2, 2].");
    REFUSED(fa_addmv(m, m, v), RUNTIME, "vector + matrix @ vector expected, got 2, 2, 1");
    REFUSED(fa_addmv(v, m, zeros(FA_SHAPE(2))), RUNTIME, "size mismatch, got input (2), mat (2x3), vec (2)");
    REFUSED(fa_addr(m, m, v), RUNTIME, "addr: Expected 1-D argument vec1, but got 2-D");
    REFUSED(fa_addr(m, v, m), RUNTIME, "addr: Expected 1-D argument vec2, but got 2-D");
    REFUSED(fa_kron(five, v), UNSUPPORTED, "tensors of 5 dimensions: at most 4 are supported");
    REFUSED(fa_cross(v, m, 0), RUNTIME, "linalg.cross: inputs must have the same number of dimensions; they have 1 and 2");
    REFUSED(fa_cross(m, m, 0), RUNTIME, "linalg.cross: inputs dimension 0 must have length 3. Got 2 and 2");
    REFUSED(fa_cosine_similarity(n, n), RUNTIME, "expected common dtype to be floating point, yet common dtype is Long");
    REFUSED(fa_cdist(m, n), RUNTIME, "cdist only supports floating-point dtypes, X2 got: Long");
    REFUSED(fa_cdist(v, m), RUNTIME, "cdist only supports at least 2D tensors, X1 got: 1D");
    REFUSED(fa_cdist(m, zeros(FA_SHAPE(2, 2))), RUNTIME, "X1 and X2 must have the same number of columns. X1: 3 X2: 2");
    REFUSED(fa_cdist(eight, eight), UNSUPPORTED, "tensors of 8 dimensions: at most 7 are supported");
    REFUSED(fa_cdist(m, m, .p = -1), RUNTIME, "cdist only supports non-negative p values, and p is -1");
}

static void chances(void **state) {
    (void)state;
    fa_tensor *v = vector(), *n = whole(FA_SHAPE(3)), *none_at_all = zeros(FA_SHAPE(3)),
              *bad = fa_neg(fa_ones(FA_SHAPE(3), .device = device));
    REFUSED(fa_multinomial(bad, 1, false, NULL), RUNTIME,
            "probability tensor contains either `inf`, `nan` or element < 0: its elements are from -1 to -1");
    REFUSED(fa_multinomial(none_at_all, 1, false, NULL), RUNTIME,
            "invalid multinomial distribution (sum of probabilities <= 0): every row needs a positive element");
    REFUSED(fa_multinomial(n, 1, false, NULL), RUNTIME, "multinomial only supports floating-point dtypes for input, got: Long");
    REFUSED(fa_multinomial(number(1), 1, false, NULL), RUNTIME, "prob_dist must be 1 or 2 dim; it has 0");
    REFUSED(fa_multinomial(v, 0, false, NULL), RUNTIME, "cannot sample n_sample <= 0 samples; n is 0");
    REFUSED(fa_multinomial(v, 4, false, NULL), RUNTIME,
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement: n is 4, there are 3 to choose from");
    REFUSED(fa_bernoulli(n, NULL), UNSUPPORTED,
            "\"bernoulli_tensor_cpu_p_\" not implemented for 'Long'; probabilities are floating");
    REFUSED(fa_bernoulli(bad, NULL), RUNTIME, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
    REFUSED(fa_normal_mean(n, 1, NULL), UNSUPPORTED,
            "\"normal_kernel_cpu\" not implemented for 'Long'; argument 'mean' is a floating tensor");
    REFUSED(fa_normal(v, bad, NULL), RUNTIME, "normal expects all elements of std >= 0.0; the smallest is -1");
    REFUSED(fa_normal_mean(v, -1, NULL), RUNTIME, "normal expects std >= 0.0, but found std -1");
    REFUSED(fa_exponential_(fa_clone(v), 0, NULL), RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=0");
    REFUSED(fa_random_range_(fa_clone(v), 5, 5, NULL), RUNTIME,
            "random_ expects 'from' to be less than 'to', but got from=5 >= to=5");
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin_watching, end)
static int begin_watching(void **state) {
    unwatch();
    const int failed = begin(state);
    if (!getenv("FACULA_SIM")) device = FA_CPU; /* a real GPU has other sizes and errors of its own */
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {T(order), T(counted), T(statistics), T(shapes), T(products), T(chances)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
