/* Tables of numbers from text, packed by gzip or plain: which one, the first two bytes tell.
 *
 * The file is read in pieces, inflated, cut into fields and turned into numbers at once; only the numbers are kept. Nothing is
 * believed: lines of different length, words, numbers that don't fit and damaged packing are errors that name the line. */
#define _GNU_SOURCE /* strtod_l */
#include "data.h"
#include "../io/io.h"
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#define OP "load_csv"
enum { PIECE = 64 * 1024, FIELD = 64, GZIP_FRAME = 16 };

typedef union number {
    double f;
    int64_t i;
} number;

typedef struct table {
    fai_file file;
    fa_csv_options options;
    bool whole;        /* integers are wanted */
    int64_t low, high; /* that fit */
    locale_t c;        /* numbers are written with a point, whatever the user's language */
    number *values;
    size_t count, room;
    int64_t line, columns, column; /* columns: of the first row, 0 before its end; column: fields of this row so far */
    char field[FIELD];
    size_t length; /* of the field so far */
    bool blank;    /* only spaces in this line so far */
} table;

/* ---- fields ---- */

static bool bad(table *t, const char *what) {
    for (char *c = t->field; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?'; /* what a terminal might obey stays out of the message */
    return fai_fail(FA_ERR_FORMAT, OP, "%s: line %lld, column %lld: \"%.60s\" %s", t->file.path, (long long)t->line,
                    (long long)t->column + 1, t->field, what);
}

static bool read_whole(table *t, const char *text, number *out) {
    char *end, what[120];
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (*end) return bad(t, "is no whole number, as the dtype wants them: load it with a floating dtype, or mend the file");
    if (errno == 0 && value >= t->low && value <= t->high) return out->i = value, true;
    snprintf(what, sizeof what, "does not fit %s, which holds %lld to %lld", fa_dtype_name(t->options.dtype), (long long)t->low,
             (long long)t->high);
    return bad(t, what);
}

static bool read_real(table *t, const char *text, number *out) {
    char *end;
    out->f = strtod_l(text, &end, t->c);
    return *end ? bad(t, "is no number; lines at the start that hold names are passed over by .skip_rows = 1") : true;
}

static bool add_value(table *t, number value) {
    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 4096;
        number *values = room > SIZE_MAX / sizeof value
                             ? NULL
                             : fai_realloc(FAI_TAG_FILE, t->values, t->room * sizeof value, room * sizeof value);
        if (!values) return fai_fail_memory(OP, room * sizeof value);
        t->values = values, t->room = room;
    }
    t->values[t->count++] = value;
    return true;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static bool end_field(table *t) {
    number value;
    while (t->length && is_space(t->field[t->length - 1])) t->length--;
    t->field[t->length] = 0;
    if (t->columns && t->column == t->columns)
        return fai_fail(FA_ERR_FORMAT, OP, "%s: line %lld has more than %lld columns, as many as the first row has", t->file.path,
                        (long long)t->line, (long long)t->columns);
    if (!t->length) return bad(t, "is empty: a number is needed");
    if (!(t->whole ? read_whole : read_real)(t, t->field, &value) || !add_value(t, value)) return false;
    t->column++;
    t->length = 0;
    return true;
}

static bool end_line(table *t) {
    if (t->line > t->options.skip_rows && !t->blank) {
        if (!end_field(t)) return false;
        if (!t->columns) t->columns = t->column;
        if (t->column != t->columns)
            return fai_fail(FA_ERR_FORMAT, OP, "%s: line %lld has %lld columns, but the first row has %lld", t->file.path,
                            (long long)t->line, (long long)t->column, (long long)t->columns);
    }
    t->line++;
    t->column = 0;
    t->length = 0;
    t->blank = true;
    return true;
}

static bool take(table *t, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (c == '\n') {
            if (!end_line(t)) return false;
        } else if (t->line <= t->options.skip_rows) {
            continue;
        } else if (c == t->options.delimiter) {
            t->blank = false;
            if (!end_field(t)) return false;
        } else if (!is_space(c)) {
            t->blank = false;
            if (t->length == FIELD - 1 || c == 0) {
                t->field[t->length] = 0;
                return bad(t, c ? "goes on: no number is so long" : "is followed by a zero byte: this is no text");
            }
            t->field[t->length++] = c;
        } else if (t->length && t->length < FIELD - 1) {
            t->field[t->length++] = c; /* inside a field it makes it no number; at its end it is taken away */
        }
    }
    return true;
}

/* ---- pieces ---- */

static bool read_plain(table *t, uint8_t *piece) {
    for (uint64_t at = 0; at < t->file.size;) {
        const uint64_t n = t->file.size - at < PIECE ? t->file.size - at : PIECE;
        if (fai_poll(OP) || !fai_file_read(&t->file, at, piece, n) || !take(t, (const char *)piece, n)) return false;
        at += n;
    }
    return true;
}

static bool inflate_error(const table *t, int state, const char *text) {
    if (state == Z_MEM_ERROR) return fai_fail_memory(OP, sizeof(z_stream));
    return fai_file_bad(&t->file, NULL, "the compressed data are damaged (%s)", text ? text : "unknown reason"), false;
}

/* One piece of the file, which may hold the end of one gzip member and the start of the next. */
static bool inflate_piece(table *t, z_stream *z, uint8_t *out, bool *inside) {
    do {
        if (!*inside) {
            if (inflateReset(z) != Z_OK) return inflate_error(t, Z_STREAM_ERROR, "it can't be begun");
            *inside = true;
        }
        z->next_out = out;
        z->avail_out = PIECE;
        const int state = inflate(z, Z_NO_FLUSH);
        if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR) return inflate_error(t, state, z->msg);
        if (fai_poll(OP) || !take(t, (const char *)out, PIECE - z->avail_out)) return false;
        if (state == Z_STREAM_END) *inside = false;
    } while (z->avail_in > 0 || (*inside && z->avail_out == 0));
    return true;
}

static bool read_packed(table *t, uint8_t *piece) {
    z_stream z = {.zalloc = fai_zlib_alloc, .zfree = fai_zlib_free};
    bool inside = true, ok = true;
    uint8_t *out = fai_alloc(FAI_TAG_FILE, PIECE);
    if (!out) return fai_fail_memory(OP, PIECE);
    if (inflateInit2(&z, MAX_WBITS + GZIP_FRAME) != Z_OK) {
        fai_free(FAI_TAG_FILE, out, PIECE);
        return fai_fail_memory(OP, sizeof z);
    }
    for (uint64_t at = 0; ok && at < t->file.size;) {
        const uint64_t n = t->file.size - at < PIECE ? t->file.size - at : PIECE;
        z.next_in = piece;
        z.avail_in = (uInt)n;
        ok = fai_file_read(&t->file, at, piece, n) && inflate_piece(t, &z, out, &inside);
        at += n;
    }
    if (ok && inside) ok = fai_file_bad(&t->file, NULL, "the compressed data end too early; the file is truncated") != NULL;
    inflateEnd(&z);
    fai_free(FAI_TAG_FILE, out, PIECE);
    return ok;
}

static bool read_table(table *t) {
    uint8_t *piece = fai_alloc(FAI_TAG_FILE, PIECE);
    if (!piece) return fai_fail_memory(OP, PIECE);
    const bool packed = t->file.size >= 2 && fai_file_read(&t->file, 0, piece, 2) && piece[0] == 0x1f && piece[1] == 0x8b;
    bool ok = !fa_failed() && (packed ? read_packed(t, piece) : read_plain(t, piece)) && end_line(t);
    fai_free(FAI_TAG_FILE, piece, PIECE);
    if (ok && !t->columns) ok = fai_file_bad(&t->file, NULL, "there are no numbers in it") != NULL;
    return ok;
}

/* ---- the call ---- */

static bool set_range(table *t) {
    static const int64_t low[] = {[FA_INT8] = INT8_MIN, [FA_INT16] = INT16_MIN, [FA_INT32] = INT32_MIN, [FA_INT64] = INT64_MIN};
    static const int64_t high[] = {[FA_BOOL] = 1,          [FA_UINT8] = UINT8_MAX, [FA_INT8] = INT8_MAX,
                                   [FA_INT16] = INT16_MAX, [FA_INT32] = INT32_MAX, [FA_INT64] = INT64_MAX};
    t->whole = !fai_is_float((int)t->options.dtype);
    if (t->whole) {
        t->low = low[t->options.dtype], t->high = high[t->options.dtype];
        return true;
    }
    t->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return t->c || fai_fail_memory(OP, sizeof(locale_t));
}

static bool check_options(fa_csv_options *o) {
    if (o->dtype == FA_DTYPE_DEFAULT) o->dtype = fa_default_dtype();
    if (o->dtype < FA_BOOL || o->dtype >= FA_DTYPE_COUNT)
        return fai_fail(FA_ERR_TYPE, OP, "dtype: there is no element type number %d; give one of FA_BOOL to FA_FLOAT64",
                        (int)o->dtype);
    if (!o->delimiter || strchr("0123456789+-.eE \n\r", o->delimiter))
        return fai_fail(FA_ERR_VALUE, OP, "delimiter: '%c' can't stand between numbers; use ',', ';' or a tab",
                        o->delimiter ? o->delimiter : '0');
    if (o->skip_rows < 0)
        return fai_fail(FA_ERR_VALUE, OP, "skip_rows must not be negative, but got %lld", (long long)o->skip_rows);
    return fai_device_resolve(&o->device, OP);
}

fa_tensor *fa_load_csv_with(const char *path, const fa_csv_options *options) {
    table t = {.options = {.struct_size = sizeof t.options, FA_CSV_DEFAULTS}, .line = 1, .blank = true};
    fa_tensor *result = NULL;
    if (options) memcpy(&t.options, options, options->struct_size < sizeof t.options ? options->struct_size : sizeof t.options);
    if (fai_refuse_pending(OP) || !check_options(&t.options) || !set_range(&t)) return NULL;
    if (fai_file_open(&t.file, path, OP) && read_table(&t)) {
        const fa_tensor_options to = {.struct_size = sizeof to, .dtype = t.options.dtype, .device = t.options.device};
        const fa_shape shape = FA_SHAPE((int64_t)t.count / t.columns, t.columns);
        result = fa_from_data_with(t.values, t.whole ? FA_INT64 : FA_FLOAT64, shape, &to);
    }
    fai_file_close(&t.file);
    fai_free(FAI_TAG_FILE, t.values, t.room * sizeof *t.values);
    if (t.c) freelocale(t.c);
    return result;
}
