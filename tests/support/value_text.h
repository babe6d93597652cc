/* Values as text, as tests/golden/make_pt.py writes them: what stands in a second place is @ and the number of its first one.
 * Included once by a test. */
#ifndef VALUE_TEXT_H
#define VALUE_TEXT_H

#include <facula.h>
#include "io/value.h"
#include <stdlib.h>
#include <string.h>

typedef struct value_text {
    fai_text out;
    int64_t *seen, nseen; /* by index: 1 + number */
    fai_buffer *storages[1000];
    int nstorages;
} value_text;

static void write_value(value_text *w, const fa_value *v);

static void write_hex(value_text *w, const fa_value *v) {
    size_t n;
    const unsigned char *bytes = fa_value_bytes(v, &n);
    for (size_t i = 0; i < n; i++) fai_text_add(&w->out, "%02x", bytes[i]);
}

static void write_text(value_text *w, const fa_value *v) {
    size_t n;
    const char *text = fa_value_text(v, &n);
    fai_text_add(&w->out, "\"");
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n')
            fai_text_add(&w->out, "\\n");
        else if (text[i] == '"' || text[i] == '\\')
            fai_text_add(&w->out, "\\%c", text[i]);
        else
            fai_text_add_bytes(&w->out, text + i, 1);
    }
    fai_text_add(&w->out, "\"");
}

static void write_items(value_text *w, const fa_value *v) {
    fai_text_add(&w->out, "(");
    for (int64_t i = 0; i < fa_value_length(v); i++) {
        if (i > 0) fai_text_add(&w->out, ", ");
        write_value(w, fa_value_item(v, i));
    }
    fai_text_add(&w->out, ")");
}

static void write_pairs(value_text *w, const fa_value *v) {
    fai_text_add(&w->out, "{");
    for (int64_t i = 0; i < fa_value_length(v); i++) {
        if (i > 0) fai_text_add(&w->out, ", ");
        write_value(w, fa_value_key(v, i));
        fai_text_add(&w->out, ": ");
        write_value(w, fa_value_item(v, i));
    }
    fai_text_add(&w->out, "}");
}

static void write_tensor(value_text *w, const fa_value *v) {
    fa_tensor *t = fa_value_tensor(v);
    char size[200], stride[200];
    int storage = 0;
    while (storage < w->nstorages && w->storages[storage] != t->buffer) storage++;
    if (storage == w->nstorages) w->storages[w->nstorages++] = t->buffer;
    fai_text_shape(size, sizeof size, t->ndim, t->size);
    fai_text_shape(stride, sizeof stride, t->ndim, t->stride);
    const size_t width = fa_dtype_size((fa_dtype)t->dtype), n = (size_t)t->numel;
    fai_text_add(&w->out, "%s(%s %s %s %lld of %zu in #%d%s:", fa_value_kind_name(fa_value_kind_of(v)),
                 fa_dtype_name((fa_dtype)t->dtype), size, stride, (long long)t->offset, t->buffer->bytes / width, storage,
                 fa_is_requires_grad(t) ? " grad" : "");
    double *values = malloc(n * sizeof *values + 1);
    if (fa_to_data(t, values, FA_FLOAT64))
        for (size_t i = 0; i < n; i++) fai_text_add(&w->out, " %.9g", values[i]);
    free(values);
    fai_text_add(&w->out, n == 0 ? " )" : ")");
}

static void write_number(value_text *w, const fa_value *v) {
    double parts[2];
    switch (fa_value_kind_of(v)) {
    case FA_VALUE_NONE: fai_text_add(&w->out, "None"); break;
    case FA_VALUE_BOOL: fai_text_add(&w->out, fa_value_bool(v) ? "True" : "False"); break;
    case FA_VALUE_INT: fai_text_add(&w->out, "%lld", (long long)fa_value_int(v)); break;
    case FA_VALUE_FLOAT: fai_text_add(&w->out, "%.17g", fa_value_float(v)); break;
    case FA_VALUE_COMPLEX:
        fa_value_complex(v, parts);
        fai_text_add(&w->out, "complex(%.17g, %.17g)", parts[0], parts[1]);
        break;
    case FA_VALUE_BIG_INT:
        fai_text_add(&w->out, "big ");
        write_hex(w, v);
        break;
    case FA_VALUE_TEXT: write_text(w, v); break;
    case FA_VALUE_DTYPE: fai_text_add(&w->out, "torch.%s", fa_dtype_name(fa_value_dtype(v))); break;
    case FA_VALUE_DEVICE: fai_text_add(&w->out, "%s", fa_device_text(fa_value_device(v))); break;
    default: break;
    }
}

static void write_shared(value_text *w, const fa_value *v) {
    const fa_value_kind kind = fa_value_kind_of(v);
    const char *name = kind == FA_VALUE_SIZE ? "Size" : kind == FA_VALUE_DICT ? "" : fa_value_kind_name(kind);
    if (w->seen[fa_value_index(v)] > 0) {
        fai_text_add(&w->out, "@%lld", (long long)w->seen[fa_value_index(v)] - 1);
        return;
    }
    w->seen[fa_value_index(v)] = ++w->nseen;
    if (kind == FA_VALUE_TENSOR || kind == FA_VALUE_PARAMETER) {
        write_tensor(w, v);
    } else if (kind == FA_VALUE_BYTES || kind == FA_VALUE_BYTE_ARRAY) {
        fai_text_add(&w->out, "%s ", name);
        write_hex(w, v);
    } else if (kind == FA_VALUE_OBJECT) {
        fai_text_add(&w->out, "%s%s", fa_value_is_new(v) ? "new " : "", fa_value_text(fa_value_class(v), NULL));
        write_items(w, fa_value_arguments(v));
    } else {
        fai_text_add(&w->out, "%s", name);
        if (fai_value_is_dict(v))
            write_pairs(w, v);
        else
            write_items(w, v);
    }
    if (fa_value_state(v) == NULL) return;
    fai_text_add(&w->out, " with ");
    if (fai_value_is_dict(fa_value_state(v)))
        write_pairs(w, fa_value_state(v)); /* not counted, as in Python */
    else
        write_value(w, fa_value_state(v));
}

static void write_value(value_text *w, const fa_value *v) {
    const fa_value_kind kind = fa_value_kind_of(v);
    const bool plain = kind < FA_VALUE_BYTES || kind == FA_VALUE_DTYPE || kind == FA_VALUE_DEVICE;
    if (kind == FA_VALUE_TUPLE && fa_value_length(v) == 0)
        fai_text_add(&w->out, "()");
    else if (kind == FA_VALUE_GLOBAL)
        fai_text_add(&w->out, "%s", fa_value_text(v, NULL));
    else if (plain)
        write_number(w, v);
    else
        write_shared(w, v);
}

/* To be freed by fai_text_free. */
static fai_text text_of_value(const fa_value *v) {
    value_text w = {.seen = calloc(fa_values_count(fa_values_of(v)) + 1u, sizeof(int64_t))};
    write_value(&w, v);
    free(w.seen);
    return w.out;
}

#endif
