/* Views, movement, factories and reading: sizes, strides, values, torch's sentences, and derivatives of views. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:2 */
/* test-env: FACULA_SIM=cuda:2 FACULA_FUSE=on */
/* test-env: FACULA_OPENCL=cpu */
#include "support/check.h"
#include <fa_functional.h>

static void check_strides(fa_tensor *t, fa_shape strides, int line) {
    for (int d = 0; d < strides.ndim; d++)
        if (fa_stride(t, d) != strides.dim[d]) fail_msg("line %d: stride %d of dimension %d", line, (int)fa_stride(t, d), d);
}
#define STRIDES(t, ...) check_strides((t), FA_SHAPE(__VA_ARGS__), __LINE__)

/* ---- views ---- */

static void channels_last(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(1, 2, 3, 4)), *y, *five = fa_ones(FA_SHAPE(2, 3, 1, 2, 2), .device = device);
    fa_requires_grad(x, true);
    y = fa_channels_last(x);
    STRIDES(y, 24, 1, 8, 2);
    assert_true(fa_is_channels_last(y) && !fa_is_contiguous(y) && !fa_is_channels_last(x) && fa_equal(x, y));
    assert_ptr_equal(fa_channels_last(y), y);
    STRIDES(fa_contiguous(y), 24, 12, 4, 1);
    STRIDES(fa_channels_last(five), 12, 1, 12, 6, 3);
    assert_true(fa_backward(fa_sum(fa_square(y))));
    assert_true(fa_equal(fa_grad(x), fa_mul(fa_detach(x), fa_full(FA_SHAPE_0D, 2.0, .device = device))));
    FAILS(fa_channels_last(fa_t(fa_ones(FA_SHAPE(2, 3), .device = device))), RUNTIME, "required rank 4 tensor to use channels_last format, or one of rank 5; x has 2 dimensions");
    assert_false(fa_is_channels_last(NULL));
    FAILS(fa_index_select(five, 0, five), RUNTIME, "index_select(): Expected dtype int32 or int64 for index, but found float32.");
    FAILS(fa_index_add(five, 0, five, five), RUNTIME, "index_add_(): Expected dtype int32/int64 for index but got: Float.");
}

static void view_infers_and_refuses(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *empty = fa_empty(FA_SHAPE(0, 2), .device = device);
    CHECK(fa_view(x, FA_SHAPE(3, -1)), FA_SHAPE(3, 2), 0, 1, 2, 3, 4, 5);
    CHECK(fa_view(x, FA_SHAPE(1, 6, 1)), FA_SHAPE(1, 6, 1), 0, 1, 2, 3, 4, 5);
    STRIDES(fa_view(x, FA_SHAPE(1, 6, 1)), 6, 1, 1);
    CHECK(fa_view(fa_slice(x, 0, 0, 1, 1), FA_SHAPE(3)), FA_SHAPE(3), 0, 1, 2);
    CHECK_EMPTY(fa_view(empty, FA_SHAPE(-1, 2)), FA_SHAPE(0, 2));
    CHECK_EMPTY(fa_view(empty, FA_SHAPE(5, 0, 3)), FA_SHAPE(5, 0, 3));
    FAILS(fa_view(x, FA_SHAPE(4)), RUNTIME, "shape '[4]' is invalid for input of size 6");
    FAILS(fa_view(x, FA_SHAPE(-1, 4)), RUNTIME, "shape '[-1, 4]' is invalid for input of size 6");
    FAILS(fa_view(x, FA_SHAPE_0D), RUNTIME, "shape '[]' is invalid for input of size 6");
    FAILS(fa_view(x, FA_SHAPE(-1, -1)), RUNTIME, "only one dimension can be inferred");
    FAILS(fa_view(x, FA_SHAPE(2, -2)), RUNTIME, "invalid shape dimension -2 at index 1 of shape [2, -2]");
    FAILS(fa_view(empty, FA_SHAPE(-1, 0)), RUNTIME,
          "cannot reshape tensor of 0 elements into shape [-1, 0] because the unspecified dimension size -1 can be any value and "
          "is ambiguous");
    FAILS(fa_view(x, FA_SHAPE(INT64_MAX, 3)), RUNTIME, "shape '[9223372036854775807, 3]' is invalid for input of size 6");
    FAILS(fa_view(fa_t(x), FA_SHAPE(6)), RUNTIME,
          "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
          "two contiguous subspaces). Use .reshape(...) instead.");
    CHECK(fa_reshape(fa_t(x), FA_SHAPE(6)), FA_SHAPE(6), 0, 3, 1, 4, 2, 5);
    FAILS(fa_view(NULL, FA_SHAPE(6)), TYPE, "argument 'x' is NULL");
    fa_error_set(FA_ERR_VALUE, "before", "first");
    assert_null(fa_view(NULL, FA_SHAPE(6)));
    FAILS(NULL, VALUE, "first");
}

static void view_keeps_runs_of_memory(void **state) {
    (void)state;
    fa_tensor *x = fa_slice(counting(FA_SHAPE(2, 3, 4)), 2, 0, 4, 2); /* strides 12, 4, 2 */
    fa_tensor *v = fa_view(x, FA_SHAPE(6, 2));
    STRIDES(v, 4, 2);
    CHECK(v, FA_SHAPE(6, 2), 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22);
    STRIDES(fa_view(x, FA_SHAPE(12)), 2);
    STRIDES(fa_view(x, FA_SHAPE(2, 1, 3, 2)), 12, 12, 4, 2);
    fa_tensor *wide = fa_expand(counting(FA_SHAPE(3, 1)), FA_SHAPE(3, 4));
    STRIDES(fa_view(wide, FA_SHAPE(3, 2, 2)), 1, 0, 0);
    FAILS(fa_view(wide, FA_SHAPE(12)), RUNTIME, "view size is not compatible");
    CHECK(fa_view(fa_select(counting(FA_SHAPE(3)), 0, 1), FA_SHAPE(1, 1)), FA_SHAPE(1, 1), 1);
}

static void dimensions_are_reordered(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *one = fa_select(fa_select(x, 0, 1), 0, 1);
    CHECK(fa_transpose(x, 0, -1), FA_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    CHECK(fa_transpose(one, 0, -1), FA_SHAPE_0D, 4);
    CHECK(fa_permute(counting(FA_SHAPE(1, 2, 3)), FA_DIMS(2, 0, -2)), FA_SHAPE(3, 1, 2), 0, 3, 1, 4, 2, 5);
    CHECK(fa_t(fa_select(x, 0, 0)), FA_SHAPE(3), 0, 1, 2);
    FAILS(fa_transpose(x, 0, 2), INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    FAILS(fa_permute(x, FA_DIMS(0)), RUNTIME,
          "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
          "ordering of dimensions i.e. input.dim() = 2 is not equal to len(dims) = 1");
    FAILS(fa_permute(x, FA_DIMS(0, -2)), RUNTIME, "permute(): duplicate dims are not allowed.");
    FAILS(fa_t(counting(FA_SHAPE(1, 1, 1))), RUNTIME, "t() expects a tensor with <= 2 dimensions, but self is 3D");
}

static void expand_repeats_without_memory(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 1)), *m = counting(FA_SHAPE(2, 3)), *one = fa_full(FA_SHAPE_0D, 7.0, .device = device);
    fa_tensor *e = fa_expand(x, FA_SHAPE(2, 2, 3));
    CHECK(e, FA_SHAPE(2, 2, 3), 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1);
    STRIDES(e, 0, 1, 0);
    STRIDES(fa_expand(m, FA_SHAPE(4, 1, 2, 3)), 0, 6, 3, 1);
    CHECK(fa_expand(one, FA_SHAPE(3)), FA_SHAPE(3), 7, 7, 7);
    CHECK(fa_expand(m, FA_SHAPE(2, -1)), FA_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    CHECK_EMPTY(fa_expand(fa_ones(FA_SHAPE(1), .device = device), FA_SHAPE(0)), FA_SHAPE(0));
    CHECK(fa_expand_as(x, m), FA_SHAPE(2, 3), 0, 0, 0, 1, 1, 1);
    FAILS(fa_expand(m, FA_SHAPE(4, 3)), RUNTIME,
          "The expanded size of the tensor (4) must match the existing size (2) at non-singleton dimension 0.  "
          "Target sizes: [4, 3].  Tensor sizes: [2, 3]");
    FAILS(fa_expand(m, FA_SHAPE(2, -2)), RUNTIME,
          "The expanded size of the tensor (-2) must match the existing size (3) at non-singleton dimension 1.");
    FAILS(fa_expand(m, FA_SHAPE(-1, 2, 3)), RUNTIME,
          "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension 0");
    FAILS(fa_expand(m, FA_SHAPE(3)), RUNTIME,
          "expand(torch.FloatTensor{[2, 3]}, size=[3]): the number of sizes provided (1) must be greater or equal to "
          "the number of dimensions in the tensor (2)");
}

static void ones_come_and_go(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(1, 2, 1, 3)), *one = fa_full(FA_SHAPE_0D, 7.0, .device = device);
    assert_int_equal(fa_ndim(fa_squeeze(x)), 2);
    assert_int_equal(fa_ndim(fa_squeeze_dim(x, 1)), 4);
    assert_int_equal(fa_size(fa_squeeze_dim(x, -2), 2), 3);
    assert_int_equal(fa_ndim(fa_squeeze_dim(one, 0)), 0);
    CHECK(fa_unsqueeze(one, -1), FA_SHAPE(1), 7);
    STRIDES(fa_unsqueeze(counting(FA_SHAPE(2, 3)), 0), 6, 3, 1);
    STRIDES(fa_unsqueeze(counting(FA_SHAPE(2, 3)), -1), 3, 1, 1);
    FAILS(fa_unsqueeze(x, 5), INDEX, "Dimension out of range (expected to be in range of [-5, 4], but got 5)");
    FAILS(fa_squeeze_dim(x, 5), INDEX, "Dimension out of range (expected to be in range of [-4, 3], but got 5)");
    FAILS(fa_unsqueeze(counting(FA_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), 0), RUNTIME, "a tensor can have at most 8 dimensions");
}

static void parts_are_taken(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *v = counting(FA_SHAPE(7)), *one = fa_full(FA_SHAPE_0D, 7.0, .device = device);
    CHECK(fa_select(x, 1, -1), FA_SHAPE(2), 2, 5);
    CHECK(fa_slice(v, 0, 1, INT64_MAX, 2), FA_SHAPE(3), 1, 3, 5);
    CHECK(fa_slice(v, 0, -3, -1, 1), FA_SHAPE(2), 4, 5);
    CHECK(fa_slice(v, 0, INT64_MIN, 2, INT64_MAX), FA_SHAPE(1), 0);
    CHECK_EMPTY(fa_slice(v, 0, 5, 2, 1), FA_SHAPE(0));
    CHECK(fa_narrow(v, 0, -2, 2), FA_SHAPE(2), 5, 6);
    CHECK_EMPTY(fa_narrow(v, 0, 7, 0), FA_SHAPE(0));
    FAILS(fa_select(x, 0, 5), INDEX, "select(): index 5 out of range for tensor of size [2, 3] at dimension 0");
    FAILS(fa_select(one, 0, 0), INDEX, "select() cannot be applied to a 0-dim tensor.");
    FAILS(fa_slice(v, 0, 0, 1, 0), RUNTIME, "slice step must be positive");
    FAILS(fa_slice(one, 0, 0, 1, 1), INDEX, "slice() cannot be applied to a 0-dim tensor.");
    FAILS(fa_narrow(x, 0, 1, 5), RUNTIME, "start (1) + length (5) exceeds dimension size (2).");
    FAILS(fa_narrow(x, 0, 3, 0), INDEX, "start out of range (expected to be in range of [-2, 2], but got 3)");
    FAILS(fa_narrow(x, 0, 0, -1), RUNTIME, "narrow(): length must be non-negative.");
    FAILS(fa_narrow(one, 0, 0, 1), RUNTIME, "narrow() cannot be applied to a 0-dim tensor.");
}

static void windows_and_diagonals(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *v = counting(FA_SHAPE(5)), *one = fa_full(FA_SHAPE_0D, 7.0, .device = device);
    CHECK(fa_unfold(v, 0, 3, 1), FA_SHAPE(3, 3), 0, 1, 2, 1, 2, 3, 2, 3, 4);
    CHECK(fa_unfold(v, -1, 2, 3), FA_SHAPE(2, 2), 0, 1, 3, 4);
    CHECK(fa_unfold(one, 0, 1, 1), FA_SHAPE(1), 7);
    FAILS(fa_unfold(x, 0, 3, 1), RUNTIME, "maximum size for tensor at dimension 0 is 2 but size is 3");
    FAILS(fa_unfold(x, 0, -1, 1), RUNTIME, "size is -1 but must be >= 0");
    FAILS(fa_unfold(x, 0, 1, 0), RUNTIME, "step is 0 but must be > 0");
    CHECK(fa_diagonal(x, 0, 0, 1), FA_SHAPE(2), 0, 4);
    CHECK(fa_diagonal(x, 1, 0, 1), FA_SHAPE(2), 1, 5);
    CHECK(fa_diagonal(x, -1, 0, -1), FA_SHAPE(1), 3);
    CHECK_EMPTY(fa_diagonal(x, 7, 0, 1), FA_SHAPE(0));
    FAILS(fa_diagonal(x, 0, 0, -2), RUNTIME, "diagonal dimensions cannot be identical 0, -2");
}

static void as_strided_is_bounded(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3));
    CHECK(fa_as_strided(x, FA_SHAPE(2, 2), FA_DIMS(1, 2), 1), FA_SHAPE(2, 2), 1, 3, 2, 4);
    CHECK_EMPTY(fa_as_strided(x, FA_SHAPE(0), FA_DIMS(100), 100), FA_SHAPE(0));
    FAILS(fa_as_strided(x, FA_SHAPE(8), FA_DIMS(1), 0), RUNTIME,
          "setStorage: sizes [8], strides [1], storage offset 0, and itemsize 4 requiring a storage size of 32 are out of bounds "
          "for storage of size 24");
    FAILS(fa_as_strided(x, FA_SHAPE(3), FA_DIMS(-1), 3), RUNTIME,
          "as_strided: Negative strides are not supported at the moment, got strides: [-1]");
    FAILS(fa_as_strided(x, FA_SHAPE(3), FA_DIMS(1, 1), 0), RUNTIME, "mismatch in length of strides and shape");
    FAILS(fa_as_strided(x, FA_SHAPE(3), FA_DIMS(1), -1), RUNTIME, "Tensor: invalid storage offset -1");
    FAILS(fa_as_strided(x, FA_SHAPE(INT64_MAX), FA_DIMS(INT64_MAX), 0), RUNTIME, "setStorage: ");
}

static void views_share_memory(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *column = fa_select(x, 1, 1);
    assert_non_null(fa_mul_scalar_(column, 10));
    CHECK(x, FA_SHAPE(2, 3), 0, 10, 2, 3, 40, 5);
    assert_int_equal(fa_version_of(x), fa_version_of(column));
    assert_int_equal(fa_version_of(x), 1);
}

/* ---- movement ---- */

static void movement(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *empty = fa_empty(FA_SHAPE(0, 3), .device = device);
    fa_tensor *c = fa_clone(fa_t(x));
    CHECK(c, FA_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    assert_true(fa_is_contiguous(c));
    CHECK(fa_flip(x, FA_DIMS(0, -1)), FA_SHAPE(2, 3), 5, 4, 3, 2, 1, 0);
    CHECK(fa_flip(fa_t(x), FA_DIMS(0)), FA_SHAPE(3, 2), 2, 5, 1, 4, 0, 3);
    CHECK(fa_flip(x, FA_SHAPE_0D), FA_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    CHECK_EMPTY(fa_flip(empty, FA_DIMS(0)), FA_SHAPE(0, 3));
    FAILS(fa_flip(x, FA_DIMS(0, 0)), RUNTIME, "dim 0 appears multiple times in the list of dims");
    CHECK(fa_roll(x, 1, 1), FA_SHAPE(2, 3), 2, 0, 1, 5, 3, 4);
    CHECK(fa_roll(x, -4, 1), FA_SHAPE(2, 3), 1, 2, 0, 4, 5, 3);
    CHECK_EMPTY(fa_roll(empty, 1, 0), FA_SHAPE(0, 3));
    FAILS(fa_roll(fa_select(fa_select(x, 0, 0), 0, 0), 1, 0), INDEX, "Dimension specified as 0 but tensor has no dimensions");
    CHECK(fa_sum_to(x, FA_SHAPE(3)), FA_SHAPE(3), 3, 5, 7);
    CHECK(fa_sum_to(x, FA_SHAPE(2, 1)), FA_SHAPE(2, 1), 3, 12);
    FAILS(fa_sum_to(x, FA_SHAPE(2)), RUNTIME, "size [2] is not expandable to size [2, 3]");
    assert_ptr_equal(fa_contiguous(x), x);
    assert_ptr_equal(fa_cast(x, FA_FLOAT32), x);
    assert_int_equal(fa_dtype_of(fa_cast(x, FA_INT8)), FA_INT8);
    FAILS(fa_cast(x, (fa_dtype)77), TYPE, "argument 'dtype': there is no element type number 77");
}

static void joining(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3)), *y = counting(FA_SHAPE(1, 3)), *none = fa_empty(FA_SHAPE(0), .device = device);
    CHECK(fa_cat((fa_tensor *[]){x, y}, 2, 0), FA_SHAPE(3, 3), 0, 1, 2, 3, 4, 5, 0, 1, 2);
    CHECK(fa_cat((fa_tensor *[]){none, fa_t(y), fa_t(x)}, 3, -1), FA_SHAPE(3, 3), 0, 0, 3, 1, 1, 4, 2, 2, 5);
    CHECK_EMPTY(fa_cat((fa_tensor *[]){none, none}, 2, 3), FA_SHAPE(0));
    fa_tensor *mixed = fa_cat((fa_tensor *[]){fa_cast(x, FA_INT32), fa_cast(y, FA_FLOAT64)}, 2, 0);
    assert_int_equal(fa_dtype_of(mixed), FA_FLOAT64);
    FAILS(fa_cat(NULL, 0, 0), VALUE, "torch.cat(): expected a non-empty list of Tensors");
    FAILS(fa_cat((fa_tensor *[]){x, counting(FA_SHAPE(2))}, 2, 0), RUNTIME,
          "Tensors must have same number of dimensions: got 2 and 1");
    FAILS(fa_cat((fa_tensor *[]){x, counting(FA_SHAPE(3, 4))}, 2, 0), RUNTIME,
          "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the list.");
    FAILS(fa_cat((fa_tensor *[]){fa_ones(FA_SHAPE_0D, .device = device)}, 1, 0), RUNTIME,
          "zero-dimensional tensor (at position 0) cannot be concatenated");
    FAILS(fa_cat((fa_tensor *[]){x, x}, 2, 2), INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    CHECK(fa_stack((fa_tensor *[]){x, x}, 2, -1), FA_SHAPE(2, 3, 2), 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5);
    FAILS(fa_stack(NULL, 0, 0), RUNTIME, "stack expects a non-empty TensorList");
    FAILS(fa_stack((fa_tensor *[]){x, y}, 2, 0), RUNTIME,
          "stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [1, 3] at entry 1");
}

static void repeating(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(1, 2)), *y = counting(FA_SHAPE(2, 2));
    CHECK(fa_repeat(x, FA_DIMS(2, 2)), FA_SHAPE(2, 4), 0, 1, 0, 1, 0, 1, 0, 1);
    CHECK(fa_repeat(y, FA_DIMS(2, 1, 2)), FA_SHAPE(2, 2, 4), 0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3);
    CHECK_EMPTY(fa_repeat(x, FA_DIMS(0, 2)), FA_SHAPE(0, 4));
    CHECK(fa_repeat_interleave(y, 2, 0), FA_SHAPE(4, 2), 0, 1, 0, 1, 2, 3, 2, 3);
    CHECK(fa_repeat_interleave(y, 2, -1), FA_SHAPE(2, 4), 0, 0, 1, 1, 2, 2, 3, 3);
    FAILS(fa_repeat(y, FA_DIMS(2)), RUNTIME,
          "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
    FAILS(fa_repeat(x, FA_DIMS(-1, 2)), RUNTIME, "Trying to create tensor with negative dimension -1: [-1, 4]");
    FAILS(fa_repeat_interleave(x, -1, 0), RUNTIME, "Repeats must be non-negative");
}

static void splitting(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(5)), *parts[8];
    assert_int_equal(fa_split(x, 2, 0, parts, 8), 3);
    CHECK(parts[2], FA_SHAPE(1), 4);
    assert_int_equal(fa_chunk(x, 3, -1, parts, 8), 3);
    CHECK(parts[1], FA_SHAPE(2), 2, 3);
    assert_int_equal(fa_chunk(fa_empty(FA_SHAPE(0), .device = device), 3, 0, NULL, 0), 3);
    assert_int_equal(fa_split_sizes(x, (int64_t[]){1, 0, 4}, 3, 0, parts, 8), 3);
    CHECK(parts[2], FA_SHAPE(4), 1, 2, 3, 4);
    assert_int_equal(fa_unbind(x, 0, parts, 8), 5);
    CHECK(parts[3], FA_SHAPE_0D, 3);
    FAILS_COUNT(fa_split(x, 0, 0, parts, 8), RUNTIME,
                "split_size can only be 0 if dimension size is 0, but got dimension size of 5");
    FAILS_COUNT(fa_split(x, -1, 0, parts, 8), RUNTIME, "split expects split_size be non-negative, but got split_size=-1");
    FAILS_COUNT(fa_chunk(x, 0, 0, parts, 8), RUNTIME, "chunk expects `chunks` to be greater than 0, got: 0");
    FAILS_COUNT(fa_split_sizes(x, (int64_t[]){2, 2}, 2, 0, parts, 8), RUNTIME,
                "split_with_sizes expects split_sizes to sum exactly to 5 (input tensor's size at dimension 0), but got "
                "split_sizes=[2, 2]");
    FAILS_COUNT(fa_split(x, 1, 0, parts, 2), VALUE, "argument 'room': there is room for 2 parts, but there are 5");
}

static void shapes(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3, 1)), *one = fa_full(FA_SHAPE_0D, 7.0, .device = device);
    CHECK(fa_flatten(x, 0, -1), FA_SHAPE(6), 0, 1, 2, 3, 4, 5);
    CHECK(fa_flatten(x, 1, 2), FA_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    CHECK(fa_flatten(one, 0, -1), FA_SHAPE(1), 7);
    CHECK(fa_unflatten(x, 1, FA_SHAPE(-1, 3)), FA_SHAPE(2, 1, 3, 1), 0, 1, 2, 3, 4, 5);
    FAILS(fa_flatten(x, 1, 0), RUNTIME, "flatten() has invalid args: start_dim cannot come after end_dim");
    FAILS(fa_unflatten(x, 1, FA_SHAPE(2, 2)), RUNTIME,
          "unflatten: Provided sizes [2, 2] don't multiply up to the size of dim 1 (3) in the input tensor");
    FAILS(fa_unflatten(x, 1, FA_SHAPE_0D), RUNTIME, "unflatten: sizes must be non-empty");
}

/* ---- derivatives ---- */

static void view_derivatives(void **state) {
    (void)state;
    fa_tensor *x = fa_requires_grad(counting(FA_SHAPE(6)), true), *grads[1];
    fa_tensor *w = counting(FA_SHAPE(3, 3));
#define GRADIENT(expression, ...)                                                                                                \
    do {                                                                                                                         \
        fa_tensor *y_ = (expression);                                                                                            \
        assert_true(fa_grad_of(&y_, 1, &x, 1, grads, .grad_outputs = &w));                                                       \
        CHECK(grads[0], FA_SHAPE(6), __VA_ARGS__);                                                                               \
    } while (0)
    GRADIENT(fa_as_strided(x, FA_SHAPE(3, 3), FA_DIMS(1, 1), 0), 0, 4, 12, 12, 8, 0); /* sums of anti-diagonals of w */
    GRADIENT(fa_unfold(fa_slice(x, 0, 0, 5, 1), 0, 3, 1), 0, 4, 12, 12, 8, 0);
    GRADIENT(fa_expand(fa_slice(x, 0, 1, 6, 2), FA_SHAPE(3, 3)), 0, 9, 0, 12, 0, 15);
    w = counting(FA_SHAPE(2));
    GRADIENT(fa_diagonal(fa_view(x, FA_SHAPE(2, 3)), 1, 0, 1), 0, 0, 0, 0, 0, 1);
    GRADIENT(fa_select(fa_t(fa_view(x, FA_SHAPE(2, 3))), 0, -1), 0, 0, 0, 0, 0, 1);
    GRADIENT(fa_narrow(x, 0, -2, 2), 0, 0, 0, 0, 0, 1);
    w = counting(FA_SHAPE(3, 2));
    GRADIENT(fa_permute(fa_view(x, FA_SHAPE(2, 3)), FA_DIMS(1, 0)), 0, 2, 4, 1, 3, 5);
    GRADIENT(fa_flip(fa_view(x, FA_SHAPE(3, 2)), FA_DIMS(0)), 4, 5, 2, 3, 0, 1);
    GRADIENT(fa_roll(fa_view(x, FA_SHAPE(3, 2)), 1, 0), 2, 3, 4, 5, 0, 1);
    w = counting(FA_SHAPE(9));
    fa_tensor *ends = fa_slice(x, 0, 0, 3, 1);
    GRADIENT(fa_cat((fa_tensor *[]){ends, x}, 2, 0), 3, 5, 7, 6, 7, 8);
    w = counting(FA_SHAPE(12));
    GRADIENT(fa_repeat(x, FA_DIMS(2)), 6, 8, 10, 12, 14, 16);
    GRADIENT(fa_repeat_interleave(x, 2, 0), 1, 5, 9, 13, 17, 21);
#undef GRADIENT
}

static void split_parts_refuse_in_place(void **state) {
    (void)state;
    fa_tensor *x = fa_requires_grad(counting(FA_SHAPE(4)), true), *y = fa_mul_scalar(x, 2), *parts[2];
    assert_int_equal(fa_chunk(y, 2, 0, parts, 2), 2);
    FAILS(fa_add_scalar_(parts[0], 1), RUNTIME,
          "Output 0 of Split is a view and is being modified inplace. This view is the output of a function that "
          "returns multiple views.");
    assert_int_equal(fa_unbind(y, 0, (fa_tensor *[4]){NULL}, 4), 4);
}

/* ---- factories ---- */

static void constants(void **state) {
    (void)state;
    CHECK(fa_zeros(FA_SHAPE(2), .device = device), FA_SHAPE(2), 0, 0);
    CHECK(fa_ones(FA_SHAPE(2), .dtype = FA_FLOAT16, .device = device), FA_SHAPE(2), 1, 1);
    CHECK(fa_full(FA_SHAPE(2), -1, .dtype = FA_UINT8, .device = device), FA_SHAPE(2), 255, 255);
    CHECK(fa_full(FA_SHAPE(1), 7, .dtype = FA_BOOL, .device = device), FA_SHAPE(1), 1);
    CHECK(fa_full(FA_SHAPE(1), (int64_t)9007199254740993, .device = device), FA_SHAPE(1), 9007199254740993.0);
    assert_int_equal(fa_item_int(fa_full(FA_SHAPE(1), (int64_t)9007199254740993, .device = device)), 9007199254740993);
    assert_int_equal(fa_dtype_of(fa_full(FA_SHAPE(1), (bool)true)), FA_BOOL);
    assert_int_equal(fa_dtype_of(fa_full(FA_SHAPE(1), 1)), FA_INT64);
    assert_int_equal(fa_dtype_of(fa_full(FA_SHAPE(1), 1.0)), FA_FLOAT32);
    CHECK(fa_eye(2, 3, .device = device), FA_SHAPE(2, 3), 1, 0, 0, 0, 1, 0);
    FAILS(fa_full(FA_SHAPE(2), 300, .dtype = FA_UINT8), RUNTIME, "value cannot be converted to type uint8_t without overflow");
    fa_tensor *half = fa_zeros(FA_SHAPE(2), .dtype = FA_FLOAT16), *yes = fa_ones(FA_SHAPE(2), .dtype = FA_BOOL), *at = fa_zeros(FA_SHAPE(1), .dtype = FA_INT64);
    FAILS(fa_fill_(half, 65510.0), RUNTIME, "value cannot be converted to type c10::Half without overflow");
    FAILS(fa_masked_fill_scalar(half, yes, -1e9), RUNTIME, "value cannot be converted to type c10::Half without overflow");
    FAILS(fa_masked_fill_scalar_(half, yes, -1e9), RUNTIME, "value cannot be converted to type c10::Half without overflow");
    FAILS(fa_index_fill_scalar(fa_cast(half, FA_UINT8), 0, at, 300), RUNTIME, "value cannot be converted to type uint8_t without overflow");
    FAILS(fa_full(FA_SHAPE(2), 3.4e38, .dtype = FA_BFLOAT16), RUNTIME, "value cannot be converted to type c10::BFloat16 without overflow");
    FAILS(fa_scatter_value(fa_cast(half, FA_UINT8), 0, at, 300), RUNTIME, "value cannot be converted to type uint8_t without overflow");
    FAILS(fa_pad(fa_cast(half, FA_UINT8), FA_SHAPE(1, 1), .value = 300), RUNTIME, "value cannot be converted to type uint8_t without overflow");
    FAILS(fa_pad(fa_cast(half, FA_INT64), FA_SHAPE(1, 1), .value = INFINITY), RUNTIME, "value cannot be converted to type int64_t without overflow");
    assert_true(isinf(fa_item(fa_sum(fa_masked_fill_scalar(half, yes, -INFINITY)))));
    FAILS(fa_full(FA_SHAPE(2), 1e300), RUNTIME, "value cannot be converted to type float without overflow");
    FAILS(fa_full(FA_SHAPE(2), NAN, .dtype = FA_INT64), RUNTIME, "value cannot be converted to type int64_t without overflow");
    FAILS(fa_eye(-1, 1), RUNTIME, "n must be greater or equal to 0, got -1");
    FAILS(fa_zeros(FA_SHAPE(-1)), RUNTIME, "Trying to create tensor with negative dimension -1: [-1]");
    FAILS(fa_zeros(FA_SHAPE(2), .dtype = FA_INT64, .requires_grad = true), RUNTIME,
          "Only Tensors of floating point and complex dtype can require gradients");
    assert_true(fa_is_requires_grad(fa_zeros(FA_SHAPE(2), .requires_grad = true)));
    fa_tensor *like = fa_ones_like(fa_t(counting(FA_SHAPE(2, 3))), .dtype = FA_INT32);
    STRIDES(like, 1, 3);
    CHECK(like, FA_SHAPE(3, 2), 1, 1, 1, 1, 1, 1);
}

static void sequences(void **state) {
    (void)state;
    CHECK(fa_arange(0, 1, .3, .device = device), FA_SHAPE(4), 0, .3, .6, .9);
    CHECK(fa_arange(5, 0, -2, .device = device), FA_SHAPE(3), 5, 3, 1);
    CHECK(fa_arange(2.5, 10, 2, .dtype = FA_INT64, .device = device), FA_SHAPE(4), 2, 4, 6, 8);
    CHECK_EMPTY(fa_arange(1, 1, 1, .device = device), FA_SHAPE(0));
    assert_int_equal(fa_dtype_of(fa_arange(0, 5, 1)), FA_INT64);
    assert_int_equal(fa_dtype_of(fa_arange(0, 5, 1.)), FA_FLOAT32);
    FAILS(fa_arange(0, 1, 0), RUNTIME, "step must be nonzero");
    FAILS(fa_arange(0, 1, -1), RUNTIME, "upper bound and lower bound inconsistent with step sign");
    FAILS(fa_arange(0, INFINITY, 1), RUNTIME, "unsupported range: 0 -> inf");
    FAILS(fa_arange(0, 2, 1, .dtype = FA_BOOL), UNSUPPORTED, "\"arange_cpu\" not implemented for 'Bool'");
    CHECK(fa_linspace(3, -2, 5, .dtype = FA_INT32, .device = device), FA_SHAPE(5), 3, 1, 0, 0, -2);
    CHECK(fa_linspace(0, 1, 1, .device = device), FA_SHAPE(1), 0);
    CHECK_EMPTY(fa_linspace(0, 1, 0, .device = device), FA_SHAPE(0));
    CHECK(fa_linspace(0, 1.7, 9, .dtype = FA_FLOAT16), FA_SHAPE(9), 0.0, 0.2125244140625, 0.425048828125, 0.6376953125,
          0.85009765625, 1.0625, 1.275390625, 1.4873046875, 1.7001953125);
    FAILS(fa_linspace(0, 1, -1), RUNTIME, "number of steps must be non-negative");
    float sevenths[7];
    assert_true(fa_to_data(fa_linspace(0, 1, 7, .device = device), sevenths, FA_FLOAT32));
    assert_true(sevenths[1] == 0x1.555556p-3f && sevenths[4] == 0x1.555554p-1f && sevenths[6] == 1);
}

static int releases;
static void count_release(void *context) { releases += *(int *)context; }

static void ranges_and_windows(void **state) {
    (void)state;
    CHECK(fa_range(1, 2.5, .5, .device = device), FA_SHAPE(4), 1, 1.5, 2, 2.5);
    CHECK(fa_range(1, 1.9, 1, .device = device), FA_SHAPE(1), 1);
    CHECK(fa_range(3, 0, -2, .dtype = FA_INT32, .device = device), FA_SHAPE(2), 3, 1);
    FAILS(fa_range(0, 3, 0), RUNTIME, "step must be nonzero");
    FAILS(fa_range(3, 0, 1), RUNTIME, "upper bound and lower bound inconsistent with step sign");
    FAILS(fa_range(0, 1e300, 1), RUNTIME, "invalid size, possible overflow?");
    FAILS(fa_range(0, 3, 1, .dtype = FA_BOOL), UNSUPPORTED, "\"range_cpu\" not implemented for 'Bool'");
    CHECK(fa_logspace(0, 3, 4, 2, .device = device), FA_SHAPE(4), 1, 2, 4, 8);
    CHECK(fa_logspace(0, 3, 4, 10, .dtype = FA_INT64, .device = device), FA_SHAPE(4), 1, 10, 100, 1000);
    CHECK(fa_logspace(2, 3, 1, 10, .device = device), FA_SHAPE(1), 100);
    FAILS(fa_logspace(0, 1, -1, 10), RUNTIME, "number of steps must be non-negative");
    FAILS(fa_logspace(0, 1, 2, 10, .dtype = FA_BOOL), UNSUPPORTED, "\"logspace_cpu\" not implemented for 'Bool'");
    const double hann = 0.345491503, kaiser = 0.101719688, ham = 0.397852183, black = 0.200770143; /* PyTorch's */
    CHECK(fa_window("hann", 5, true, 0, 0, .device = device), FA_SHAPE(5), 0, hann, 0.904508497, 0.904508497, hann);
    CHECK(fa_window("hann", 5, false, 0, 0, .device = device), FA_SHAPE(5), 0, .5, 1, .5, 0);
    CHECK(fa_window("hamming", 5, true, .54, .46, .device = device), FA_SHAPE(5), .08, ham, 0.912147817, 0.912147817, ham);
    CHECK(fa_window("blackman", 5, true, 0, 0, .device = device), FA_SHAPE(5), 0, black, 0.849229857, 0.849229857, black);
    CHECK(fa_window("bartlett", 5, true, 0, 0, .device = device), FA_SHAPE(5), 0, .4, .8, .8, .4);
    CHECK(fa_window("kaiser", 5, true, 12, 0, .device = device), FA_SHAPE(5), 5.27734413e-05, kaiser, 0.792939834, 0.792939834, kaiser);
    CHECK(fa_window("kaiser", 1, true, 12, 0, .device = device), FA_SHAPE(1), 1);
    CHECK_EMPTY(fa_window("bartlett", 0, false, 0, 0, .device = device), FA_SHAPE(0));
    FAILS(fa_window("flat", 3, true, 0, 0), VALUE, "argument 'kind': there is no window 'flat'");
    FAILS(fa_window("hann", -1, true, 0, 0), RUNTIME, "hann_window requires non-negative window_length, got window_length=-1");
    FAILS(fa_window("hann", 3, true, 0, 0, .dtype = FA_INT64), RUNTIME, "hann_window expects floating point dtypes, got: int64");
}

static void memory_of_the_caller(void **state) {
    (void)state;
    const int8_t bytes[] = {1, -2, 3, 4};
    CHECK(fa_from_data(bytes, FA_INT8, FA_SHAPE(2, 2), .dtype = FA_FLOAT64, .device = device), FA_SHAPE(2, 2), 1, -2, 3, 4);
    CHECK(fa_floats(1, 2.5), FA_SHAPE(2), 1, 2.5);
    FAILS(fa_from_data(NULL, FA_INT8, FA_SHAPE(2)), VALUE, "argument 'data' is NULL");
    static float data[4] = {1, 2, 3, 4};
    int one = 1;
    releases = 0;
    fa_scope_open();
    fa_tensor *t = fa_from_memory(data, FA_FLOAT32, FA_SHAPE(2, 2), count_release, &one);
    assert_ptr_equal(fa_data(t), data);
    assert_ptr_equal(fa_data(fa_select(t, 0, 1)), data + 2);
    assert_non_null(fa_add_scalar_(t, 1));
    assert_int_equal(releases, 0);
    fa_scope_close();
    assert_int_equal(releases, 1);
    assert_true(data[3] == 5);
    FAILS(fa_from_memory(data, FA_FLOAT32, FA_SHAPE(-2), NULL, NULL), RUNTIME, "argument 'shape'");
}

static void reading(void **state) {
    (void)state;
    fa_tensor *x = counting(FA_SHAPE(2, 3));
    int16_t words[6];
    assert_true(fa_to_data(fa_flip(fa_t(x), FA_DIMS(1)), words, FA_INT16));
    assert_memory_equal(words, ((int16_t[]){3, 0, 4, 1, 5, 2}), sizeof words);
    assert_true(fa_item(fa_select(fa_select(x, 0, 1), 0, 2)) == 5);
    FAILS(fa_item(x) == 0 ? NULL : x, RUNTIME, "a Tensor with 6 elements cannot be converted to Scalar");
    FAILS(fa_item(NULL) == 0 ? NULL : x, TYPE, "argument 't' is NULL");
    if (device.type == FA_DEVICE_CPU) return;
    char refusal[128];
    snprintf(refusal, sizeof refusal, "can't convert %s device type tensor to host memory. Use fa_cpu(t) to copy the tensor to host "
             "memory first", fa_device_text(fa_device_of(x)));
    FAILS(fa_data(x), TYPE, refusal);
    CHECK(fa_cpu(fa_t(x)), FA_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    assert_ptr_equal(fa_to(x, device), x);
    fa_tensor *other = fa_to(x, fa_try_accelerator(1));
    CHECK(other, FA_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    FAILS(fa_cat((fa_tensor *[]){x, other}, 2, 0), RUNTIME, "Expected all tensors to be on the same device");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(channels_last),
        TEST(view_infers_and_refuses),
        TEST(view_keeps_runs_of_memory),
        TEST(dimensions_are_reordered),
        TEST(expand_repeats_without_memory),
        TEST(ones_come_and_go),
        TEST(parts_are_taken),
        TEST(windows_and_diagonals),
        TEST(as_strided_is_bounded),
        TEST(views_share_memory),
        TEST(movement),
        TEST(joining),
        TEST(repeating),
        TEST(splitting),
        TEST(shapes),
        TEST(view_derivatives),
        TEST(split_parts_refuse_in_place),
        TEST(constants),
        TEST(sequences),
        TEST(ranges_and_windows),
        TEST(memory_of_the_caller),
        TEST(reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : fa_finish("test_views");
}
