/* Sequences of different lengths, padded or packed. All of these are a choice of rows: a list of row numbers is made on the
 * host, and one index_select of the rows (with a row of padding behind them) does the rest, derivatives included. */
#include "composite.h"
#include <fa_recurrent.h>

/* A list of int64 that grows with its tensor: made on the host, then moved. */
static int64_t *numbers(const char *op, int64_t n, size_t *bytes) {
    *bytes = (size_t)(n > 0 ? n : 1) * sizeof(int64_t);
    int64_t *list = fai_calloc(FAI_TAG_OTHER, *bytes);
    if (!list) fai_fail_memory(op, *bytes);
    return list;
}

static fa_tensor *as_tensor(const int64_t *list, int64_t n, fa_device device) {
    FAI_CONSTANTS;
    return fa_from_data(list, FA_INT64, FA_SHAPE(n), .device = device);
}

/* x [a, b, ...] as [a * b, ...] */
static fa_tensor *joined(fa_tensor *x) {
    fa_shape shape = {.ndim = x->ndim - 1, .dim = {x->size[0] * x->size[1]}};
    for (int d = 2; d < x->ndim; d++) shape.dim[d - 1] = x->size[d];
    return fa_reshape(x, shape);
}

/* The positions of falling lengths: the longest first, equal ones in their order. */
static void sort_falling(const int64_t *lengths, int64_t n, int64_t *order) {
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = i; j > 0 && lengths[order[j]] > lengths[order[j - 1]]; j--) {
            const int64_t other = order[j];
            order[j] = order[j - 1], order[j - 1] = other;
        }
}

/* ---- packing ---- */

static const char *const PACK = "pack_padded_sequence";

static bool lengths_fit(const fa_tensor *x, const fa_tensor *lengths, int64_t batch, int64_t longest, bool enforce_sorted) {
    if (lengths->ndim != 1 || lengths->dtype != FA_INT64 || !fai_on_cpu(lengths))
        return fai_fail(FA_ERR_RUNTIME, PACK, "'lengths' argument should be a 1D CPU int64 tensor, but got %dD %s %s tensor",
                        lengths->ndim, fa_device_text(lengths->device), fai_dtype_title((fa_dtype)lengths->dtype));
    if (x->numel == 0) return fai_fail(FA_ERR_RUNTIME, PACK, "Cannot pack empty tensors.");
    if (lengths->numel != batch)
        return fai_fail(FA_ERR_RUNTIME, PACK, "Expected `len(lengths)` to be equal to batch_size, but got %lld (batch_size=%lld)",
                        (long long)lengths->numel, (long long)batch);
    const int64_t *length = fai_host(lengths), step = lengths->stride[0];
    for (int64_t b = 0; b < batch; b++) {
        if (length[b * step] <= 0)
            return fai_fail(FA_ERR_RUNTIME, PACK,
                            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0");
        if (length[b * step] > longest)
            return fai_fail(FA_ERR_RUNTIME, PACK, "lengths[%lld] is %lld, but the padded sequences have %lld steps", (long long)b,
                            (long long)length[b * step], (long long)longest);
        if (enforce_sorted && b > 0 && length[b * step] > length[(b - 1) * step])
            return fai_fail(
                FA_ERR_RUNTIME, PACK,
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                "`enforce_sorted=False` to "
                "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability.");
    }
    return true;
}

typedef struct packing {
    int64_t batch, steps, longest;          /* steps: of the padded sequences; longest: of the lengths */
    int64_t *length, *order, *back, *sizes; /* of one block */
    int64_t *rows, nrows;
} packing;

/* Rows of the joined sequences, step by step. */
static void list_rows(packing *p, bool batch_first) {
    for (int64_t t = 0, n = 0; t < p->longest; t++)
        for (int64_t b = 0; b < p->batch && p->length[p->order[b]] > t; b++) {
            const int64_t from = p->order[b];
            p->rows[n++] = batch_first ? from * p->steps + t : t * p->batch + from;
            p->sizes[t]++;
        }
}

static bool make_packed(packing *p, fa_tensor *x, bool batch_first, bool sorted, fa_packed *out) {
    list_rows(p, batch_first);
    for (int64_t b = 0; b < p->batch; b++) p->back[p->order[b]] = b;
    out->data = fa_index_select(joined(x), 0, as_tensor(p->rows, p->nrows, x->device));
    out->batch_sizes = as_tensor(p->sizes, p->longest, FA_CPU);
    if (!out->data || !out->batch_sizes) return false;
    if (sorted) return true;
    out->sorted_indices = as_tensor(p->order, p->batch, x->device);
    out->unsorted_indices = as_tensor(p->back, p->batch, x->device);
    return out->sorted_indices && out->unsorted_indices;
}

bool fa_pack_padded_sequence(fa_tensor *x, fa_tensor *lengths, bool batch_first, bool enforce_sorted, fa_packed *packed) {
    FAI_CALLED(PACK);
    if (!fai_begin1(PACK, "x", x) || !fai_check(PACK, "lengths", lengths)) return false;
    if (!packed) return fai_fail(FA_ERR_TYPE, PACK, "argument 'packed' is NULL: there is no place for the result");
    if (x->ndim < 2)
        return fai_fail(FA_ERR_INDEX, PACK, "Dimension specified as 1 but tensor has %d dimensions: time and batch are needed",
                        x->ndim);
    packing p = {.batch = x->size[!batch_first], .steps = x->size[batch_first]};
    if (!lengths_fit(x, lengths, p.batch, p.steps, enforce_sorted)) return false;
    FA_SCOPE;
    size_t bytes, row_bytes;
    p.length = numbers(PACK, 3 * p.batch + p.steps, &bytes);
    if (!p.length) return false;
    p.order = p.length + p.batch, p.back = p.order + p.batch, p.sizes = p.back + p.batch;
    for (int64_t b = 0; b < p.batch; b++) {
        p.length[b] = ((const int64_t *)fai_host(lengths))[b * lengths->stride[0]];
        p.nrows += p.length[b];
        if (p.length[b] > p.longest) p.longest = p.length[b];
    }
    sort_falling(p.length, p.batch, p.order);
    p.rows = numbers(PACK, p.nrows, &row_bytes);
    fa_packed out = {NULL, NULL, NULL, NULL};
    const bool ok = p.rows && make_packed(&p, x, batch_first, enforce_sorted, &out);
    fai_free(FAI_TAG_OTHER, p.length, bytes);
    if (p.rows) fai_free(FAI_TAG_OTHER, p.rows, row_bytes);
    if (!ok) return false;
    *packed =
        (fa_packed){fa_keep(out.data), fa_keep(out.batch_sizes), fa_keep(out.sorted_indices), fa_keep(out.unsorted_indices)};
    return true;
}

/* ---- padding ---- */

/* x's rows with one row of padding behind them, chosen by `rows`, as [first, second, ...]. */
static fa_tensor *with_padding(fa_tensor *x, double value, const int64_t *rows, int64_t first, int64_t second) {
    fa_shape one = fa_shape_of_tensor(x), shape = {.ndim = x->ndim + 1, .dim = {first, second}};
    one.dim[0] = 1;
    for (int d = 1; d < x->ndim; d++) shape.dim[d + 1] = x->size[d];
    fa_tensor *padding = fa_full(one, value, .dtype = (fa_dtype)x->dtype, .device = x->device);
    fa_tensor *all = fa_cat((fa_tensor *const[]){x, padding}, 2, 0);
    return fa_view(fa_index_select(all, 0, as_tensor(rows, first * second, x->device)), shape);
}

static const char *const UNPACK = "pad_packed_sequence";

static bool packed_ok(const fa_packed *p) {
    if (!p) return fai_fail(FA_ERR_TYPE, UNPACK, "argument 'packed' is NULL");
    if (!fai_check(UNPACK, "packed.data", p->data) || !fai_check(UNPACK, "packed.batch_sizes", p->batch_sizes)) return false;
    const fa_tensor *sizes = p->batch_sizes;
    const bool list =
        sizes->ndim == 1 && sizes->dtype == FA_INT64 && fai_on_cpu(sizes) && FAI_HAS(sizes, FAI_CONTIGUOUS) && sizes->numel > 0;
    int64_t rows = 0;
    for (int64_t t = 0; list && t < sizes->numel; t++) rows += ((const int64_t *)fai_host(sizes))[t];
    if (list && p->data->ndim > 0 && p->data->size[0] == rows) return true;
    return fai_fail(FA_ERR_RUNTIME, UNPACK,
                    "this is no packed sequence: batch_sizes must be a 1D CPU int64 tensor whose sum is the first size of data");
}

/* Where the caller wants sequence b of the sorted ones: on the host. */
static bool read_order(const fa_packed *p, int64_t batch, int64_t *order) {
    for (int64_t b = 0; b < batch; b++) order[b] = b;
    if (!p->sorted_indices) return true;
    if (p->sorted_indices->numel == batch && fa_to_data(p->sorted_indices, order, FA_INT64)) {
        for (int64_t b = 0; b < batch; b++)
            if (order[b] < 0 || order[b] >= batch)
                return fai_fail(FA_ERR_INDEX, UNPACK, "sorted_indices[%lld] is %lld, but there are %lld sequences", (long long)b,
                                (long long)order[b], (long long)batch);
        return true;
    }
    return fa_failed() ? false
                       : fai_fail(FA_ERR_RUNTIME, UNPACK, "sorted_indices has %lld elements for %lld sequences",
                                  (long long)p->sorted_indices->numel, (long long)batch);
}

fa_tensor *fa_pad_packed_sequence(const fa_packed *packed, bool batch_first, double padding_value, int64_t total_length,
                                  fa_tensor **lengths) {
    FAI_CALLED(UNPACK);
    if (!packed_ok(packed)) return NULL;
    const int64_t *sizes = fai_host(packed->batch_sizes), longest = packed->batch_sizes->numel, batch = sizes[0];
    if (total_length > 0 && total_length < longest)
        return fai_fail(FA_ERR_VALUE, UNPACK,
                        "Expected total_length to be at least the length of the longest sequence in input, but got "
                        "total_length=%lld and max sequence length being %lld",
                        (long long)total_length, (long long)longest);
    const int64_t steps = total_length > 0 ? total_length : longest, none = packed->data->size[0];
    FA_SCOPE;
    size_t bytes;
    int64_t *rows = numbers(UNPACK, batch * (steps + 2), &bytes);
    if (!rows) return NULL;
    int64_t *order = rows + batch * steps, *length = order + batch;
    bool ok = read_order(packed, batch, order);
    for (int64_t t = 0, at = 0; ok && t < steps; t++) {
        const int64_t here = t < longest ? sizes[t] : 0;
        for (int64_t b = 0; b < batch; b++) {
            rows[batch_first ? order[b] * steps + t : t * batch + order[b]] = b < here ? at + b : none;
            length[order[b]] += b < here;
        }
        at += here;
    }
    fa_tensor *y =
        ok ? with_padding(packed->data, padding_value, rows, batch_first ? batch : steps, batch_first ? steps : batch) : NULL;
    if (y && lengths && (*lengths = as_tensor(length, batch, FA_CPU))) fa_keep(*lengths);
    ok = y && (!lengths || *lengths);
    fai_free(FAI_TAG_OTHER, rows, bytes);
    return ok ? fa_keep(y) : NULL;
}

static bool sequences_fit(const char *op, fa_tensor *const *sequences, int n) {
    if (n <= 0) return fa_failed() ? false : fai_fail(FA_ERR_RUNTIME, op, "received an empty list of sequences");
    if (!fai_list_begin(op, "sequences", sequences, n, false)) return false;
    for (int i = 0; i < n; i++) {
        const fa_tensor *a = sequences[0], *b = sequences[i];
        if (b->ndim < 1 || b->ndim != a->ndim || b->dtype != a->dtype)
            return fai_fail(FA_ERR_RUNTIME, op,
                            "sequence %d has %d dimensions and type %s, the first %d and %s: they must be the same, and time is "
                            "the first dimension",
                            i, b->ndim, fa_dtype_name((fa_dtype)b->dtype), a->ndim, fa_dtype_name((fa_dtype)a->dtype));
        for (int d = 1; d < a->ndim; d++)
            if (a->size[d] != b->size[d])
                return fai_fail(
                    FA_ERR_RUNTIME, op,
                    "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d",
                    (long long)a->size[d], (long long)b->size[d], d);
    }
    return true;
}

fa_tensor *fa_pad_sequence(fa_tensor *const *sequences, int n, bool batch_first, double padding_value, const char *padding_side) {
    const char *op = "pad_sequence", *side = padding_side ? padding_side : "right";
    FAI_CALLED(op);
    if (!sequences_fit(op, sequences, n)) return NULL;
    const bool left = strcmp(side, "left") == 0;
    if (!left && strcmp(side, "right"))
        return fai_fail(FA_ERR_RUNTIME, op, "Expected padding_side to be one of left or right, but got %s.", side);
    FA_SCOPE;
    int64_t longest = 0, none = 0;
    size_t bytes;
    for (int b = 0; b < n; b++) {
        none += sequences[b]->size[0];
        if (sequences[b]->size[0] > longest) longest = sequences[b]->size[0];
    }
    int64_t *rows = numbers(op, longest * n, &bytes);
    if (!rows) return NULL;
    for (int64_t b = 0, at = 0; b < n; at += sequences[b++]->size[0])
        for (int64_t t = 0; t < longest; t++) {
            const int64_t length = sequences[b]->size[0], from = left ? t - (longest - length) : t;
            rows[batch_first ? b * longest + t : t * n + b] = from >= 0 && from < length ? at + from : none;
        }
    fa_tensor *all = fa_cat(sequences, n, 0);
    fa_tensor *y = all ? with_padding(all, padding_value, rows, batch_first ? n : longest, batch_first ? longest : n) : NULL;
    fai_free(FAI_TAG_OTHER, rows, bytes);
    return y ? fa_keep(y) : NULL;
}

bool fa_pack_sequence(fa_tensor *const *sequences, int n, bool enforce_sorted, fa_packed *packed) {
    FAI_CALLED("pack_sequence");
    if (!packed) return fai_fail(FA_ERR_TYPE, "pack_sequence", "argument 'packed' is NULL: there is no place for the result");
    if (!sequences_fit("pack_sequence", sequences, n)) return false;
    FA_SCOPE;
    const int64_t count = n;
    fa_tensor *lengths = fai_empty("pack_sequence", FA_INT64, FA_CPU, 1, &count);
    for (int i = 0; lengths && i < n; i++) ((int64_t *)fai_host(lengths))[i] = sequences[i]->size[0];
    fa_tensor *padded = lengths ? fa_pad_sequence(sequences, n, false, 0, NULL) : NULL;
    if (!padded || !fa_pack_padded_sequence(padded, lengths, false, enforce_sorted, packed)) return false;
    fa_keep(packed->data), fa_keep(packed->batch_sizes), fa_keep(packed->sorted_indices), fa_keep(packed->unsorted_indices);
    return true;
}
