/* Bytes in the order in which they are needed, from a file or from a member of an archive, there perhaps deflated. How many
 * come is said before the first is read; fewer are an error. */
#include "io.h"
#include <string.h>

enum { PIECE = 64 * 1024 };

void fai_source_whole(fai_source *source, const fai_file *file) {
    memset(source, 0, sizeof *source);
    source->file = file;
    source->end = source->left = file->size;
}

bool fai_source_member(fai_source *source, const fai_file *file, const char *member, uint64_t begin, uint64_t end, uint64_t bytes,
                       bool deflated) {
    memset(source, 0, sizeof *source);
    source->file = file;
    source->member = member;
    source->at = begin;
    source->end = end;
    source->left = bytes;
    if (!deflated) return true;
    source->inflate.zalloc = fai_zlib_alloc;
    source->inflate.zfree = fai_zlib_free;
    source->packed = fai_alloc(FAI_TAG_FILE, PIECE);
    if (source->packed == NULL) return fai_fail_memory(file->op, PIECE);
    source->deflated = inflateInit2(&source->inflate, -15) == Z_OK; /* raw, without zlib's frame */
    if (source->deflated) return true;
    fai_source_close(source);
    return fai_fail_memory(file->op, sizeof(z_stream));
}

void fai_source_close(fai_source *source) {
    if (source->deflated) inflateEnd(&source->inflate);
    fai_free(FAI_TAG_FILE, source->packed, PIECE);
    source->deflated = false;
    source->packed = NULL;
}

static bool refill(fai_source *source) {
    uint64_t some = source->end - source->at < PIECE ? source->end - source->at : PIECE;
    if (some == 0) return fai_file_bad(source->file, source->member, "the compressed data end too early; the file is damaged");
    if (!fai_file_read(source->file, source->at, source->packed, some)) return false;
    source->at += some;
    source->inflate.next_in = source->packed;
    source->inflate.avail_in = (uInt)some;
    return true;
}

static bool inflate_some(fai_source *source, void *out, uint64_t n) {
    source->inflate.next_out = out;
    while (n > 0) {
        if (source->inflate.avail_in == 0 && !refill(source)) return false;
        uInt room = n > 1u << 30 ? 1u << 30 : (uInt)n;
        source->inflate.avail_out = room;
        int state = inflate(&source->inflate, Z_NO_FLUSH);
        n -= room - source->inflate.avail_out;
        if (state == Z_MEM_ERROR) return fai_fail_memory(source->file->op, PIECE);
        if (state == Z_STREAM_END && n == 0) break;
        if (state != Z_OK && state != Z_BUF_ERROR)
            return fai_file_bad(source->file, source->member, "the compressed data are damaged (%s)",
                                state == Z_STREAM_END ? "they end too early"
                                : source->inflate.msg ? source->inflate.msg
                                                      : "unknown reason");
    }
    return true;
}

bool fai_source_read(fai_source *source, void *out, uint64_t n) {
    if (n > source->left)
        return fai_file_bad(source->file, source->member,
                            "the data end too early: %llu more bytes are needed, %llu are there; it is truncated",
                            (unsigned long long)n, (unsigned long long)source->left);
    if (source->deflated ? !inflate_some(source, out, n) : !fai_file_read(source->file, source->at, out, n)) return false;
    if (!source->deflated) source->at += n;
    source->left -= n;
    if (source->member != NULL) source->crc = fai_crc32(source->crc, out, (size_t)n);
    return true;
}

bool fai_source_skip(fai_source *source) {
    uint8_t piece[4096];
    while (source->left > 0) {
        if (!fai_source_read(source, piece, source->left < sizeof piece ? source->left : sizeof piece)) return false;
    }
    return true;
}
