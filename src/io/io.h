/* Floor 5, files: what the formats share. */
#ifndef FAI_IO_H
#define FAI_IO_H

#include "../tensor/tensor.h"
#include <fa_io.h>
#include <zlib.h>

/* ---- file.c: reading ---- */
typedef struct fai_file {
    int fd;
    uint64_t size;
    const char *path, *op;
    const char *lead;        /* how messages about contents begin; NULL: with the path */
    const fa_reader *reader; /* instead of fd */
} fai_file;
bool fai_file_open(fai_file *file, const char *path, const char *op);
bool fai_file_from(fai_file *file, const fa_reader *reader, const char *op); /* reader must live as long as file */
void fai_file_close(fai_file *file);
bool fai_file_read(const fai_file *file, uint64_t offset, void *out, uint64_t n); /* all n bytes, or an error */
/* The file is not what it should be: FA_ERR_FORMAT with its path, and the member of an archive (may be NULL). Returns NULL. */
void *fai_file_bad(const fai_file *file, const char *member, const char *format, ...) FA_PRINTF(3, 4);
/* It is, but holds what tensors can't: FA_ERR_UNSUPPORTED. */
void *fai_file_foreign(const fai_file *file, const char *member, const char *format, ...) FA_PRINTF(3, 4);

/* ---- file.c: writing. Into a temporary file beside the target, which takes its place when all of it is on the disk. ---- */
typedef struct fai_writer {
    int fd;
    const char *path, *op;
    char target[4096], temporary[4096 + 64]; /* target: path with links followed */
    uint64_t at;                             /* bytes written */
    const fa_writer *sink;                   /* instead of all that; no patches */
} fai_writer;
bool fai_writer_open(fai_writer *writer, const char *path, const char *op);
bool fai_writer_to(fai_writer *writer, const fa_writer *sink, const char *op);
bool fai_writer_put(fai_writer *writer, const void *data, uint64_t n);
bool fai_writer_patch(fai_writer *writer, uint64_t at, const void *data, uint64_t n); /* over what was written */
/* ok: everything was put. Else, or if the rest fails, the temporary file goes and the target stays. True: it is saved. */
bool fai_writer_close(fai_writer *writer, bool ok);

/* For tests: the n-th call of a kind from now fails with this errno (n 0: none). Short: every read and write moves few bytes. */
typedef enum fai_file_call {
    FAI_FILE_OPEN,
    FAI_FILE_READ,
    FAI_FILE_WRITE,
    FAI_FILE_SYNC,
    FAI_FILE_RENAME,
    FAI_FILE_CLOSE
} fai_file_call;
void fai_test_fail_file(fai_file_call call, int n, int number);
void fai_test_short_files(bool on);

/* ---- source.c: bytes in order, out of a file or a member of an archive ---- */
typedef struct fai_source {
    const fai_file *file;
    const char *member;       /* for messages; NULL for a whole file */
    uint64_t at, end;         /* what is not read yet of the file */
    uint64_t left;            /* bytes still to come, after inflating */
    bool deflated;
    uint32_t crc;             /* of what came out so far */
    z_stream inflate;
    uint8_t *packed;          /* a piece of the file */
} fai_source;
void fai_source_whole(fai_source *source, const fai_file *file);
/* bytes: what comes out of [begin, end) of the file. */
bool fai_source_member(fai_source *source, const fai_file *file, const char *member, uint64_t begin, uint64_t end, uint64_t bytes,
                       bool deflated);
bool fai_source_read(fai_source *source, void *out, uint64_t n);
bool fai_source_skip(fai_source *source); /* reads the rest */
void fai_source_close(fai_source *source);

/* ---- contents.c: elements ---- */
/* A new tensor filled by read(context, host, bytes): straight into its memory on the CPU, by one copy on a device. column_major:
 * the first dimension varies fastest. big_endian: the bytes of an element are to be swapped. */
fa_tensor *fai_read_tensor(const char *op, fa_dtype dtype, fa_device device, const fa_shape *shape, bool column_major,
                           bool big_endian, bool (*read)(void *context, void *out, uint64_t bytes), void *context);
/* The elements of t in C order on the host: t's own memory, or a copy that fai_return_bytes frees. */
bool fai_borrow_bytes(const char *op, fa_tensor *t, const void **bytes);
void fai_return_bytes(fa_tensor *t, const void *bytes);
/* How many bytes the elements take; false if that overflows or a size is negative. */
bool fai_count_bytes(fa_dtype dtype, const fa_shape *shape, uint64_t *bytes);
bool fai_load_device(const char *op, const fa_load_options *options, fa_device *device);

/* ---- npy.c ---- */
enum { FAI_NPY_HEADER = 512 };
bool fai_npy_header(const char *op, const fa_tensor *t, char header[FAI_NPY_HEADER], size_t *length);
fa_tensor *fai_npy_read(fai_source *source, fa_device device);

#endif
