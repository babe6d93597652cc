/* .safetensors: eight bytes with the length of a header in JSON, the header, then all elements.
 *
 *   {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *
 * The header is read twice: once to check that every part is sound and that the tensors cover the data without gap or overlap,
 * and once, when the file is known to be good, to make the tensors. */
#include "io.h"
#include "json.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADER = 100 * 1000 * 1000 };

static const struct { const char *name; fa_dtype dtype; } names[] = {
    {"BOOL", FA_BOOL}, {"U8", FA_UINT8}, {"I8", FA_INT8}, {"I16", FA_INT16}, {"I32", FA_INT32}, {"I64", FA_INT64},
    {"F16", FA_FLOAT16}, {"BF16", FA_BFLOAT16}, {"F32", FA_FLOAT32}, {"F64", FA_FLOAT64},
};

/* ---- Saving ---- */

/* Wide elements first, so that each tensor begins at a multiple of its element's size; the header keeps the order of adding. */
static uint64_t place_all(const fa_tensors *tensors, uint64_t *begin) {
    uint64_t at = 0;
    for (size_t width = 8; width > 0; width /= 2) {
        for (int64_t i = 0; i < fa_tensors_count(tensors); i++) {
            const fa_tensor *t = fa_tensors_at(tensors, i);
            if (fa_dtype_size((fa_dtype)t->dtype) != width) continue;
            begin[i] = at;
            at += (uint64_t)t->numel * width;
        }
    }
    return at;
}

static void write_entry(fai_text *text, const char *name, const fa_tensor *t, uint64_t begin) {
    const char *dtype = "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].dtype == (fa_dtype)t->dtype) dtype = names[i].name;
    }
    fai_json_write_string(text, name);
    fai_text_add(text, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
    for (int d = 0; d < t->ndim; d++) fai_text_add(text, "%s%lld", d > 0 ? "," : "", (long long)t->size[d]);
    uint64_t end = begin + (uint64_t)t->numel * fa_dtype_size((fa_dtype)t->dtype);
    fai_text_add(text, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin, (unsigned long long)end);
}

static void write_header(fai_text *text, const fa_tensors *tensors, const uint64_t *begin) {
    int64_t notes = fa_tensors_note_count(tensors);
    fai_text_add(text, "{");
    for (int64_t i = 0; i < notes; i++) {
        const char *key = fa_tensors_note_key_at(tensors, i);
        fai_text_add(text, i == 0 ? "\"__metadata__\":{" : ",");
        fai_json_write_string(text, key);
        fai_text_add(text, ":");
        fai_json_write_string(text, fa_tensors_note(tensors, key));
    }
    if (notes > 0) fai_text_add(text, "}");
    for (int64_t i = 0; i < fa_tensors_count(tensors); i++) {
        if (i > 0 || notes > 0) fai_text_add(text, ",");
        write_entry(text, fa_tensors_name_at(tensors, i), fa_tensors_at(tensors, i), begin[i]);
    }
    fai_text_add(text, "}");
    while (text->length % 8 != 0 && !text->failed) fai_text_add(text, " ");
}

static bool names_fit(const char *op, const fa_tensors *tensors) {
    for (int64_t i = 0; i < fa_tensors_count(tensors); i++) {
        if (strcmp(fa_tensors_name_at(tensors, i), "__metadata__") == 0)
            return fai_fail(FA_ERR_VALUE, op,
                            "tensors: the name \"__metadata__\" means something else in this format; choose another one");
    }
    return true;
}

static bool write_data(const char *op, fai_writer *writer, const fa_tensors *tensors) {
    for (size_t width = 8; width > 0; width /= 2) {
        for (int64_t i = 0; i < fa_tensors_count(tensors); i++) {
            fa_tensor *t = fa_tensors_at(tensors, i);
            const void *bytes;
            if (fa_dtype_size((fa_dtype)t->dtype) != width) continue;
            if (!fai_borrow_bytes(op, t, &bytes)) return false;
            bool ok = fai_writer_put(writer, bytes, (uint64_t)t->numel * width);
            fai_return_bytes(t, bytes);
            if (!ok) return false;
        }
    }
    return true;
}

bool fa_save_safetensors(const char *path, const fa_tensors *tensors) {
    const char *op = "save_safetensors";
    fai_writer writer;
    fai_text text = {0};
    if (fai_refuse_pending(op)) return false;
    if (tensors == NULL) return fai_fail(FA_ERR_VALUE, op, "tensors is NULL; make them by fa_tensors_new");
    if (!names_fit(op, tensors)) return false;
    size_t room = ((size_t)fa_tensors_count(tensors) + 1) * sizeof(uint64_t);
    uint64_t *begin = fai_alloc(FAI_TAG_FILE, room);
    if (begin == NULL) return fai_fail_memory(op, room);
    place_all(tensors, begin);
    write_header(&text, tensors, begin);
    fai_free(FAI_TAG_FILE, begin, room);
    bool ok = !text.failed || fai_fail_memory(op, text.length);
    if (ok && text.length > MOST_HEADER)
        ok = fai_fail(FA_ERR_VALUE, op, "tensors: the header would have %zu bytes; the format allows %d", text.length,
                      MOST_HEADER);
    if (ok) {
        uint8_t length[8];
        for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)text.length >> 8 * i);
        ok = fai_writer_open(&writer, path, op);
        ok = ok && fai_writer_put(&writer, length, sizeof length) && fai_writer_put(&writer, text.data, text.length);
        ok = ok && write_data(op, &writer, tensors);
        ok = fai_writer_close(&writer, ok);
    }
    fai_text_free(&text);
    return ok;
}

/* ---- Loading: one entry ---- */

typedef struct span { uint64_t begin, end; } span;

/* What the header is read with. word is reused for every string. */
typedef struct reader { const fai_file *file; fai_json json; fai_text name, word; uint64_t data_begin, data_bytes; } reader;

/* A string, or an error that says what it was to be. */
static bool take_string(reader *r, fai_text *out, const char *what) {
    if (fai_json_string(&r->json, out)) return true;
    if (out->failed) return fai_fail_memory(r->file->op, out->room);
    return fai_file_bad(r->file, NULL, "the header has no %s at byte %lld; it must be valid JSON in UTF-8", what,
                        (long long)(8 + r->json.at - r->json.start));
}

static bool take_mark(reader *r, char c) {
    if (fai_json_take(&r->json, c)) return true;
    return fai_file_bad(r->file, NULL, "the header lacks '%c' at byte %lld", c, (long long)(8 + r->json.at - r->json.start));
}

static bool take_dtype(reader *r, fa_dtype *dtype) {
    if (!take_string(r, &r->word, "dtype")) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(r->word.data, names[i].name) == 0) *dtype = names[i].dtype;
    }
    if (*dtype != FA_DTYPE_DEFAULT) return true;
    return fai_file_foreign(r->file, r->name.data,
                            "the dtype is \"%.40s\"; tensors have BOOL, U8, I8, I16, I32, I64, F16, BF16, F32 and F64",
                            r->word.data);
}

/* [2, 3]: at most `most` numbers. */
static bool take_sizes(reader *r, const char *key, uint64_t *out, int most, int *n) {
    *n = 0;
    if (!take_mark(r, '[')) return false;
    while (!fai_json_follows(&r->json, ']')) {
        if (*n > 0 && !take_mark(r, ',')) return false;
        if (*n == most) return fai_file_foreign(r->file, r->name.data, "%s has more than %d numbers", key, most);
        if (!fai_json_size(&r->json, &out[(*n)++]))
            return fai_file_bad(r->file, r->name.data, "%s holds something else than whole numbers from 0 to 2^63 - 1", key);
    }
    return take_mark(r, ']');
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...}, each once, in any order. */
static bool take_entry(reader *r, fa_dtype *dtype, fa_shape *shape, span *place) {
    uint64_t sizes[FA_MAX_DIMS], offsets[2] = {0, 0};
    int seen[3] = {0}, noffsets = 0, ndim = 0;
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    *dtype = FA_DTYPE_DEFAULT;
    if (!take_mark(r, '{')) return false;
    for (int k = 0; k < 3; k++) {
        if ((k > 0 && !take_mark(r, ',')) || !take_string(r, &r->word, "key") || !take_mark(r, ':')) return false;
        int which = 0;
        while (which < 3 && strcmp(r->word.data, keys[which]) != 0) which++;
        if (which == 3 || seen[which]++)
            return fai_file_bad(r->file, r->name.data,
                                "the header has \"%.40s\"%s; dtype, shape and data_offsets are needed, once each", r->word.data,
                                which < 3 ? " twice" : "");
        bool ok = which == 0   ? take_dtype(r, dtype)
                  : which == 1 ? take_sizes(r, "shape", sizes, FA_MAX_DIMS, &ndim)
                               : take_sizes(r, "data_offsets", offsets, 2, &noffsets);
        if (!ok) return false;
    }
    if (noffsets != 2) return fai_file_bad(r->file, r->name.data, "data_offsets has %d numbers; it needs 2", noffsets);
    *place = (span){offsets[0], offsets[1]};
    shape->ndim = ndim;
    for (int d = 0; d < ndim; d++) shape->dim[d] = (int64_t)sizes[d];
    return take_mark(r, '}');
}

static bool check_entry(reader *r, fa_dtype dtype, const fa_shape *shape, span place) {
    uint64_t bytes;
    char text[200];
    fai_text_shape(text, sizeof text, shape->ndim, shape->dim);
    if (!fai_count_bytes(dtype, shape, &bytes))
        return fai_file_bad(r->file, r->name.data, "a tensor of shape %s is larger than any memory", text);
    if (place.begin > place.end || place.end > r->data_bytes)
        return fai_file_bad(r->file, r->name.data,
                            "data_offsets are [%llu, %llu], the file has %llu bytes of data; it is damaged or truncated",
                            (unsigned long long)place.begin, (unsigned long long)place.end, (unsigned long long)r->data_bytes);
    if (place.end - place.begin == bytes) return true;
    return fai_file_bad(r->file, r->name.data, "%s of shape %s takes %llu bytes, data_offsets give it %llu", fa_dtype_name(dtype),
                        text, (unsigned long long)bytes, (unsigned long long)(place.end - place.begin));
}

/* {"key": "text", ...} */
static bool take_notes(reader *r, fa_tensors *notes) {
    bool first = true;
    if (!take_mark(r, '{')) return false;
    for (; !fai_json_follows(&r->json, '}'); first = false) {
        if (!first && !take_mark(r, ',')) return false;
        if (!take_string(r, &r->name, "key of __metadata__") || !take_mark(r, ':') ||
            !take_string(r, &r->word, "text in __metadata__"))
            return false;
        if (notes != NULL && !fa_tensors_set_note(notes, r->name.data, r->word.data)) return false;
    }
    return take_mark(r, '}');
}

/* ---- Loading: the file ---- */

static int by_begin(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* The tensors' places, in order: each begins where the one before ends, the last ends with the file. */
static bool check_cover(const reader *r, span *spans, int64_t n) {
    uint64_t at = 0;
    if (n > 0) qsort(spans, (size_t)n, sizeof *spans, by_begin);
    for (int64_t i = 0; i < n; at = spans[i++].end) {
        if (spans[i].begin != at)
            return fai_file_bad(r->file, NULL, "data_offsets leave a %s at byte %llu of the data; tensors must lie side by side",
                                spans[i].begin > at ? "gap" : "overlap",
                                (unsigned long long)(spans[i].begin > at ? at : spans[i].begin));
    }
    if (at == r->data_bytes) return true;
    return fai_file_bad(r->file, NULL, "the tensors take %llu bytes, the file has %llu bytes of data", (unsigned long long)at,
                        (unsigned long long)r->data_bytes);
}

/* The first reading. */
static bool check_header(reader *r) {
    span *spans = NULL;
    int64_t n = 0, room = 0;
    bool ok = take_mark(r, '{'), noted = false;
    for (bool first = true; ok && !fai_json_follows(&r->json, '}'); first = false) {
        fa_dtype dtype;
        fa_shape shape;
        ok = (first || take_mark(r, ',')) && take_string(r, &r->name, "name") && take_mark(r, ':');
        if (ok && strcmp(r->name.data, "__metadata__") == 0) {
            if (noted) ok = fai_file_bad(r->file, NULL, "the header has \"__metadata__\" twice");
            ok = ok && take_notes(r, NULL);
            noted = true;
            continue;
        }
        if (ok && n == room) {
            int64_t more = room > 0 ? 2 * room : 64;
            span *bigger = fai_realloc(FAI_TAG_FILE, spans, (size_t)room * sizeof *spans, (size_t)more * sizeof *spans);
            ok = bigger != NULL || fai_fail_memory(r->file->op, (size_t)more * sizeof *spans);
            if (ok) spans = bigger, room = more;
        }
        ok = ok && take_entry(r, &dtype, &shape, &spans[n]) && check_entry(r, dtype, &shape, spans[n]);
        n++;
    }
    ok = ok && take_mark(r, '}');
    fai_json_follows(&r->json, 0); /* passes over the spaces at the end */
    if (ok && r->json.at != r->json.end)
        ok = fai_file_bad(r->file, NULL, "something follows the header's JSON at byte %lld",
                          (long long)(8 + r->json.at - r->json.start));
    ok = ok && check_cover(r, spans, n);
    fai_free(FAI_TAG_FILE, spans, (size_t)room * sizeof *spans);
    return ok;
}

typedef struct place { const fai_file *file; uint64_t at; } place;

static bool read_elements(void *context, void *out, uint64_t bytes) {
    const place *p = context;
    return fai_file_read(p->file, p->at, out, bytes);
}

/* The second reading; the header is known to be good, but names may still meet twice. */
static bool make_tensors(reader *r, fa_tensors *out, fa_device device) {
    r->json.at = r->json.start;
    bool ok = take_mark(r, '{');
    for (bool first = true; ok && !fai_json_follows(&r->json, '}'); first = false) {
        fa_dtype dtype;
        fa_shape shape;
        span data;
        ok = (first || take_mark(r, ',')) && take_string(r, &r->name, "name") && take_mark(r, ':');
        if (ok && strcmp(r->name.data, "__metadata__") == 0) {
            ok = take_notes(r, out);
            continue;
        }
        ok = ok && take_entry(r, &dtype, &shape, &data);
        if (ok && fa_tensors_find(out, r->name.data) != NULL)
            ok = fai_file_bad(r->file, r->name.data, "the name stands for two tensors");
        if (!ok) break;
        place from = {r->file, r->data_begin + data.begin};
        fa_tensor *t = fai_read_tensor(r->file->op, dtype, device, &shape, false, false, read_elements, &from);
        ok = t != NULL && fa_tensors_add(out, r->name.data, t);
        fa_drop(t);
    }
    return ok;
}

static bool load(const fai_file *file, fa_tensors *out, fa_device device) {
    uint8_t start[8];
    uint64_t length = 0;
    if (!fai_file_read(file, 0, start, sizeof start)) return false;
    for (int i = 0; i < 8; i++) length |= (uint64_t)start[i] << 8 * i;
    if (length > MOST_HEADER || length > file->size - 8)
        return fai_file_bad(file, NULL,
                            "the header is said to have %llu bytes; %llu are left, and at most %d are allowed: the file is "
                            "damaged or not in this format",
                            (unsigned long long)length, (unsigned long long)(file->size - 8), MOST_HEADER);
    char *header = fai_alloc(FAI_TAG_FILE, (size_t)length + 1);
    if (header == NULL) return fai_fail_memory(file->op, (size_t)length + 1);
    reader r = {
        .file = file, .json = {header, header, header + length}, .data_begin = 8 + length, .data_bytes = file->size - 8 - length};
    bool ok = fai_file_read(file, 8, header, length) && check_header(&r) && make_tensors(&r, out, device);
    fai_text_free(&r.name);
    fai_text_free(&r.word);
    fai_free(FAI_TAG_FILE, header, (size_t)length + 1);
    return ok;
}

fa_tensors *fa_load_safetensors_with(const char *path, const fa_load_options *options) {
    const char *op = "load_safetensors";
    fai_file file;
    fa_device device;
    if (!fai_load_device(op, options, &device) || !fai_file_open(&file, path, op)) return NULL;
    fa_tensors *out = fa_tensors_new();
    bool ok = out != NULL && load(&file, out, device);
    fai_file_close(&file);
    if (ok) return out;
    fa_drop(out);
    return NULL;
}
