/* Splitting: several views of one tensor, side by side along a dimension. */
#include "composite.h"
#include <fa_functional.h>

static int fails(const char *op, int64_t n, int room) {
    fai_fail(FA_ERR_VALUE, op,
             "argument 'room': there is room for %d parts, but there are %lld; with parts NULL they are counted", room,
             (long long)n);
    return -1;
}

/* The parts of a split may not be written in place where a gradient goes through them. */
static fa_tensor *mark(fa_tensor *part, const fa_tensor *x) {
    if (part && fai_recording() && fai_wants_grad(x)) part->object.flags |= FAI_MULTI_VIEW;
    return part;
}

static bool begin(const char *op, fa_tensor *x, int dim, int *at) {
    if (!fai_begin1(op, "x", x)) return false;
    if (x->ndim == 0) return fai_fail(FA_ERR_RUNTIME, op, "%s expects at least a 1-dimensional tensor", op);
    return fai_wrap_dim(op, dim, x->ndim, at);
}

/* n parts of which all but the last have the size. */
static int equal_parts(const char *op, fa_tensor *x, int64_t size, int64_t n, int at, fa_tensor **parts, int room) {
    if (n > INT32_MAX || (parts && n > room)) return fails(op, n, room);
    for (int64_t i = 0; parts && i < n; i++)
        if (!(parts[i] = mark(fa_slice(x, at, i * size, i + 1 < n ? (i + 1) * size : x->size[at], 1), x))) return -1;
    return (int)n;
}

int fa_split(fa_tensor *x, int64_t size, int dim, fa_tensor **parts, int room) {
    int at;
    if (!begin("split", x, dim, &at)) return -1;
    const int64_t there = x->size[at];
    if (size < 0)
        return fai_fail(FA_ERR_RUNTIME, "split", "split expects split_size be non-negative, but got split_size=%lld",
                        (long long)size),
               -1;
    if (size == 0 && there != 0)
        return fai_fail(FA_ERR_RUNTIME, "split",
                        "split_size can only be 0 if dimension size is 0, but got dimension size of %lld", (long long)there),
               -1;
    return equal_parts("split", x, size, there == 0 ? 1 : (there - 1) / size + 1, at, parts, room);
}

int fa_chunk(fa_tensor *x, int64_t chunks, int dim, fa_tensor **parts, int room) {
    int at;
    if (!begin("chunk", x, dim, &at)) return -1;
    if (chunks <= 0)
        return fai_fail(FA_ERR_RUNTIME, "chunk", "chunk expects `chunks` to be greater than 0, got: %lld", (long long)chunks), -1;
    const int64_t there = x->size[at], size = there == 0 ? 0 : (there - 1) / chunks + 1;
    return equal_parts("chunk", x, size, there == 0 ? chunks : (there - 1) / size + 1, at, parts, room);
}

static bool check_sizes(const fa_tensor *x, const int64_t *sizes, int nsizes, int at) {
    const char *op = "split_sizes";
    char text[400];
    int64_t sum = 0;
    if (nsizes < 0 || (nsizes > 0 && !sizes))
        return fai_fail(FA_ERR_VALUE, op, "argument 'sizes' is a list of %d sizes at NULL", nsizes);
    bool negative = false;
    for (int i = 0; i < nsizes; i++) {
        negative = negative || sizes[i] < 0;
        if (!fai_add(sum, sizes[i], &sum)) sum = INT64_MAX;
    }
    if (!negative && sum == x->size[at]) return true;
    fai_text_shape(text, sizeof text, nsizes < 32 ? nsizes : 32, sizes);
    if (negative)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=%s", text);
    return fai_fail(FA_ERR_RUNTIME, op,
                    "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size at dimension %d), but got "
                    "split_sizes=%s",
                    (long long)x->size[at], at, text);
}

int fa_split_sizes(fa_tensor *x, const int64_t *sizes, int nsizes, int dim, fa_tensor **parts, int room) {
    int at;
    if (!begin("split_sizes", x, dim, &at) || !check_sizes(x, sizes, nsizes, at)) return -1;
    if (parts && nsizes > room) return fails("split_sizes", nsizes, room);
    int64_t start = 0;
    for (int i = 0; parts && i < nsizes; i++) {
        if (!(parts[i] = mark(fa_slice(x, at, start, start + sizes[i], 1), x))) return -1;
        start += sizes[i];
    }
    return nsizes;
}

int fa_unbind(fa_tensor *x, int dim, fa_tensor **parts, int room) {
    int at;
    if (!fai_begin1("unbind", "x", x)) return -1;
    if (x->ndim == 0) return fai_fail(FA_ERR_INDEX, "unbind", "Dimension specified as %d but tensor has no dimensions", dim), -1;
    if (!fai_wrap_dim("unbind", dim, x->ndim, &at)) return -1;
    const int64_t n = x->size[at];
    if (n > INT32_MAX || (parts && n > room)) return fails("unbind", n, room);
    for (int64_t i = 0; parts && i < n; i++)
        if (!(parts[i] = mark(fa_select(x, at, i), x))) return -1;
    return (int)n;
}
