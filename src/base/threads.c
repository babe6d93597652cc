/* A small pool of threads. One job at a time: who finds the pool busy, or calls from inside a job, runs alone.
 *
 * A job is cut into pieces at multiples of its grain. Workers take pieces from one 64-bit cursor, (job number << 32 | pieces
 * left), so that a late worker can't touch the next job. They spin for some microseconds before they sleep: a wake-up
 * through the kernel costs more than a small job. Every pairing of "look, then sleep" with "change, then wake" uses
 * sequentially consistent operations on both sides. Before a fork the pool stops; both processes start it anew.
 *
 * Where somebody may ask long work to stop (fa_set_poll), pieces run in slices, and the caller's thread asks between two of them. */
#define _GNU_SOURCE /* CPU_COUNT */
#include "base.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 256, PIECES_PER_THREAD = 4, SPINS = 2000, SLICES = 16 };
#define ASK_EVERY 50e6 /* ns */

static struct {
    pthread_mutex_t owner; /* held by the thread whose job runs, and around start and stop */
    pthread_mutex_t mutex; /* guards sleeping */
    pthread_cond_t wake, finished;
    pthread_t thread[MAX_THREADS];
    int workers; /* started now */
    int wanted;  /* workers it was started for (fewer may have come) */
    atomic_bool stop;
    atomic_int sleepers;
    atomic_bool owner_sleeps;
    _Atomic uint64_t cursor;
    atomic_int done;
    /* the job; written before the cursor, read after a piece was taken */
    void (*body)(void *, int64_t, int64_t);
    void *context;
    int64_t n, piece, grain;
    int pieces;
    atomic_bool halted; /* the caller was asked to stop: what was not begun is left out */
    atomic_bool failed; /* a worker met an error: the first one is here */
    fa_error error;
} pool = {.owner = PTHREAD_MUTEX_INITIALIZER,
          .mutex = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .finished = PTHREAD_COND_INITIALIZER};

static atomic_int threads_wanted; /* 0: not decided yet */
static __thread bool inside;      /* this thread is running pieces */
static __thread bool is_worker;
static __thread bool halted;      /* a job of this thread was left unfinished: fai_halted */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static bool (*_Atomic poll_stop)(void *);
static void *_Atomic poll_data;

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- how many ---- */

/* 0: not given, or not a number that could be meant. */
static int from_environment(const char *name, const char *ends) {
    const char *text = getenv(name);
    char *end = NULL;
    const long n = text && *text ? strtol(text, &end, 10) : 0;
    return n > 0 && strchr(ends, *end) ? (n > MAX_THREADS ? MAX_THREADS : (int)n) : 0;
}

static int own_wish(void) {
    const char *text = getenv("FACULA_NUM_THREADS");
    const int n = from_environment("FACULA_NUM_THREADS", "");
    if (text && *text && !n)
        fai_warn("num_threads",
                 "FACULA_NUM_THREADS='%.60s' is not a whole number from 1 to %d and is not used; FACULA_NUM_THREADS=2 asks for "
                 "two threads",
                 text, MAX_THREADS);
    return n;
}

static int count_cores(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
}

int fa_num_threads(void) {
    int n = atomic_load_explicit(&threads_wanted, memory_order_relaxed);
    if (FAI_LIKELY(n > 0)) return n;
    n = own_wish();
    if (!n) n = from_environment("OMP_NUM_THREADS", ","); /* a list there has a number for each nested level */
    if (!n) n = count_cores();
    int unset = 0;
    atomic_compare_exchange_strong(&threads_wanted, &unset, n);
    return atomic_load(&threads_wanted);
}

void fa_set_num_threads(int n) {
    if (n < 1) {
        fai_fail(FA_ERR_RUNTIME, "set_num_threads", "set_num_threads expects a positive integer, but got %d", n);
        return;
    }
    atomic_store(&threads_wanted, n > MAX_THREADS ? MAX_THREADS : n);
}

/* ---- pieces ---- */

static void keep_error_of_worker(void) {
    pthread_mutex_lock(&pool.mutex);
    if (!atomic_load(&pool.failed)) {
        pool.error = fa_error_take();
        atomic_store(&pool.failed, true);
    } else {
        fa_error_take();
    }
    pthread_mutex_unlock(&pool.mutex);
}

static double nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The caller's thread asks, now and then; what it is told holds for all threads of the job. */
static bool asked_to_stop(atomic_bool *halt, double *asked) {
    if (atomic_load_explicit(halt, memory_order_relaxed)) return true;
    if (is_worker) return false;
    const double now = nanoseconds();
    if (now - *asked < ASK_EVERY) return false;
    *asked = now;
    bool (*stop)(void *) = atomic_load(&poll_stop);
    if (!stop || !stop(atomic_load(&poll_data))) return false;
    fai_fail(FA_ERR_INTERRUPTED, fai_tls.called ? fai_tls.called : "facula", "interrupted: the poll callback asked to stop");
    atomic_store(halt, true);
    return true;
}

/* body over [begin, end), in slices of whole grains if somebody can ask for a stop. */
static void run_sliced(void (*body)(void *, int64_t, int64_t), void *context, int64_t begin, int64_t end, int64_t grain, atomic_bool *halt,
                       double *asked) {
    const int64_t slice = ((end - begin + SLICES - 1) / SLICES + grain - 1) / grain * grain;
    if (!atomic_load_explicit(&poll_stop, memory_order_relaxed) || slice >= end - begin) {
        if (!atomic_load_explicit(halt, memory_order_relaxed)) body(context, begin, end);
        return;
    }
    for (int64_t at = begin; at < end && !asked_to_stop(halt, asked); at += slice)
        body(context, at, end - at < slice ? end : at + slice);
}

static bool take_piece(uint64_t job, int *piece) {
    uint64_t cursor = atomic_load_explicit(&pool.cursor, memory_order_acquire);
    while (cursor >> 32 == job && (uint32_t)cursor > 0) {
        if (!atomic_compare_exchange_weak_explicit(&pool.cursor, &cursor, cursor - 1, memory_order_acq_rel, memory_order_acquire))
            continue;
        *piece = (int)(uint32_t)cursor - 1;
        return true;
    }
    return false;
}

static void run_pieces(uint64_t job) {
    double asked = is_worker || !atomic_load_explicit(&poll_stop, memory_order_relaxed) ? 0 : nanoseconds();
    for (int piece; take_piece(job, &piece);) {
        int64_t begin = piece * pool.piece, end = piece == pool.pieces - 1 ? pool.n : begin + pool.piece;
        int pieces = pool.pieces;
        run_sliced(pool.body, pool.context, begin, end, pool.grain, &pool.halted, &asked);
        if (FAI_UNLIKELY(is_worker && fai_tls.error_pending)) keep_error_of_worker();
        if (atomic_fetch_add(&pool.done, 1) + 1 == pieces && atomic_load(&pool.owner_sleeps)) {
            pthread_mutex_lock(&pool.mutex);
            pthread_cond_signal(&pool.finished);
            pthread_mutex_unlock(&pool.mutex);
        }
    }
}

/* ---- workers ---- */

static uint64_t wait_for_job(uint64_t last) {
    for (int spin = 0; spin < SPINS; spin++) {
        uint64_t job = atomic_load_explicit(&pool.cursor, memory_order_acquire) >> 32;
        if (job != last || atomic_load_explicit(&pool.stop, memory_order_relaxed)) return job;
        relax();
    }
    pthread_mutex_lock(&pool.mutex);
    atomic_fetch_add(&pool.sleepers, 1);
    while (atomic_load(&pool.cursor) >> 32 == last && !atomic_load(&pool.stop)) pthread_cond_wait(&pool.wake, &pool.mutex);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.mutex);
    return atomic_load(&pool.cursor) >> 32;
}

static void *work(void *first) {
    uint64_t job = (uint64_t)(uintptr_t)first;
    inside = is_worker = true;
    while (!atomic_load(&pool.stop)) {
        uint64_t next = wait_for_job(job);
        if (next == job) continue;
        job = next;
        run_pieces(job);
    }
    return NULL;
}

static void wake_sleepers(void) {
    if (!atomic_load(&pool.sleepers)) return;
    pthread_mutex_lock(&pool.mutex);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.mutex);
}

/* With the owner's lock held, as the next one. */
static void stop_workers(void) {
    atomic_store(&pool.stop, true);
    pthread_mutex_lock(&pool.mutex);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.mutex);
    for (int i = 0; i < pool.workers; i++) pthread_join(pool.thread[i], NULL);
    pool.workers = pool.wanted = 0;
    atomic_store(&pool.stop, false);
}

static void before_fork(void) {
    if (inside) return;
    pthread_mutex_lock(&pool.owner);
    stop_workers();
}
static void after_fork(void) {
    if (!inside) pthread_mutex_unlock(&pool.owner);
}
static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

/* If the system gives fewer threads than wanted, those that came do the work. Signals are the program's own threads' matter. */
static void start_workers(int wanted) {
    pthread_once(&fork_once, watch_forks);
    if (pool.workers) stop_workers();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    uintptr_t job = (uintptr_t)(atomic_load(&pool.cursor) >> 32);
    pool.wanted = wanted;
    while (pool.workers < wanted && pthread_create(&pool.thread[pool.workers], NULL, work, (void *)job) == 0) pool.workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void fai_stop_pool(void) {
    if (inside) return;
    pthread_mutex_lock(&pool.owner);
    stop_workers();
    pthread_mutex_unlock(&pool.owner);
}

/* ---- a job ---- */

static void wait_until_done(void) {
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(&pool.done, memory_order_acquire) == pool.pieces) return;
        relax();
    }
    pthread_mutex_lock(&pool.mutex);
    atomic_store(&pool.owner_sleeps, true);
    while (atomic_load(&pool.done) != pool.pieces) pthread_cond_wait(&pool.finished, &pool.mutex);
    atomic_store(&pool.owner_sleeps, false);
    pthread_mutex_unlock(&pool.mutex);
}

static void run_job(int64_t n, int64_t grain, int64_t piece, int pieces, void (*body)(void *, int64_t, int64_t), void *context) {
    pool.body = body;
    pool.context = context;
    pool.n = n;
    pool.piece = piece;
    pool.grain = grain;
    pool.pieces = pieces;
    atomic_store_explicit(&pool.halted, false, memory_order_relaxed);
    atomic_store_explicit(&pool.failed, false, memory_order_relaxed);
    atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
    uint64_t job = ((atomic_load(&pool.cursor) >> 32) + 1) & 0xffffffffu;
    atomic_store(&pool.cursor, job << 32 | (uint32_t)pieces);
    wake_sleepers();
    inside = true;
    run_pieces(job);
    inside = false;
    wait_until_done();
    if (FAI_UNLIKELY(atomic_load(&pool.halted))) halted = true;
    if (atomic_load(&pool.failed)) fai_fail(pool.error.code, pool.error.op, "%s", pool.error.text);
}

static void run_alone(int64_t n, int64_t grain, void (*body)(void *, int64_t, int64_t), void *context) {
    atomic_bool halt = false;
    double asked = grain < n && atomic_load_explicit(&poll_stop, memory_order_relaxed) ? nanoseconds() : 0;
    run_sliced(body, context, 0, n, grain, &halt, &asked);
    if (FAI_UNLIKELY(halt)) halted = true;
}

void fai_parallel(int64_t n, int64_t grain, void (*body)(void *, int64_t, int64_t), void *context) {
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    if (inside) {
        body(context, 0, n);
        return;
    }
    int threads = fa_num_threads();
    int64_t grains = n / grain; /* the last piece takes the rest, so that none is smaller than a grain */
    if (grains < 2 || threads < 2 || pthread_mutex_trylock(&pool.owner) != 0) {
        run_alone(n, grain, body, context);
        return;
    }
    if (pool.wanted != threads - 1) start_workers(threads - 1);
    int64_t pieces = grains < (int64_t)threads * PIECES_PER_THREAD ? grains : (int64_t)threads * PIECES_PER_THREAD;
    int64_t piece = grains / pieces * grain;
    if (grains % pieces) piece += grain;
    pieces = (n - 1) / piece + 1;
    if (pieces > 1 && n - (pieces - 1) * piece < grain) pieces--;
    run_job(n, grain, piece, (int)pieces, body, context);
    pthread_mutex_unlock(&pool.owner);
}

/* ---- long work asks whether to go on ---- */

void fa_set_poll(bool (*stop)(void *), void *data) {
    atomic_store(&poll_stop, NULL);
    atomic_store(&poll_data, data);
    atomic_store(&poll_stop, stop);
}

bool fai_halted(void) {
    const bool was = halted;
    halted = false;
    return was;
}

bool fai_poll(const char *op) {
    bool (*stop)(void *) = atomic_load(&poll_stop);
    if (FAI_LIKELY(!stop) || inside || !stop(atomic_load(&poll_data))) return false;
    fai_fail(FA_ERR_INTERRUPTED, op, "interrupted: the poll callback asked to stop");
    return true;
}
