/* LAPACK by dlopen: OpenBLAS, MKL or the reference library, whichever the machine has; FACULA_LAPACK names another file. Facula
 * is built without it, and says how to get it when a matrix is to be factored. */
#include "lapack.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum routine { GESV, GETRF, POTRF, GEQRF, ORGQR, SYEVD, GESDD, ROUTINES };
static const char *const routine_names[ROUTINES] = {"gesv", "getrf", "potrf", "geqrf", "orgqr", "syevd", "gesdd"};
static const char *const files[] = {"libopenblas.so.0", "liblapack.so.3", "libmkl_rt.so.2", "libopenblas.so", "liblapack.so"};
#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

typedef void routine_fn(void); /* called through the types below: addresses of everything, lengths of texts behind */
typedef const int *in;
typedef void gesv_fn(in n, in columns, void *a, in lda, int *pivots, void *b, in ldb, int *info);
typedef void getrf_fn(in m, in n, void *a, in lda, int *pivots, int *info);
typedef void potrf_fn(const char *part, in n, void *a, in lda, int *info, size_t);
typedef void geqrf_fn(in m, in n, void *a, in lda, void *tau, void *work, in nwork, int *info);
typedef void orgqr_fn(in m, in n, in k, void *a, in lda, const void *tau, void *work, in nwork, int *info);
typedef void syevd_fn(const char *job, const char *part, in n, void *a, in lda, void *w, void *work, in nwork, int *iwork, in niwork, int *info,
                      size_t, size_t);
typedef void gesdd_fn(const char *job, in m, in n, void *a, in lda, void *s, void *u, in ldu, void *vt, in ldvt, void *work, in nwork,
                      int *iwork, int *info, size_t);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static routine_fn *found[2][ROUTINES];
static char reason[200];

static bool take_all(void *library)
{
    for (int k = 0; k < ROUTINES; k++)
        for (int wide = 0; wide < 2; wide++) {
            char name[16];
            snprintf(name, sizeof name, "%c%s_", "sd"[wide], routine_names[k]);
            void *address = dlsym(library, name);
            if (!address) return snprintf(reason, sizeof reason, "it has no %s", name), false;
            memcpy(&found[wide][k], &address, sizeof address);
        }
    return true;
}

static void load(void)
{
    const char *own = getenv("FACULA_LAPACK");
    bool fine = false;
    for (int i = 0; !fine && i < (own ? 1 : COUNT(files)); i++) {
        void *library = dlopen(own ? own : files[i], RTLD_NOW | RTLD_LOCAL);
        if (!library) snprintf(reason, sizeof reason, "%s", dlerror());
        else fine = take_all(library);
    }
    if (fine) reason[0] = '\0';
}

static routine_fn *get(const char *op, fa_dtype dtype, enum routine routine)
{
    pthread_once(&once, load);
    if (!reason[0]) return found[dtype == FA_FLOAT64][routine];
    fai_fail(FA_ERR_UNSUPPORTED, op,
             "this needs LAPACK, which could not be loaded: %s. Install OpenBLAS (Debian, Ubuntu: apt install libopenblas0; Fedora: dnf install "
             "openblas), or name the file of a LAPACK library in FACULA_LAPACK.",
             reason);
    return NULL;
}
#define GET(type, routine) type##_fn *const type = (type##_fn *)get(op, dtype, routine)

/* Room for a routine that says how much it wants: query is the first number of its answer. */
typedef struct room { void *work; int n; size_t bytes; } room;
static bool make_room(const char *op, fa_dtype dtype, const double *query, size_t more, room *r)
{
    double wanted = *query;
    if (dtype == FA_FLOAT32) {
        float narrow;
        memcpy(&narrow, query, sizeof narrow);
        wanted = narrow;
    }
    r->n = wanted < 1 ? 1 : (int)wanted;
    r->bytes = (size_t)r->n * fa_dtype_size(dtype) + more;
    r->work = fai_alloc(FAI_TAG_OTHER, r->bytes);
    if (!r->work) fai_fail_memory(op, r->bytes);
    return r->work != NULL;
}
static void drop_room(room *r) { fai_free(FAI_TAG_OTHER, r->work, r->bytes); }
static int at_least_1(int n) { return n > 1 ? n : 1; }

bool fai_lapack_lu(const char *op, fa_dtype dtype, int n, void *a, int *pivots, int *info)
{
    GET(getrf, GETRF);
    if (getrf) getrf(&n, &n, a, &(int){at_least_1(n)}, pivots, info);
    return getrf != NULL;
}

bool fai_lapack_solve(const char *op, fa_dtype dtype, int n, int columns, void *a, void *b, int *info)
{
    GET(gesv, GESV);
    const size_t bytes = (size_t)at_least_1(n) * sizeof(int);
    int *pivots = gesv ? fai_alloc(FAI_TAG_OTHER, bytes) : NULL;
    if (!pivots) return gesv && fai_fail_memory(op, bytes);
    gesv(&n, &columns, a, &(int){at_least_1(n)}, pivots, b, &(int){at_least_1(n)}, info);
    fai_free(FAI_TAG_OTHER, pivots, bytes);
    return true;
}

bool fai_lapack_cholesky(const char *op, fa_dtype dtype, int n, void *a, int *info)
{
    GET(potrf, POTRF);
    if (potrf) potrf("L", &n, a, &(int){at_least_1(n)}, info, 1);
    return potrf != NULL;
}

/* a [m, columns of room] becomes Q, r the upper triangle [min(m, columns), n]. columns: of Q. */
bool fai_lapack_qr(const char *op, fa_dtype dtype, int m, int n, void *a, void *r, int columns)
{
    GET(geqrf, GEQRF);
    GET(orgqr, ORGQR);
    if (!geqrf || !orgqr) return false;
    const int k = m < n ? m : n, lda = at_least_1(m);
    const size_t size = fa_dtype_size(dtype), tau_bytes = (size_t)at_least_1(k) * size;
    double query[2] = {0};
    int info = 0;
    room first, second;
    geqrf(&m, &n, a, &lda, query, query, &(int){-1}, &info);
    if (!make_room(op, dtype, query, tau_bytes, &first)) return false;
    void *tau = (char *)first.work + (size_t)first.n * size;
    geqrf(&m, &n, a, &lda, tau, first.work, &first.n, &info);
    memset(r, 0, (size_t)columns * (size_t)n * size);
    for (int j = 0; j < n; j++) {
        const int rows = j + 1 < columns ? j + 1 : columns;
        memcpy((char *)r + (size_t)j * (size_t)columns * size, (char *)a + (size_t)j * (size_t)m * size, (size_t)(rows < m ? rows : m) * size);
    }
    orgqr(&m, &columns, &k, a, &lda, tau, query, &(int){-1}, &info);
    const bool fine = make_room(op, dtype, query, 0, &second);
    if (fine) {
        orgqr(&m, &columns, &k, a, &lda, tau, second.work, &second.n, &info);
        drop_room(&second);
    }
    drop_room(&first);
    return fine;
}

bool fai_lapack_eigh(const char *op, fa_dtype dtype, int n, void *a, void *values, bool lower, int *info)
{
    GET(syevd, SYEVD);
    if (!syevd) return false;
    const int lda = at_least_1(n), none = -1;
    double query[2] = {0};
    int wanted = 0;
    room r;
    syevd("V", lower ? "L" : "U", &n, a, &lda, values, query, &none, &wanted, &none, info, 1, 1);
    if (!make_room(op, dtype, query, (size_t)at_least_1(wanted) * sizeof(int) + sizeof(double), &r)) return false;
    int *const iwork = (int *)((char *)r.work + ((size_t)r.n * fa_dtype_size(dtype) + 7) / 8 * 8);
    syevd("V", lower ? "L" : "U", &n, a, &lda, values, r.work, &r.n, iwork, &wanted, info, 1, 1);
    drop_room(&r);
    return true;
}

bool fai_lapack_svd(const char *op, fa_dtype dtype, char job, int m, int n, void *a, void *s, void *u, void *vt, int *info)
{
    GET(gesdd, GESDD);
    if (!gesdd) return false;
    const int k = m < n ? m : n, lda = at_least_1(m), ldvt = at_least_1(job == 'A' ? n : k), none = -1;
    double query[2] = {0};
    room r;
    gesdd(&job, &m, &n, a, &lda, s, u, &lda, vt, &ldvt, query, &none, NULL, info, 1);
    if (!make_room(op, dtype, query, 8 * (size_t)at_least_1(k) * sizeof(int) + sizeof(double), &r)) return false;
    int *const iwork = (int *)((char *)r.work + ((size_t)r.n * fa_dtype_size(dtype) + 7) / 8 * 8);
    gesdd(&job, &m, &n, a, &lda, s, u, &lda, vt, &ldvt, r.work, &r.n, iwork, info, 1);
    drop_room(&r);
    return true;
}
