/* .npy: one array. A magic word, the length of a header, the header (a Python dictionary with descr, fortran_order and shape),
 * then the elements. */
#include "io.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADER = 1 << 20 };
static const char magic[] = "\x93NUMPY";

static const struct { const char *code; fa_dtype dtype; } codes[] = {
    {"b1", FA_BOOL}, {"u1", FA_UINT8}, {"i1", FA_INT8}, {"i2", FA_INT16}, {"i4", FA_INT32}, {"i8", FA_INT64},
    {"f2", FA_FLOAT16}, {"f4", FA_FLOAT32}, {"f8", FA_FLOAT64},
};

/* ---- Writing ---- */

bool fai_npy_header(const char *op, const fa_tensor *t, char header[FAI_NPY_HEADER], size_t *length) {
    const char *code = NULL;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i].dtype == (fa_dtype)t->dtype) code = codes[i].code;
    }
    if (code == NULL)
        return fai_fail(
            FA_ERR_UNSUPPORTED, op,
            "t is %s, which NumPy's files don't have; cast it by fa_cast(t, FA_FLOAT32), or save it by fa_save_safetensors",
            fa_dtype_name((fa_dtype)t->dtype));
    char text[FAI_NPY_HEADER];
    int n = snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                     fa_dtype_size((fa_dtype)t->dtype) > 1 ? '<' : '|', code);
    for (int d = 0; d < t->ndim; d++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", d > 0 ? ", " : "", (long long)t->size[d]);
    n += snprintf(text + n, sizeof text - (size_t)n, "%s), }", t->ndim == 1 ? "," : "");
    size_t total = ((size_t)n + 10 + 1 + 63) / 64 * 64; /* elements begin at a multiple of 64 */
    memcpy(header, magic, 6);
    header[6] = 1;
    header[7] = 0;
    header[8] = (char)((total - 10) & 255);
    header[9] = (char)((total - 10) >> 8);
    memcpy(header + 10, text, (size_t)n);
    memset(header + 10 + n, ' ', total - 11 - (size_t)n);
    header[total - 1] = '\n';
    *length = total;
    return true;
}

bool fa_save_npy(const char *path, fa_tensor *t) {
    const char *op = "save_npy";
    char header[FAI_NPY_HEADER];
    size_t length;
    fai_writer writer;
    if (fai_refuse_pending(op) || !fai_check(op, "t", t) || !fai_npy_header(op, t, header, &length)) return false;
    const void *bytes;
    if (!fai_borrow_bytes(op, t, &bytes)) return false;
    bool ok = fai_writer_open(&writer, path, op);
    ok = ok && fai_writer_put(&writer, header, length);
    ok = ok && fai_writer_put(&writer, bytes, (uint64_t)t->numel * fa_dtype_size((fa_dtype)t->dtype));
    ok = fai_writer_close(&writer, ok);
    fai_return_bytes(t, bytes);
    return ok;
}

/* ---- Reading the header ---- */

typedef struct header { const char *at, *end; fa_dtype dtype; bool big_endian, column_major; fa_shape shape; } header;

static void skip_space(header *h) {
    while (h->at < h->end && strchr(" \t\r\n", *h->at) != NULL && *h->at != 0) h->at++;
}

static bool take(header *h, const char *word) {
    size_t n = strlen(word);
    skip_space(h);
    if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0) return false;
    h->at += n;
    return true;
}

static bool follows(header *h, char c) {
    skip_space(h);
    return h->at < h->end && *h->at == c;
}

/* 'text' or "text", without escapes. */
static bool take_string(header *h, char *out, size_t room) {
    skip_space(h);
    if (h->at >= h->end || (*h->at != '\'' && *h->at != '"')) return false;
    const char *close = memchr(h->at + 1, *h->at, (size_t)(h->end - h->at - 1));
    if (close == NULL || (size_t)(close - h->at) > room) return false;
    size_t n = (size_t)(close - h->at - 1);
    memcpy(out, h->at + 1, n);
    out[n] = 0;
    h->at = close + 1;
    return strlen(out) == n;
}

static bool take_size(header *h, int64_t *out) {
    skip_space(h);
    const char *first = h->at;
    for (*out = 0; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
        if (!fai_mul(*out, 10, out) || !fai_add(*out, *h->at - '0', out)) return false;
    }
    return h->at > first;
}

static bool take_shape(const fai_source *s, header *h) {
    static const char no_tuple[] = "the header's shape is no tuple of sizes from 0 to 2^63 - 1";
    if (!take(h, "(")) return fai_file_bad(s->file, s->member, no_tuple);
    while (!take(h, ")")) {
        int64_t size;
        if (!take_size(h, &size)) return fai_file_bad(s->file, s->member, no_tuple);
        if (h->shape.ndim == FA_MAX_DIMS)
            return fai_file_foreign(s->file, s->member, "the array has more than %d dimensions", FA_MAX_DIMS);
        h->shape.dim[h->shape.ndim++] = size;
        if (!take(h, ",") && !follows(h, ')')) return fai_file_bad(s->file, s->member, no_tuple);
    }
    return true;
}

static bool take_order(const fai_source *s, header *h) {
    h->column_major = take(h, "True");
    if (h->column_major || take(h, "False")) return true;
    return fai_file_bad(s->file, s->member, "the header's fortran_order is neither True nor False");
}

static bool take_dtype(const fai_source *s, header *h) {
    char text[64];
    skip_space(h);
    if (h->at < h->end && *h->at == '[')
        return fai_file_foreign(s->file, s->member, "the array has a structured dtype; a tensor has one type");
    if (!take_string(h, text, sizeof text)) return fai_file_bad(s->file, s->member, "the header's descr is no text");
    const char *code = strchr("<>=|", text[0]) != NULL && text[0] != 0 ? text + 1 : text;
    h->big_endian = text[0] == '>';
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(code, codes[i].code) == 0) h->dtype = codes[i].dtype;
    }
    return h->dtype != FA_DTYPE_DEFAULT ||
           fai_file_foreign(s->file, s->member, "the array's dtype is '%s'; tensors have b1, u1, i1, i2, i4, i8, f2, f4 and f8",
                            text);
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } with the keys in any order. */
static bool parse(const fai_source *s, header *h) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    static bool (*const values[])(const fai_source *, header *) = {take_dtype, take_order, take_shape};
    bool seen[3] = {false};
    char key[64];
    if (!take(h, "{")) return fai_file_bad(s->file, s->member, "the header is no dictionary");
    while (!take(h, "}")) {
        int k = 0;
        if (!take_string(h, key, sizeof key) || !take(h, ":"))
            return fai_file_bad(s->file, s->member, "the header is no dictionary of names and values");
        while (k < 3 && strcmp(key, keys[k]) != 0) k++;
        if (k == 3 || seen[k])
            return fai_file_bad(s->file, s->member,
                                "the header has \"%s\"%s; descr, fortran_order and shape are allowed, once each", key,
                                k < 3 ? " twice" : "");
        seen[k] = true;
        if (!values[k](s, h)) return false;
        if (!take(h, ",") && !follows(h, '}'))
            return fai_file_bad(s->file, s->member, "the header is no dictionary of names and values");
    }
    skip_space(h);
    if (h->at != h->end) return fai_file_bad(s->file, s->member, "something follows the header's dictionary");
    for (int k = 0; k < 3; k++) {
        if (!seen[k]) return fai_file_bad(s->file, s->member, "the header lacks \"%s\"", keys[k]);
    }
    return true;
}

static bool read_header(fai_source *s, header *h) {
    uint8_t start[12];
    if (!fai_source_read(s, start, 10)) return false;
    if (memcmp(start, magic, 6) != 0)
        return fai_file_bad(s->file, s->member, "this is no .npy file: it does not begin with \\x93NUMPY");
    if (start[6] < 1 || start[6] > 3)
        return fai_file_foreign(s->file, s->member, "version %d.%d of the format; 1.0, 2.0 and 3.0 are known", start[6],
                                start[7]);
    uint64_t length = (uint64_t)start[8] | (uint64_t)start[9] << 8;
    if (start[6] > 1) {
        if (!fai_source_read(s, start + 10, 2)) return false;
        length |= (uint64_t)start[10] << 16 | (uint64_t)start[11] << 24;
    }
    if (length > MOST_HEADER || length > s->left)
        return fai_file_bad(s->file, s->member,
                            "the header is said to have %llu bytes; %llu are left, and at most %d are allowed",
                            (unsigned long long)length, (unsigned long long)s->left, MOST_HEADER);
    char *text = fai_alloc(FAI_TAG_FILE, (size_t)length + 1);
    if (text == NULL) return fai_fail_memory(s->file->op, (size_t)length + 1);
    h->at = text;
    h->end = text + length;
    bool ok = fai_source_read(s, text, length) && parse(s, h);
    fai_free(FAI_TAG_FILE, text, (size_t)length + 1);
    return ok;
}

static bool read_elements(void *context, void *out, uint64_t bytes) { return fai_source_read(context, out, bytes); }

fa_tensor *fai_npy_read(fai_source *source, fa_device device) {
    header h = {0};
    uint64_t bytes;
    char shape[200];
    if (!read_header(source, &h)) return NULL;
    fai_text_shape(shape, sizeof shape, h.shape.ndim, h.shape.dim);
    if (!fai_count_bytes(h.dtype, &h.shape, &bytes))
        return fai_file_bad(source->file, source->member, "an array of shape %s is larger than any memory", shape);
    if (bytes > source->left)
        return fai_file_bad(source->file, source->member,
                            "the data end too early: %s of shape %s takes %llu bytes, %llu are there; the file is truncated",
                            fa_dtype_name(h.dtype), shape, (unsigned long long)bytes, (unsigned long long)source->left);
    return fai_read_tensor(source->file->op, h.dtype, device, &h.shape, h.column_major, h.big_endian, read_elements, source);
}

fa_tensor *fa_load_npy_with(const char *path, const fa_load_options *options) {
    fai_file file;
    fai_source source;
    fa_device device;
    if (!fai_load_device("load_npy", options, &device) || !fai_file_open(&file, path, "load_npy")) return NULL;
    fai_source_whole(&source, &file);
    fa_tensor *t = fai_npy_read(&source, device);
    fai_file_close(&file);
    return t;
}
