/* What a compiler made, kept on disk: the second start of a program compiles nothing.
 *
 * One file an entry, named by its key, a hash of 128 bits over all that the result depends on. A file is written beside its name and
 * renamed, so that a reader finds a whole one or none, however many processes write at once; what is damaged all the same (its head
 * has the key, the length and a checksum) is removed and counts as not there. The folder has a size limit; what was used longest
 * ago goes first. Nothing here is an error: a cache that can't be read or written makes a program slower, no more.
 *
 *   FACULA_CACHE=/folder        where; "off" for none. Else $XDG_CACHE_HOME/facula or ~/.cache/facula
 *   FACULA_CACHE_SIZE=64MiB     how much at most; 256 MiB if not given */
#include "base.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC    "FACULAc1"
#define LIMIT    ((uint64_t)256 << 20)
#define LEFTOVER 3600 /* seconds after which another process's half-written file is nobody's */

typedef struct head {
    char magic[8];
    fai_cache_key key;
    uint64_t bytes, checksum;
} head;

/* ---- where, and how much ---- */

bool fai_cache_folder(char *out, size_t n) {
    const char *own = getenv("FACULA_CACHE"), *user = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (own && *own) length = strcmp(own, "off") == 0 ? -1 : snprintf(out, n, "%s", own);
    else if (user && user[0] == '/') length = snprintf(out, n, "%s/facula", user);
    else if (home && home[0] == '/') length = snprintf(out, n, "%s/.cache/facula", home);
    return length > 0 && (size_t)length < n;
}

bool fai_cache_is_named(void) {
    const char *own = getenv("FACULA_CACHE");
    return own && *own && strcmp(own, "off") != 0;
}

static uint64_t size_limit(void) {
    static const struct { char unit[4]; int shift; } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    const char *text = getenv("FACULA_CACHE_SIZE");
    char *end = NULL;
    if (!text || *text < '0' || *text > '9') return LIMIT;
    uint64_t number = strtoull(text, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].unit) == 0 && number <= UINT64_MAX >> units[i].shift) return number << units[i].shift;
    return LIMIT;
}

static bool make_folder(char *path) {
    for (char *at = path + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        (void)mkdir(path, 0700); /* there already, or the last one tells */
        *at = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool path_of(char *out, size_t n, fai_cache_key key) {
    char folder[PATH_MAX - 64];
    return fai_cache_folder(folder, sizeof folder) &&
           (size_t)snprintf(out, n, "%s/%016llx%016llx.kernels", folder, (unsigned long long)key.half[0],
                            (unsigned long long)key.half[1]) < n;
}

/* ---- keys ---- */

fai_cache_key fai_cache_key_add(fai_cache_key key, const void *data, size_t n) {
    key.half[0] = fai_hash(data, n, key.half[0] + 1);
    key.half[1] = fai_hash(data, n, ~key.half[1]);
    return key;
}

/* ---- reading ---- */

static bool read_whole(int fd, void *out, uint64_t n) {
    for (char *to = out; n > 0;) {
        ssize_t got = read(fd, to, n < 1u << 30 ? (size_t)n : 1u << 30);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        to += got;
        n -= (uint64_t)got;
    }
    return true;
}

static bool is_whole(const head *h, fai_cache_key key, const struct stat *info) {
    return memcmp(h->magic, MAGIC, sizeof h->magic) == 0 && memcmp(&h->key, &key, sizeof key) == 0 && h->bytes > 0 &&
           h->bytes == (uint64_t)info->st_size - sizeof *h;
}

bool fai_cache_read(fai_cache_key key, void **data, size_t *bytes) {
    char path[PATH_MAX];
    struct stat info;
    head h;
    *data = NULL;
    int fd = path_of(path, sizeof path, key) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0) return false;
    bool whole = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size > sizeof h &&
                 read_whole(fd, &h, sizeof h) && is_whole(&h, key, &info);
    void *found = whole ? fai_alloc(FAI_TAG_OTHER, (size_t)h.bytes) : NULL;
    bool good = found && read_whole(fd, found, h.bytes) && fai_hash(found, (size_t)h.bytes, 0) == h.checksum;
    if (good) (void)futimens(fd, NULL); /* used just now */
    close(fd);
    if (good) {
        *data = found;
        *bytes = (size_t)h.bytes;
        return true;
    }
    if (!whole || found) unlink(path); /* without memory it may be good */
    if (found) fai_free(FAI_TAG_OTHER, found, (size_t)h.bytes);
    return false;
}

void fai_cache_forget(fai_cache_key key) {
    char path[PATH_MAX];
    if (path_of(path, sizeof path, key)) unlink(path);
}

/* ---- writing ---- */

typedef struct entry {
    char name[48];
    uint64_t bytes;
    struct timespec used;
} entry;

static int by_use(const void *a, const void *b) {
    const struct timespec *x = &((const entry *)a)->used, *y = &((const entry *)b)->used;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Up to 4096 entries of the folder with their sum; halves of files that nobody writes any more are removed on the way. */
static size_t list_entries(DIR *folder, entry *list, size_t most, uint64_t *sum) {
    size_t n = 0;
    *sum = 0;
    for (struct dirent *found; (found = readdir(folder));) {
        struct stat info;
        const char *end = strrchr(found->d_name, '.');
        if (!end || fstatat(dirfd(folder), found->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
        if (strcmp(end, ".part") == 0 && time(NULL) - info.st_mtime > LEFTOVER) (void)unlinkat(dirfd(folder), found->d_name, 0);
        if (strcmp(end, ".kernels") != 0 || strlen(found->d_name) >= sizeof list->name) continue;
        *sum += (uint64_t)info.st_size;
        if (n == most) continue;
        strcpy(list[n].name, found->d_name);
        list[n].bytes = (uint64_t)info.st_size;
        list[n++].used = info.st_mtim;
    }
    return n;
}

static void keep_limit(const char *path) {
    enum { MOST = 4096 };
    uint64_t limit = size_limit(), sum = 0;
    DIR *folder = opendir(path);
    entry *list = folder ? fai_alloc(FAI_TAG_OTHER, MOST * sizeof *list) : NULL;
    if (list) {
        size_t n = list_entries(folder, list, MOST, &sum);
        qsort(list, n, sizeof *list, by_use);
        for (size_t i = 0; i < n && sum > limit; i++)
            if (unlinkat(dirfd(folder), list[i].name, 0) == 0) sum -= list[i].bytes;
        fai_free(FAI_TAG_OTHER, list, MOST * sizeof *list);
    }
    if (folder) closedir(folder);
}

static bool write_whole(int fd, const void *data, size_t n) {
    for (const char *from = data; n > 0;) {
        ssize_t done = write(fd, from, n < 1u << 30 ? n : 1u << 30);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        from += done;
        n -= (size_t)done;
    }
    return true;
}

/* A file that nobody has; a process of the same number, of another container or before, may have left some. */
static int open_part(char *path, size_t n, const char *folder) {
    enum { TRIES = 64 };
    static atomic_uint number;
    int fd = -1;
    for (int i = 0; i < TRIES && fd < 0; i++) {
        snprintf(path, n, "%s/%ld-%u.part", folder, (long)getpid(), atomic_fetch_add(&number, 1));
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST) break;
    }
    return fd;
}

/* Where the process may not write files of that size, the signal that would end it is taken away. */
static bool write_entry(int fd, const head *h, const void *data) {
    sigset_t size, old, waiting;
    int number;
    sigemptyset(&size);
    sigaddset(&size, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &size, &old);
    const bool good = write_whole(fd, h, sizeof *h) && write_whole(fd, data, h->bytes);
    if (!good && sigpending(&waiting) == 0 && sigismember(&waiting, SIGXFSZ) == 1) sigwait(&size, &number);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return good;
}

void fai_cache_write(fai_cache_key key, const void *data, size_t bytes) {
    char folder[PATH_MAX - 64], path[PATH_MAX], part[PATH_MAX];
    if (!bytes || bytes > size_limit() || !path_of(path, sizeof path, key)) return;
    fai_cache_folder(folder, sizeof folder); /* path_of had it */
    if (!make_folder(folder)) return;
    const int fd = open_part(part, sizeof part, folder);
    if (fd < 0) return;
    head h = {.magic = MAGIC, .key = key, .bytes = bytes, .checksum = fai_hash(data, bytes, 0)};
    bool good = write_entry(fd, &h, data);
    if (close(fd) != 0) good = false;
    if (!good || rename(part, path) != 0) unlink(part);
    else keep_limit(folder);
}
