/* Tensors as text, letter for letter as torch prints them.
 *
 * Three steps: the elements that will be seen are fetched (of a long dimension only its edges, so that printing a large tensor
 * on a device copies little); one number format is found that suits them all; then rows are laid out, wrapped and followed by
 * what is not obvious: device, size, dtype, gradient. */
#include "tensor.h"
#include <fa_autograd.h>
#include <math.h>
#include <string.h>

enum { NUMBER_ROOM = 512, MOST_PRECISION = 100 };

static const fa_print_options torchs_options = {sizeof(fa_print_options), 4, 1000, 3, 80, -1};
static fa_print_options options = {sizeof(fa_print_options), 4, 1000, 3, 80, -1};

void fa_set_print_options(const fa_print_options *given) {
    options = torchs_options;
    if (given == NULL) return;
    memcpy(&options, given, given->struct_size < sizeof options ? given->struct_size : sizeof options);
    if (options.precision < 0) options.precision = 0;
    if (options.precision > MOST_PRECISION) options.precision = MOST_PRECISION;
    if (options.edgeitems < 0) options.edgeitems = 0;
}

/* ---- What will be seen ---- */

typedef struct shown {
    const fa_tensor *t;
    int indent;                        /* of what follows "tensor(" */
    bool cut;                          /* long dimensions show their edges only */
    int64_t size[FA_MAX_DIMS], count;  /* what is seen of each dimension, and in all */
    union { double *f; int64_t *i; void *any; } value; /* in C order */
    size_t bytes;
    /* how a number is written */
    bool integral, scientific;
    int width;
} shown;

static bool is_cut(const shown *s, int d) { return s->cut && s->t->size[d] > 2 * (int64_t)options.edgeitems; }

/* Copies one block, which begins at `first` among the seen elements, to its places. */
static void place_block(shown *s, const void *block, const int64_t *first, const int64_t *length, int64_t n) {
    int64_t at[FA_MAX_DIMS] = {0};
    for (int64_t i = 0; i < n; i++) {
        int64_t place = 0;
        for (int d = 0; d < s->t->ndim; d++) place = place * s->size[d] + first[d] + at[d];
        s->value.i[place] = ((const int64_t *)block)[i]; /* both kinds have 8 bytes */
        for (int d = s->t->ndim - 1; d >= 0 && ++at[d] == length[d]; d--) at[d] = 0;
    }
}

/* Fetches the corner that lies at the end of those cut dimensions whose bit is set, at the beginning of the others. */
static bool fetch_corner(shown *s, unsigned corner, void *block, const char *op) {
    fa_tensor *t = (fa_tensor *)s->t;
    int64_t first[FA_MAX_DIMS] = {0}, length[FA_MAX_DIMS], offset = t->offset, n = 1;
    for (int d = 0; d < t->ndim; d++) {
        bool at_end = corner >> d & 1;
        length[d] = is_cut(s, d) ? options.edgeitems : t->size[d];
        if (at_end) {
            first[d] = options.edgeitems;
            offset += (t->size[d] - length[d]) * t->stride[d];
        }
        n *= length[d];
    }
    fa_tensor *view = fai_view(op, t, t->ndim, length, t->stride, offset);
    bool ok = view != NULL && fa_to_data(view, block, fai_is_float(t->dtype) ? FA_FLOAT64 : FA_INT64);
    fa_drop(view);
    if (ok) place_block(s, block, first, length, n);
    return ok;
}

static bool fetch(shown *s, const char *op) {
    unsigned cut = 0;
    s->cut = s->t->numel > options.threshold;
    s->count = 1;
    for (int d = 0; d < s->t->ndim; d++) {
        if (is_cut(s, d)) cut |= 1u << d;
        s->size[d] = is_cut(s, d) ? 2 * (int64_t)options.edgeitems : s->t->size[d];
        s->count *= s->size[d];
    }
    s->bytes = (size_t)s->count * sizeof(double);
    if (s->count == 0) return true;
    s->value.any = fai_alloc(FAI_TAG_TEXT, s->bytes);
    if (s->value.any == NULL) return fai_fail_memory(op, s->bytes);
    if (cut == 0) return fa_to_data((fa_tensor *)s->t, s->value.any, fai_is_float(s->t->dtype) ? FA_FLOAT64 : FA_INT64);
    void *block = fai_alloc(FAI_TAG_TEXT, s->bytes);
    if (block == NULL) return fai_fail_memory(op, s->bytes);
    bool ok = true;
    for (unsigned corner = 0; ok && corner <= cut; corner++) {
        if ((corner & ~cut) == 0) ok = fetch_corner(s, corner, block, op);
    }
    fai_free(FAI_TAG_TEXT, block, s->bytes);
    return ok;
}

/* ---- Numbers ---- */

static int write_number(const shown *s, int64_t i, char out[NUMBER_ROOM]) {
    if (s->t->dtype == FA_BOOL) return snprintf(out, NUMBER_ROOM, "%s", s->value.i[i] ? "True" : "False");
    if (!fai_is_float(s->t->dtype)) return snprintf(out, NUMBER_ROOM, "%lld", (long long)s->value.i[i]);
    double v = s->value.f[i];
    if (isnan(v)) return snprintf(out, NUMBER_ROOM, "nan");
    if (isinf(v)) return snprintf(out, NUMBER_ROOM, v < 0 ? "-inf" : "inf");
    if (s->scientific) return snprintf(out, NUMBER_ROOM, "%.*e", options.precision, v);
    if (s->integral) return snprintf(out, NUMBER_ROOM, "%.0f.", v);
    return snprintf(out, NUMBER_ROOM, "%.*f", options.precision, v);
}

/* Whole numbers need no digits after the point; those that are large, small or far apart get an exponent. Only finite numbers
 * other than zero are asked. */
static void choose_format(shown *s) {
    bool floating = fai_is_float(s->t->dtype), any = false;
    double least = INFINITY, most = 0;
    s->integral = true;
    for (int64_t i = 0; floating && i < s->count; i++) {
        double v = fabs(s->value.f[i]);
        if (!isfinite(v) || v == 0) continue;
        any = true;
        least = fmin(least, v);
        most = fmax(most, v);
        if (v != ceil(v)) s->integral = false;
    }
    bool apart = any && (most / least > 1000.0 || most > 1e8 || (!s->integral && least < 1e-4));
    s->scientific = any && (options.sci_mode < 0 ? apart : options.sci_mode != 0);
    s->width = 1;
    char number[NUMBER_ROOM];
    for (int64_t i = 0; i < s->count; i++) {
        if (floating && (!isfinite(s->value.f[i]) || s->value.f[i] == 0)) continue;
        int length = write_number(s, i, number);
        if (length > s->width) s->width = length;
    }
}

/* ---- Layout ---- */

static void add_spaces(fai_text *text, int64_t n) {
    while (n-- > 0) fai_text_add_bytes(text, " ", 1);
}

static void add_number(const shown *s, int64_t i, fai_text *text) {
    char number[NUMBER_ROOM];
    int length = write_number(s, i, number);
    add_spaces(text, s->width - length);
    fai_text_add_bytes(text, number, (size_t)length);
}

/* What stands at place k of a dimension: the number of an element, or -1 for the dots between the edges. */
static int64_t item_at(const shown *s, int dim, int64_t k) {
    if (!is_cut(s, dim) || k < options.edgeitems) return k;
    return k == options.edgeitems ? -1 : k - 1;
}

/* One row: as many numbers a line as fit. */
static void add_row(const shown *s, int64_t first, int64_t indent, fai_text *text) {
    int last = s->t->ndim - 1;
    int64_t items = s->size[last] + is_cut(s, last), per_line = (options.linewidth - indent) / (s->width + 2);
    if (per_line < 1) per_line = 1;
    fai_text_add(text, "[");
    for (int64_t k = 0; k < items; k++) {
        if (k > 0 && k % per_line == 0) {
            fai_text_add(text, ",\n");
            add_spaces(text, indent + 1);
        } else if (k > 0) {
            fai_text_add(text, ", ");
        }
        int64_t i = item_at(s, last, k);
        if (i < 0) fai_text_add(text, " ...");
        else add_number(s, first + i, text);
    }
    fai_text_add(text, "]");
}

static void add_block(const shown *s, int dim, int64_t first, fai_text *text) {
    int64_t indent = s->indent + dim, items = s->size[dim] + is_cut(s, dim), inner = 1;
    if (dim == s->t->ndim - 1) {
        add_row(s, first, indent, text);
        return;
    }
    for (int d = dim + 1; d < s->t->ndim; d++) inner *= s->size[d];
    fai_text_add(text, "[");
    for (int64_t k = 0; k < items; k++) {
        if (k > 0) {
            fai_text_add(text, ",");
            for (int d = dim + 1; d < s->t->ndim; d++) fai_text_add(text, "\n");
            add_spaces(text, indent + 1);
        }
        int64_t i = item_at(s, dim, k);
        if (i < 0) fai_text_add(text, "...");
        else add_block(s, dim + 1, first + i * inner, text);
    }
    fai_text_add(text, "]");
}

static void add_elements(const shown *s, fai_text *text) {
    if (s->t->numel == 0) fai_text_add(text, "[]");
    else if (s->t->ndim == 0) add_number(s, 0, text);
    else if (s->cut && options.edgeitems == 0) fai_text_add(text, "[...]");
    else add_block(s, 0, 0, text);
}

/* ---- What follows the numbers ---- */

/* used: how long the last line is by torch's count, which starts two too high and so wraps a little early. */
static void add_suffix(fai_text *text, int indent, int64_t *used, const char *format, const char *value) {
    char suffix[256];
    int length = snprintf(suffix, sizeof suffix, format, value);
    if (*used + length + 2 > options.linewidth) {
        fai_text_add(text, ",\n");
        add_spaces(text, indent);
        *used = indent + length;
    } else {
        fai_text_add(text, ", ");
        *used += length + 2;
    }
    fai_text_add(text, "%s", suffix);
}

static void add_suffixes(const fa_tensor *t, int indent, fai_text *text) {
    if (text->failed) return;
    const char *line = strrchr(text->data, '\n');
    int64_t used = (int64_t)text->length + 2 - (line == NULL ? 0 : line + 1 - text->data);
    if (t->device.type != FA_DEVICE_CPU) add_suffix(text, indent, &used, "device='%s'", fa_device_text(t->device));
    if ((t->numel == 0 && t->ndim != 1) || (options.edgeitems == 0 && t->numel > 0)) {
        char size[FA_MAX_DIMS * 24];
        fai_text_shape(size, sizeof size - 1, t->ndim, t->size);
        size[0] = '(';
        snprintf(size + strlen(size) - 1, 3, t->ndim == 1 ? ",)" : ")");
        add_suffix(text, indent, &used, "size=%s", size);
    }
    bool obvious = t->dtype == fa_default_dtype() || (t->numel > 0 && (t->dtype == FA_INT64 || t->dtype == FA_BOOL));
    if (!obvious) add_suffix(text, indent, &used, "dtype=torch.%s", fa_dtype_name((fa_dtype)t->dtype));
    const char *maker = fa_grad_fn_name(t);
    if (maker != NULL) add_suffix(text, indent, &used, "grad_fn=<%s>", maker);
    else if (fa_is_requires_grad(t)) add_suffix(text, indent, &used, "%s", "requires_grad=True");
}

/* False and an error set if there is no memory or the device failed; text is freed by the caller in every case. */
static bool tensor_text(const char *op, const char *name, fa_tensor *t, fai_text *text) {
    FAI_READER(op);
    shown s = {.t = t, .indent = (int)strlen(name) + 1};
    if (!fai_check(op, "t", t)) return false;
    bool ok = fetch(&s, op);
    if (ok) {
        choose_format(&s);
        fai_text_add(text, "%s(", name);
        add_elements(&s, text);
        add_suffixes(t, s.indent, text);
        fai_text_add(text, ")");
        if (text->failed) ok = fai_fail_memory(op, text->length);
    }
    fai_free(FAI_TAG_TEXT, s.value.any, s.bytes);
    return ok;
}

void fa_print(fa_tensor *t) {
    fai_text text = {0};
    if (tensor_text("print", "tensor", t, &text)) {
        fai_text_add(&text, "\n");
        if (text.failed) fai_fail_memory("print", text.length);
        else if (fwrite(text.data, 1, text.length, stdout) != text.length)
            fai_fail(FA_ERR_FILE, "print", "could not write to stdout");
    }
    fai_text_free(&text);
}

size_t fa_to_text(fa_tensor *t, char *out, size_t n) { return fai_to_text_as("tensor", t, out, n); }

size_t fai_to_text_as(const char *name, fa_tensor *t, char *out, size_t n) {
    fai_text text = {0};
    size_t length = 0;
    if (n > 0) out[0] = 0;
    if (tensor_text("to_text", name, t, &text)) {
        length = text.length;
        if (n > 0) snprintf(out, n, "%s", text.data);
    }
    fai_text_free(&text);
    return length;
}
