/* Writes PyTorch's checkpoints: byte for byte the archive that torch.save makes, but for serialization_id, which is a hash of its
 * own kind. Each record's bytes begin at a multiple of 64, so that torch.load can map them into memory; storages are written
 * whole and once, straight from their memory, or through a piece of host memory from a device. */
#include "pt.h"
#include <string.h>

enum {
    LOCAL = 0x04034b50,
    DESCRIPTOR = 0x08074b50,
    CENTRAL = 0x02014b50,
    END64 = 0x06064b50,
    LOCATOR64 = 0x07064b50,
    END = 0x06054b50
};
enum { ALIGNMENT = 64, UTF8 = 0x0800, HAS_DESCRIPTOR = 0x0008, PIECE = 4 << 20, MOST_NAME = 300 };
static const uint64_t most32 = UINT32_MAX;

#define put fai_put_little

/* ---- The archive ---- */

typedef struct archive {
    fai_writer writer;
    char folder[MOST_NAME];
    fai_text directory, names; /* names: of all records, for the id */
    uint64_t records;
    uint32_t crc; /* of all records, together */
} archive;

typedef struct part {
    const void *data;
    fai_buffer *buffer;
    uint64_t bytes;
} part; /* buffer: on a device, instead of data */

static bool put_text(archive *a, fai_text *text) {
    bool ok = !text->failed || fai_fail_memory(a->writer.op, text->room);
    ok = ok && fai_writer_put(&a->writer, text->data, text->length);
    fai_text_free(text);
    return ok;
}

/* Zeros in place of sizes: they follow the bytes. A big record's 64-bit sizes stand before the padding. */
static bool put_local(archive *a, const char *name, uint64_t bytes) {
    fai_text text = {0};
    const bool big = bytes >= most32, far = a->writer.at >= most32;
    const int extra64 = big || far ? 4 + (big ? 16 : 0) + (far ? 8 : 0) : 0;
    const uint64_t start = a->writer.at + 30 + strlen(name) + (uint64_t)extra64 + 4;
    const int padding = (int)(-start & (ALIGNMENT - 1));
    put(&text, LOCAL, 4);
    put(&text, 0, 2);
    put(&text, UTF8 | (bytes > 0 ? HAS_DESCRIPTOR : 0), 2);
    put(&text, 0, 2 + 2 + 2);
    put(&text, 0, 4);
    put(&text, big ? most32 : 0, 4);
    put(&text, big ? most32 : 0, 4);
    put(&text, strlen(name), 2);
    put(&text, (uint64_t)(extra64 + 4 + padding), 2);
    fai_text_add_bytes(&text, name, strlen(name));
    if (extra64 > 0) {
        put(&text, 1, 2);
        put(&text, (uint64_t)extra64 - 4, 2);
        if (big) put(&text, 0, 8), put(&text, 0, 8);
        if (far) put(&text, a->writer.at, 8);
    }
    fai_text_add(&text, "FB");
    put(&text, (uint64_t)padding, 2);
    for (int i = 0; i < padding; i++) fai_text_add(&text, "Z");
    return put_text(a, &text);
}

static void put_central(archive *a, const char *name, uint64_t bytes, uint32_t crc, uint64_t offset) {
    fai_text *text = &a->directory;
    const bool big = bytes >= most32, far = offset >= most32;
    const int extra = big || far ? 4 + (big ? 16 : 0) + (far ? 8 : 0) : 0;
    put(text, CENTRAL, 4);
    put(text, 0, 2 + 2);
    put(text, UTF8 | (bytes > 0 ? HAS_DESCRIPTOR : 0), 2);
    put(text, 0, 2 + 2 + 2);
    put(text, crc, 4);
    put(text, big ? most32 : bytes, 4);
    put(text, big ? most32 : bytes, 4);
    put(text, strlen(name), 2);
    put(text, (uint64_t)extra, 2);
    put(text, 0, 2 + 2 + 2);
    put(text, 0, 4);
    put(text, far ? most32 : offset, 4);
    fai_text_add_bytes(text, name, strlen(name));
    if (extra == 0) return;
    put(text, 1, 2);
    put(text, (uint64_t)extra - 4, 2);
    if (big) put(text, bytes, 8), put(text, bytes, 8);
    if (far) put(text, offset, 8);
}

/* In pieces, so that a callback is asked to stop now and then, and a device's memory needs little of the host's. */
static bool put_part(archive *a, const part *p, uint32_t *crc) {
    const char *op = a->writer.op;
    const size_t room = p->bytes < PIECE ? (size_t)p->bytes : PIECE;
    void *piece = p->buffer == NULL ? NULL : fai_alloc(FAI_TAG_FILE, room);
    bool ok = p->buffer == NULL || piece != NULL || fai_fail_memory(op, room);
    for (uint64_t at = 0; ok && at < p->bytes; at += PIECE) {
        const size_t n = p->bytes - at < PIECE ? (size_t)(p->bytes - at) : PIECE;
        const void *from = p->buffer == NULL ? (const char *)p->data + at : piece;
        ok = !fai_poll(op) && (p->buffer == NULL || fai_copy_to_host(piece, p->buffer, (size_t)at, n, op));
        if (!ok) break;
        *crc = fai_crc32(*crc, from, n);
        ok = fai_writer_put(&a->writer, from, n);
    }
    fai_free(FAI_TAG_FILE, piece, room);
    return ok;
}

static bool put_record(archive *a, const char *name, const part *p) {
    char full[MOST_NAME + 64];
    const uint64_t offset = a->writer.at;
    uint32_t crc = 0;
    snprintf(full, sizeof full, "%s/%s", a->folder, name);
    if (!put_local(a, full, p->bytes) || !put_part(a, p, &crc)) return false;
    if (p->bytes > 0) {
        fai_text text = {0};
        put(&text, DESCRIPTOR, 4);
        put(&text, crc, 4);
        put(&text, p->bytes, p->bytes >= most32 ? 8 : 4);
        put(&text, p->bytes, p->bytes >= most32 ? 8 : 4);
        if (!put_text(a, &text)) return false;
    }
    put_central(a, full, p->bytes, crc, offset);
    fai_text_add(&a->names, "%s/", name);
    a->crc = fai_crc32(a->crc, (const char *)&crc, sizeof crc);
    a->records++;
    return true;
}

static bool put_words(archive *a, const char *name, const char *words) {
    return put_record(a, name, &(part){.data = words, .bytes = strlen(words)});
}

/* The 64-bit end record is always there, as in PyTorch. */
static bool put_end(archive *a) {
    fai_text *text = &a->directory;
    const uint64_t begin = a->writer.at, length = text->length;
    put(text, END64, 4);
    put(text, 44, 8);
    put(text, 0x031e, 2);
    put(text, 45, 2);
    put(text, 0, 8);
    put(text, a->records, 8);
    put(text, a->records, 8);
    put(text, length, 8);
    put(text, begin, 8);
    put(text, LOCATOR64, 4);
    put(text, 0, 4);
    put(text, begin + length, 8);
    put(text, 1, 4);
    put(text, END, 4);
    put(text, 0, 4);
    put(text, a->records < UINT16_MAX ? a->records : UINT16_MAX, 2);
    put(text, a->records < UINT16_MAX ? a->records : UINT16_MAX, 2);
    put(text, length < most32 ? length : most32, 4);
    put(text, begin < most32 ? begin : most32, 4);
    put(text, 0, 2);
    return put_text(a, text);
}

/* A hash of the records' names and one of their checksums: equal files have equal ids, and nobody checks it. */
static bool put_id(archive *a) {
    char id[64];
    if (a->names.failed) return fai_fail_memory(a->writer.op, a->names.room);
    snprintf(id, sizeof id, "%020llu%020llu", (unsigned long long)fai_hash(a->names.data, a->names.length, 0),
             (unsigned long long)a->crc);
    return put_words(a, ".data/serialization_id", id);
}

/* ---- The storages ---- */

typedef struct saved {
    fai_buffer *buffer;
    fa_dtype dtype;
} saved;
typedef struct storages {
    saved *all;
    size_t n, room;
    uint32_t *table;
} storages; /* table: 1 + place, twice as long, by buffer */

static uint32_t *place_of(const storages *s, const fai_buffer *buffer) {
    const size_t mask = 2 * s->room - 1;
    for (size_t at = fai_hash(&buffer, sizeof buffer, 0) & mask;; at = (at + 1) & mask) {
        if (s->table[at] == 0 || s->all[s->table[at] - 1].buffer == buffer) return &s->table[at];
    }
}

static bool grow(storages *s, const char *op) {
    const size_t room = s->room > 0 ? 2 * s->room : 16;
    saved *all = fai_realloc(FAI_TAG_FILE, s->all, s->room * sizeof *all, room * sizeof *all);
    if (all == NULL) return fai_fail_memory(op, room * sizeof *all);
    fai_free(FAI_TAG_FILE, s->table, 2 * s->room * sizeof *s->table);
    s->all = all;
    s->room = room;
    s->table = fai_calloc(FAI_TAG_FILE, 2 * room * sizeof *s->table);
    if (s->table == NULL) return fai_fail_memory(op, 2 * room * sizeof *s->table);
    for (size_t i = 0; i < s->n; i++) *place_of(s, all[i].buffer) = (uint32_t)i + 1;
    return true;
}

static int64_t find_storage(fai_pickler *p, fa_tensor *t, int64_t *elements) {
    storages *s = p->context;
    int64_t low, high;
    fai_span(t, &low, &high);
    if (low < 0)
        return fai_fail(FA_ERR_UNSUPPORTED, p->op,
                        "a tensor with a negative stride, which PyTorch does not have; fa_clone it first"),
               -1;
    if (s->n == s->room && !grow(s, p->op)) return -1;
    *elements = (int64_t)(t->buffer->bytes / fa_dtype_size((fa_dtype)t->dtype));
    uint32_t *place = place_of(s, t->buffer);
    if (*place == 0) {
        s->all[s->n++] = (saved){t->buffer, (fa_dtype)t->dtype};
        *place = (uint32_t)s->n;
    }
    if (s->all[*place - 1].dtype == (fa_dtype)t->dtype) return *place - 1;
    fai_fail(FA_ERR_RUNTIME, p->op,
             "Cannot save multiple tensors or storages that view the same data as different types: %s and %s; fa_clone one of "
             "them first",
             fa_dtype_name(s->all[*place - 1].dtype), fa_dtype_name((fa_dtype)t->dtype));
    return -1;
}

static bool put_storages(archive *a, const storages *s) {
    bool ok = true;
    for (size_t i = 0; ok && i < s->n; i++) {
        char name[40];
        fai_buffer *b = s->all[i].buffer;
        const uint64_t width = fa_dtype_size(s->all[i].dtype);
        const bool on_host = b->device.type == FA_DEVICE_CPU;
        snprintf(name, sizeof name, "data/%zu", i);
        ok = put_record(a, name, &(part){on_host ? fai_buffer_host(b) : NULL, on_host ? NULL : b, b->bytes / width * width});
    }
    return ok;
}

/* ---- Saving ---- */

/* a->writer is open. */
static bool write_all(archive *a, const fa_value *root) {
    storages s = {0};
    fai_pickler p = {.values = root->owner, .op = a->writer.op, .storage = find_storage, .context = &s};
    const uint16_t one = 1;
    bool ok = fai_pickle(&p, root);
    ok = ok && put_record(a, "data.pkl", &(part){.data = p.text.data, .bytes = p.text.length});
    fai_pickle_end(&p);
    ok = ok && put_words(a, ".format_version", "1") && put_words(a, ".storage_alignment", "64") &&
         put_words(a, "byteorder", *(const uint8_t *)&one == 1 ? "little" : "big") && put_storages(a, &s) &&
         put_words(a, "version", "3\n") && put_id(a) && put_end(a);
    fai_free(FAI_TAG_FILE, s.all, s.room * sizeof *s.all);
    fai_free(FAI_TAG_FILE, s.table, s.table == NULL ? 0 : 2 * s.room * sizeof *s.table);
    fai_text_free(&a->directory);
    fai_text_free(&a->names);
    return fai_writer_close(&a->writer, ok);
}

/* "folder/model_x.v1.pt" -> "model_x.v1" */
static bool name_folder(archive *a, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash == NULL ? path : slash + 1, *dot = strrchr(base, '.');
    const size_t n = dot == NULL || dot == base ? strlen(base) : (size_t)(dot - base);
    if (n == 0 || n >= MOST_NAME)
        return fai_fail(FA_ERR_VALUE, a->writer.op, "path \"%.200s\" has no name of a file, or one of more than %d characters",
                        path, MOST_NAME - 1);
    snprintf(a->folder, sizeof a->folder, "%.*s", (int)n, base);
    return true;
}

static bool given(const char *op, const fa_value *root) {
    if (fai_refuse_pending(op)) return false;
    return root != NULL || fai_fail(FA_ERR_VALUE, op, "root is NULL: a value is needed");
}

bool fa_save_pt(const char *path, const fa_value *root) {
    const char *op = "save";
    archive a = {.writer = {.op = op}};
    if (!given(op, root) || (path != NULL && path[0] != 0 && !name_folder(&a, path))) return false;
    return fai_writer_open(&a.writer, path, op) && write_all(&a, root);
}

bool fa_save_pt_to(const fa_writer *writer, const fa_value *root) {
    const char *op = "save";
    archive a = {.folder = "archive"};
    return given(op, root) && fai_writer_to(&a.writer, writer, op) && write_all(&a, root);
}
