/* Files as the operating system gives them: whole reads, and writing that never leaves half a file.
 *
 * Writing goes to a temporary file in the target's folder, then: fsync (its bytes are on the disk), rename (it takes the old
 * one's place in one step), fsync of the folder (the new name is on the disk). At every moment a crash leaves the old file or the
 * new one. Calls that were interrupted or did a part are continued. */
#include "io.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Faults for tests ---- */

static __thread struct { fai_file_call call; int n, number; bool is_short; } fault;

void fai_test_fail_file(fai_file_call call, int n, int number) {
    fault.call = call;
    fault.n = n;
    fault.number = number;
}

void fai_test_short_files(bool on) { fault.is_short = on; }

static bool faulty(fai_file_call call) {
    if (fault.n == 0 || fault.call != call || --fault.n > 0) return false;
    errno = fault.number;
    return true;
}

static size_t portion(uint64_t n) {
    if (fault.is_short && n > 7) return 7;
    return n > 1u << 30 ? 1u << 30 : (size_t)n;
}

/* ---- Errors ---- */

static const char *reason(char out[128], int number) { return strerror_r(number, out, 128) == 0 ? out : "unknown error"; }

static bool file_error(const char *op, const char *path, const char *what) {
    char text[128];
    int number = errno;
    return fai_fail(FA_ERR_FILE, op, "%s: could not %s: %s", path, what, reason(text, number));
}

static void *content_error(fa_code code, const fai_file *file, const char *member, const char *format, va_list arguments) {
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    if (file->lead != NULL)
        return member == NULL ? fai_fail(code, file->op, "%s: %s (%s)", file->lead, text, file->path)
                              : fai_fail(code, file->op, "%s: \"%.200s\": %s (%s)", file->lead, member, text, file->path);
    return member == NULL ? fai_fail(code, file->op, "%s: %s", file->path, text)
                          : fai_fail(code, file->op, "%s: \"%.200s\": %s", file->path, member, text);
}

void *fai_file_bad(const fai_file *file, const char *member, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    content_error(FA_ERR_FORMAT, file, member, format, arguments);
    va_end(arguments);
    return NULL;
}

void *fai_file_foreign(const fai_file *file, const char *member, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    content_error(FA_ERR_UNSUPPORTED, file, member, format, arguments);
    va_end(arguments);
    return NULL;
}

/* ---- Reading ---- */

static int open_again(const char *path, int flags, mode_t mode) {
    if (faulty(FAI_FILE_OPEN)) return -1;
    int fd;
    do fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

bool fai_file_open(fai_file *file, const char *path, const char *op) {
    struct stat info;
    *file = (fai_file){.fd = -1, .path = path, .op = op};
    if (path == NULL) return fai_fail(FA_ERR_VALUE, op, "path is NULL; give the name of a file");
    file->fd = open_again(path, O_RDONLY, 0);
    if (file->fd < 0) return file_error(op, path, "open it");
    if (fstat(file->fd, &info) != 0) {
        file_error(op, path, "ask for its size");
    } else if (!S_ISREG(info.st_mode)) {
        fai_fail(FA_ERR_FILE, op, "%s: is %s; only regular files can be loaded", path,
                 S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
    } else {
        file->size = (uint64_t)info.st_size;
        return true;
    }
    fai_file_close(file);
    return false;
}

bool fai_file_from(fai_file *file, const fa_reader *reader, const char *op) {
    *file = (fai_file){.fd = -1, .path = "the reader", .op = op, .reader = reader};
    if (reader == NULL || reader->read == NULL)
        return fai_fail(FA_ERR_VALUE, op, "reader is NULL or has no read function; fa_reader_of_memory makes one of memory");
    file->size = reader->size;
    return true;
}

static bool read_memory(void *context, uint64_t offset, void *out, size_t n) {
    memcpy(out, (const char *)context + offset, n); /* never beyond the size */
    return true;
}

fa_reader fa_reader_of_memory(const void *data, size_t n) { return (fa_reader){(void *)(uintptr_t)data, n, read_memory}; }

static bool read_by_reader(const fai_file *file, uint64_t offset, void *out, size_t n) {
    if (file->reader->read(file->reader->context, offset, out, n)) return true;
    if (fa_failed()) return false;
    return fai_fail(FA_ERR_FOREIGN, file->op, "the reader could not read %zu bytes at %llu", n, (unsigned long long)offset);
}

void fai_file_close(fai_file *file) {
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
}

bool fai_file_read(const fai_file *file, uint64_t offset, void *out, uint64_t n) {
    char *to = out;
    if (offset > file->size || n > file->size - offset)
        return fai_file_bad(file, NULL, "the file ends too early: %llu bytes are needed, it has %llu; it is truncated",
                            (unsigned long long)(offset + n < n ? UINT64_MAX : offset + n), (unsigned long long)file->size);
    if (file->reader != NULL) return n == 0 || read_by_reader(file, offset, out, (size_t)n);
    while (n > 0) {
        ssize_t got = faulty(FAI_FILE_READ) ? -1 : pread(file->fd, to, portion(n), (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return file_error(file->op, file->path, "read it");
        if (got == 0) return fai_file_bad(file, NULL, "the file became shorter while it was read");
        to += got;
        offset += (uint64_t)got;
        n -= (uint64_t)got;
    }
    return true;
}

/* ---- Writing ---- */

/* Follows links, so that a link stays one, and refuses what a file must not replace. */
static bool find_target(fai_writer *writer) {
    char followed[PATH_MAX];
    struct stat info;
    const char *target = realpath(writer->path, followed) != NULL ? followed : writer->path;
    if (stat(target, &info) == 0 && !S_ISREG(info.st_mode))
        return fai_fail(FA_ERR_FILE, writer->op, "%s: is %s; it would have to be a regular file", writer->path,
                        S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
    if ((size_t)snprintf(writer->target, sizeof writer->target, "%s", target) < sizeof writer->target) return true;
    return fai_fail(FA_ERR_FILE, writer->op, "path has %zu characters; at most %zu are possible", strlen(target),
                    sizeof writer->target - 1);
}

bool fai_writer_open(fai_writer *writer, const char *path, const char *op) {
    static atomic_uint number;
    *writer = (fai_writer){.fd = -1, .path = path, .op = op};
    if (path == NULL || path[0] == 0)
        return fai_fail(FA_ERR_VALUE, op, "path is %s; give the name of a file", path == NULL ? "NULL" : "empty");
    if (!find_target(writer)) return false;
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(writer->temporary, sizeof writer->temporary, "%s.%ld-%u.tmp", writer->target, (long)getpid(),
                 atomic_fetch_add(&number, 1));
        writer->fd = open_again(writer->temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (writer->fd >= 0 || errno != EEXIST) break;
    }
    return writer->fd >= 0 || file_error(op, path, "make a file in its folder");
}

static bool write_at(fai_writer *writer, uint64_t at, const void *data, uint64_t n) {
    const char *from = data;
    while (n > 0) {
        ssize_t done = faulty(FAI_FILE_WRITE) ? -1 : pwrite(writer->fd, from, portion(n), (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return file_error(writer->op, writer->path, "write it");
        from += done;
        at += (uint64_t)done;
        n -= (uint64_t)done;
    }
    return true;
}

bool fai_writer_to(fai_writer *writer, const fa_writer *sink, const char *op) {
    *writer = (fai_writer){.fd = -1, .path = "the writer", .op = op, .sink = sink};
    if (sink != NULL && sink->write != NULL) return true;
    return fai_fail(FA_ERR_VALUE, op, "writer is NULL or has no write function");
}

static bool write_to_sink(fai_writer *writer, const void *data, uint64_t n) {
    writer->at += n;
    if (n == 0 || writer->sink->write(writer->sink->context, data, (size_t)n)) return true;
    if (fa_failed()) return false;
    return fai_fail(FA_ERR_FOREIGN, writer->op, "the writer did not take %llu bytes", (unsigned long long)n);
}

bool fai_writer_put(fai_writer *writer, const void *data, uint64_t n) {
    if (writer->sink != NULL) return write_to_sink(writer, data, n);
    if (!write_at(writer, writer->at, data, n)) return false;
    writer->at += n;
    return true;
}

bool fai_writer_patch(fai_writer *writer, uint64_t at, const void *data, uint64_t n) { return write_at(writer, at, data, n); }

static bool sync_to_disk(int fd) {
    if (faulty(FAI_FILE_SYNC)) return false;
    int failed;
    do failed = fsync(fd);
    while (failed != 0 && errno == EINTR);
    return failed == 0 || errno == EINVAL || errno == EROFS; /* a kind of file that can't be synchronised */
}

static bool sync_folder(const fai_writer *writer) {
    char folder[sizeof writer->target];
    snprintf(folder, sizeof folder, "%s", writer->target);
    char *slash = strrchr(folder, '/');
    if (slash == NULL) strcpy(folder, ".");
    else slash[slash == folder] = 0;
    int fd = open_again(folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return false;
    bool ok = sync_to_disk(fd);
    int number = errno;
    close(fd);
    errno = number;
    return ok;
}

bool fai_writer_close(fai_writer *writer, bool ok) {
    if (writer->sink != NULL) return ok;
    if (writer->fd < 0) return false;
    struct stat old;
    if (ok && stat(writer->target, &old) == 0) (void)fchmod(writer->fd, old.st_mode & 0777); /* who may read it stays as it was */
    if (ok && !sync_to_disk(writer->fd)) ok = file_error(writer->op, writer->path, "bring it to the disk");
    bool closed = !faulty(FAI_FILE_CLOSE);
    if (close(writer->fd) != 0) closed = false;
    writer->fd = -1;
    if (ok && !closed) ok = file_error(writer->op, writer->path, "close it");
    if (ok && (faulty(FAI_FILE_RENAME) || rename(writer->temporary, writer->target) != 0))
        ok = file_error(writer->op, writer->path, "put it in its place");
    if (!ok) {
        unlink(writer->temporary);
        return false;
    }
    return sync_folder(writer) ||
           file_error(writer->op, writer->path,
                      "bring its folder to the disk; the new file is in place, but a crash could still undo that");
}
