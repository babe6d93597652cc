/* Zip archives: members with a local header each, then a directory of all of them, then an end record. Sizes of 4 GiB and more,
 * and more than 65,535 members, stand in the 64-bit extensions. Times are left at the format's first day, so that the same
 * tensors make the same file. */
#include "zip.h"
#include <stdlib.h>
#include <string.h>

enum { LOCAL = 0x04034b50, CENTRAL = 0x02014b50, END = 0x06054b50, END64 = 0x06064b50, LOCATOR64 = 0x07064b50 };
enum { PIECE = 64 * 1024, FIRST_DAY = 0x21 };
static const uint64_t most32 = UINT32_MAX;

void fai_put_little(fai_text *text, uint64_t value, int bytes) {
    char b[8];
    for (int i = 0; i < bytes; i++) b[i] = (char)(value >> 8 * i);
    fai_text_add_bytes(text, b, (size_t)bytes);
}

static uint64_t get(const uint8_t *p, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)p[i] << 8 * i;
    return value;
}

/* ---- Writing ---- */

bool fai_zip_open(fai_zip *zip, const char *path, const char *op) {
    memset(&zip->directory, 0, sizeof zip->directory);
    zip->members = 0;
    return fai_writer_open(&zip->writer, path, op);
}

/* What local header and directory have in common. Big sizes stand in the extra field, whose length is extra. */
static void put_sizes(fai_text *text, const char *name, uint32_t crc, uint64_t packed, uint64_t bytes, bool compressed, bool big,
                      int extra) {
    int utf8 = 0;
    for (const char *c = name; *c != 0; c++) utf8 |= (*c & 0x80) != 0;
    fai_put_little(text, extra > 0 ? 45 : 20, 2);   /* version needed */
    fai_put_little(text, utf8 ? 1u << 11 : 0, 2);
    fai_put_little(text, compressed ? 8 : 0, 2);
    fai_put_little(text, 0, 2);
    fai_put_little(text, FIRST_DAY, 2);
    fai_put_little(text, crc, 4);
    fai_put_little(text, big ? most32 : packed, 4);
    fai_put_little(text, big ? most32 : bytes, 4);
    fai_put_little(text, strlen(name), 2);
    fai_put_little(text, (uint64_t)extra, 2);
}

static void put_local(fai_text *text, const char *name, uint32_t crc, uint64_t packed, uint64_t bytes, bool compressed,
                      bool big) {
    fai_put_little(text, LOCAL, 4);
    put_sizes(text, name, crc, packed, bytes, compressed, big, big ? 20 : 0);
    fai_text_add_bytes(text, name, strlen(name));
    if (!big) return;
    fai_put_little(text, 1, 2);
    fai_put_little(text, 16, 2);
    fai_put_little(text, bytes, 8);
    fai_put_little(text, packed, 8);
}

static void put_central(fai_text *text, const char *name, uint32_t crc, uint64_t packed, uint64_t bytes, bool compressed,
                        bool big, uint64_t offset) {
    bool far = offset >= most32;
    int fields = (big ? 16 : 0) + (far ? 8 : 0);
    fai_put_little(text, CENTRAL, 4);
    fai_put_little(text, 3 << 8 | 45, 2);           /* made by: Unix */
    put_sizes(text, name, crc, packed, bytes, compressed, big, fields > 0 ? 4 + fields : 0);
    fai_put_little(text, 0, 2 + 2 + 2);             /* no comment, disk 0, binary */
    fai_put_little(text, 0600u << 16, 4);
    fai_put_little(text, far ? most32 : offset, 4);
    fai_text_add_bytes(text, name, strlen(name));
    if (fields == 0) return;
    fai_put_little(text, 1, 2);
    fai_put_little(text, (uint64_t)fields, 2);
    if (big) fai_put_little(text, bytes, 8), fai_put_little(text, packed, 8);
    if (far) fai_put_little(text, offset, 8);
}

static bool deflate_piece(fai_writer *writer, z_stream *z, const void *data, uint64_t n, int finish) {
    uint8_t out[16 * 1024];
    z->next_in = (Bytef *)(uintptr_t)data;
    for (int state = Z_OK; n > 0 || z->avail_in > 0 || (finish && state != Z_STREAM_END);) {
        if (z->avail_in == 0) {
            z->avail_in = n > 1u << 30 ? 1u << 30 : (uInt)n;
            n -= z->avail_in;
        }
        z->next_out = out;
        z->avail_out = sizeof out;
        state = deflate(z, finish && n == 0 ? Z_FINISH : Z_NO_FLUSH);
        if (!fai_writer_put(writer, out, sizeof out - z->avail_out)) return false;
    }
    return true;
}

static bool put_body(fai_writer *writer, const void *head, uint64_t head_bytes, const void *body, uint64_t body_bytes,
                     bool compressed) {
    if (!compressed) return fai_writer_put(writer, head, head_bytes) && fai_writer_put(writer, body, body_bytes);
    z_stream z = {.zalloc = fai_zlib_alloc, .zfree = fai_zlib_free};
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return fai_fail_memory(writer->op, PIECE);
    bool ok = deflate_piece(writer, &z, head, head_bytes, 0) && deflate_piece(writer, &z, body, body_bytes, 1);
    deflateEnd(&z);
    return ok;
}

bool fai_zip_add(fai_zip *zip, const char *name, const void *head, uint64_t head_bytes, const void *body, uint64_t body_bytes,
                 bool compressed) {
    uint64_t bytes = head_bytes + body_bytes, offset = zip->writer.at;
    bool big = bytes + bytes / 1000 + 4096 >= most32; /* packed, it could be a little larger */
    uint32_t crc = fai_crc32(fai_crc32(0, head, (size_t)head_bytes), body, (size_t)body_bytes);
    if (strlen(name) > UINT16_MAX)
        return fai_fail(FA_ERR_VALUE, zip->writer.op, "the name \"%.60s...\" has %zu characters; zip allows 65,535", name,
                        strlen(name));
    fai_text header = {0};
    put_local(&header, name, crc, bytes, bytes, compressed, big);
    bool ok = !header.failed || fai_fail_memory(zip->writer.op, header.room);
    ok = ok && fai_writer_put(&zip->writer, header.data, header.length);
    uint64_t start = zip->writer.at;
    ok = ok && put_body(&zip->writer, head, head_bytes, body, body_bytes, compressed);
    uint64_t packed = zip->writer.at - start;
    if (ok && compressed) { /* its size is known only now */
        header.length = 0;
        put_local(&header, name, crc, packed, bytes, compressed, big);
        ok = fai_writer_patch(&zip->writer, offset, header.data, header.length);
    }
    fai_text_free(&header);
    put_central(&zip->directory, name, crc, packed, bytes, compressed, big, offset);
    zip->members++;
    return ok;
}

bool fai_zip_close(fai_zip *zip, bool ok) {
    fai_text *text = &zip->directory;
    uint64_t begin = zip->writer.at, length = text->length;
    bool big = begin >= most32 || length >= most32 || zip->members >= UINT16_MAX;
    if (big) {
        fai_put_little(text, END64, 4);
        fai_put_little(text, 44, 8);
        fai_put_little(text, 3 << 8 | 45, 2);
        fai_put_little(text, 45, 2);
        fai_put_little(text, 0, 8);                 /* this disk, the directory's disk */
        fai_put_little(text, zip->members, 8);
        fai_put_little(text, zip->members, 8);
        fai_put_little(text, length, 8);
        fai_put_little(text, begin, 8);
        fai_put_little(text, LOCATOR64, 4);
        fai_put_little(text, 0, 4);
        fai_put_little(text, begin + length, 8);
        fai_put_little(text, 1, 4);
    }
    fai_put_little(text, END, 4);
    fai_put_little(text, 0, 4);
    fai_put_little(text, big ? UINT16_MAX : zip->members, 2);
    fai_put_little(text, big ? UINT16_MAX : zip->members, 2);
    fai_put_little(text, big ? most32 : length, 4);
    fai_put_little(text, big ? most32 : begin, 4);
    fai_put_little(text, 0, 2);
    if (ok && text->failed) ok = fai_fail_memory(zip->writer.op, text->room);
    ok = ok && fai_writer_put(&zip->writer, text->data, text->length);
    fai_text_free(text);
    return fai_writer_close(&zip->writer, ok);
}

/* ---- Reading ---- */

typedef struct directory { uint64_t begin, bytes, members; } directory;

/* Finds the end record, which is followed by a comment of at most 65,535 bytes and then nothing. */
static bool find_directory(const fai_file *file, directory *d) {
    uint64_t room = file->size < 22 + UINT16_MAX ? file->size : 22 + UINT16_MAX, tail = file->size - room, at = room;
    uint8_t *end = fai_alloc(FAI_TAG_FILE, (size_t)room + 1), extra[56];
    if (end == NULL) return fai_fail_memory(file->op, (size_t)room + 1);
    bool ok = fai_file_read(file, tail, end, room), found = false;
    for (at = room; ok && !found && at >= 22; at--) found = get(end + at - 22, 4) == END && get(end + at - 2, 2) == room - at;
    if (found) {
        const uint8_t *e = end + at + 1 - 22;
        at = tail + at + 1 - 22;
        *d = (directory){get(e + 16, 4), get(e + 12, 4), get(e + 10, 2)};
    }
    fai_free(FAI_TAG_FILE, end, (size_t)room + 1);
    if (!ok) return false;
    if (!found)
        return fai_file_bad(file, NULL,
                            "failed finding central directory; this is no zip archive, or it is truncated: it has no end record");
    if (at >= 20 && (d->begin == most32 || d->bytes == most32 || d->members == UINT16_MAX)) {
        if (!fai_file_read(file, at - 20, extra, 20)) return false;
        if (get(extra, 4) == LOCATOR64) {
            if (!fai_file_read(file, get(extra + 8, 8), extra, 56)) return false;
            if (get(extra, 4) != END64) return fai_file_bad(file, NULL, "the archive's 64-bit end record is damaged");
            *d = (directory){get(extra + 48, 8), get(extra + 40, 8), get(extra + 32, 8)};
        }
    }
    if (d->begin <= at && d->bytes <= at - d->begin && d->members <= d->bytes / 46) return true;
    return fai_file_bad(file, NULL,
                        "the archive's directory of %llu members is said to lie at byte %llu with %llu bytes; the file has %llu",
                        (unsigned long long)d->members, (unsigned long long)d->begin, (unsigned long long)d->bytes,
                        (unsigned long long)file->size);
}

/* 64-bit values from a member's extra field, in the order of the fields that could not hold them. */
static bool take_extra(const uint8_t *extra, uint64_t n, uint64_t *const wanted[3]) {
    for (uint64_t at = 0; at + 4 <= n;) {
        uint64_t length = get(extra + at + 2, 2), end = at + 4 + length;
        if (end > n) return false;
        if (get(extra + at, 2) == 1) {
            at += 4;
            for (int k = 0; k < 3; k++) {
                if (*wanted[k] != most32) continue;
                if (at + 8 > end) return false;
                *wanted[k] = get(extra + at, 8);
                at += 8;
            }
            return true;
        }
        at = end;
    }
    return true;
}

/* Where the bytes begin stands only in the local header. */
static bool find_bytes(const fai_file *file, const directory *d, fai_member *m, uint64_t offset, uint64_t packed) {
    uint8_t local[30];
    if (offset > d->begin || d->begin - offset < sizeof local || !fai_file_read(file, offset, local, sizeof local))
        return fa_failed() ? false
                           : fai_file_bad(file, m->name, "its header is said to lie at byte %llu, behind the end",
                                          (unsigned long long)offset);
    uint64_t before = sizeof local + get(local + 26, 2) + get(local + 28, 2);
    if (get(local, 4) != LOCAL)
        return fai_file_bad(file, m->name, "there is no header at byte %llu; the archive is damaged", (unsigned long long)offset);
    if (before > d->begin - offset || packed > d->begin - offset - before)
        return fai_file_bad(file, m->name, "it is said to have %llu bytes at %llu, which is more than the archive has",
                            (unsigned long long)packed, (unsigned long long)offset);
    m->begin = offset + before;
    m->end = m->begin + packed;
    return true;
}

/* One line of the directory. p has n bytes left; *used: how many it took. name has room for 65,536. */
static bool take_member(const fai_file *file, const directory *d, const uint8_t *p, uint64_t n, fai_member *m, uint64_t *used) {
    if (n < 46 || get(p, 4) != CENTRAL) return fai_file_bad(file, NULL, "the archive's directory is damaged");
    uint64_t flags = get(p + 8, 2), method = get(p + 10, 2), packed = get(p + 20, 4), offset = get(p + 42, 4);
    uint64_t name = get(p + 28, 2), extra = get(p + 30, 2);
    *used = 46 + name + extra + get(p + 32, 2);
    if (*used > n) return fai_file_bad(file, NULL, "the archive's directory is damaged");
    memcpy(m->name, p + 46, (size_t)name);
    m->name[name] = 0;
    m->bytes = get(p + 24, 4);
    m->crc = (uint32_t)get(p + 16, 4);
    m->deflated = method == 8;
    if (strlen(m->name) != name) return fai_file_bad(file, m->name, "its name holds a zero character");
    if (!take_extra(p + 46 + name, extra, (uint64_t *const[]){&m->bytes, &packed, &offset}))
        return fai_file_bad(file, m->name, "its 64-bit sizes are damaged");
    if (flags & 1) return fai_file_foreign(file, m->name, "it is encrypted");
    if (method != 0 && method != 8)
        return fai_file_foreign(file, m->name, "it is packed by method %llu; 0 (stored) and 8 (deflate) are known",
                                (unsigned long long)method);
    if (method == 0 && packed != m->bytes)
        return fai_file_bad(file, m->name, "it is stored, but has two sizes, %llu and %llu", (unsigned long long)packed,
                            (unsigned long long)m->bytes);
    if (method == 8 && m->bytes / 1040 > packed)
        return fai_file_bad(file, m->name, "%llu bytes can't be made from %llu", (unsigned long long)m->bytes,
                            (unsigned long long)packed);
    return find_bytes(file, d, m, offset, packed);
}

typedef struct extent { uint64_t begin, end; } extent;

static int by_begin(const void *a, const void *b) {
    const extent *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* First round: every member is sound and no two share bytes. */
static bool check_members(const fai_file *file, const directory *d, const uint8_t *text, fai_member *m) {
    size_t room = ((size_t)d->members + 1) * sizeof(extent);
    extent *extents = fai_alloc(FAI_TAG_FILE, room);
    bool ok = extents != NULL || fai_fail_memory(file->op, room);
    uint64_t at = 0, used = 0;
    for (uint64_t i = 0; ok && i < d->members; i++, at += used) {
        ok = take_member(file, d, text + at, d->bytes - at, m, &used);
        if (ok) extents[i] = (extent){m->begin, m->end};
    }
    if (ok) qsort(extents, (size_t)d->members, sizeof *extents, by_begin);
    for (uint64_t i = 1; ok && i < d->members; i++) {
        if (extents[i].begin < extents[i - 1].end)
            ok = fai_file_bad(file, NULL, "two members of the archive share the bytes at %llu; it is damaged",
                              (unsigned long long)extents[i].begin);
    }
    fai_free(FAI_TAG_FILE, extents, room);
    return ok;
}

bool fai_zip_read(const fai_file *file, bool (*visit)(void *context, const fai_file *file, const fai_member *member),
                  void *context) {
    directory d;
    if (!find_directory(file, &d)) return false;
    size_t name_room = UINT16_MAX + 1, room = (size_t)d.bytes + 1;
    fai_member m = {.name = fai_alloc(FAI_TAG_FILE, name_room)};
    uint8_t *text = m.name == NULL ? NULL : fai_alloc(FAI_TAG_FILE, room);
    bool ok = text != NULL || fai_fail_memory(file->op, room + name_room);
    ok = ok && fai_file_read(file, d.begin, text, d.bytes) && check_members(file, &d, text, &m);
    uint64_t at = 0, used = 0;
    for (uint64_t i = 0; ok && i < d.members; i++, at += used) {
        ok = take_member(file, &d, text + at, d.bytes - at, &m, &used) && visit(context, file, &m);
    }
    fai_free(FAI_TAG_FILE, text, room);
    fai_free(FAI_TAG_FILE, m.name, name_room);
    return ok;
}
