/* How large a batch fits, played through. From the second training step on, what a device's memory is asked for and given back is written
 * down, step by step. Two steps with batches of two sizes give the bytes of each request for any number of rows; then the allocator's own code
 * runs such steps on a device that only counts (a backend without memory), until the largest batch is found that gets all it asks for.
 *
 * It is tried from two beginnings: as the device is now, without what the step that ran out had made; and as in a new run, with no more than
 * lives on between steps, made in the same order. A step that asks otherwise than those before, or whose bytes do not follow the rows,
 * has no replay: then nothing is said. So have programs that change the allocator's rules, or use memory of several streams at once.
 *
 * What is noted lies under the memory lock. While it is played through it is taken out, so that other threads may go on. */
#include "inside.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 1 << 16, STEPS = 3, GRID = 48, SPARE_LEAST = 4, SPARE_MORE = 64, UNIT = 512, MIB = 1 << 20 };
enum { TOOK, GAVE, GAVE_BEFORE, GAVE_OLD }; 
/* The lowest two bits of an event. Above them: bytes taken; the block's number in this step; or in the one before, counted from its end, so that it
 * does not matter what else that step began with (the making of the model, an evaluation). */
#define WHAT(event) ((unsigned)((event) & 3))
#define AMOUNT(event) ((size_t)((event) >> 2))

/* ---- notes ---- */

static void note(fai_dev *dev, uint64_t event) {
    fai_trace *t = &dev->step.now;
    if (t->broken || dev->step.count == 0 || !fai_caches_on()) return;
    if (t->n == t->room) {
        const uint32_t room = t->room ? t->room * 2 : 256;
        uint64_t *more = room <= MOST_EVENTS ? fai_alloc(FAI_TAG_OTHER, room * sizeof *more) : NULL;
        if (!more) {
            t->broken = true;
            return;
        }
        if (t->n) memcpy(more, t->event, t->n * sizeof *more);
        fai_trace_free(t);
        t->event = more;
        t->room = room;
    }
    t->event[t->n++] = event;
}

void fai_trace_took(fai_dev *dev, fai_block *block) {
    fai_steps *s = &dev->step;
    block->step = s->count;
    block->number = s->now.taken++;
    if (block->heap != &dev->main.heap) s->now.broken = true;
    note(dev, (uint64_t)block->asked << 2 | TOOK);
}

void fai_trace_gave(fai_dev *dev, const fai_block *block) {
    const fai_steps *s = &dev->step;
    if (block->step == s->count) note(dev, (uint64_t)block->number << 2 | GAVE);
    else if (block->step == s->good) note(dev, (uint64_t)(s->good_taken - block->number) << 2 | GAVE_BEFORE);
    else if (block->step < s->good) note(dev, GAVE_OLD);
}

void fai_trace_free(fai_trace *t) {
    if (t->event) fai_free(FAI_TAG_OTHER, t->event, t->room * sizeof *t->event);
    t->event = NULL;
    t->room = 0;
}

void fai_trace_drop(fai_dev *dev) {
    fai_steps *s = &dev->step;
    pthread_mutex_lock(&dev->memory.lock);
    for (int i = 0; i < 2; i++) fai_trace_free(&s->trace[i]), s->trace_rows[i] = 0;
    fai_trace_free(&s->now);
    s->now.broken = true;
    pthread_mutex_unlock(&dev->memory.lock);
}

static void restart(fai_steps *s) {
    s->count++;
    s->now.n = s->now.taken = 0;
    s->now.broken = false;
}

static bool same(fai_step_sort a, fai_step_sort b) { return a.what == b.what && a.optimizer == b.optimizer; }

bool fai_trace_has(const fai_steps *s, int64_t rows) {
    return rows && same(s->kind, s->trace_kind) && (rows == s->trace_rows[0] || rows == s->trace_rows[1]);
}

/* Where the notes of the step that is over are to be kept; NULL: nowhere. */
static fai_trace *place_for(fai_steps *s) {
    if (!same(s->kind, s->trace_kind)) s->trace_rows[0] = s->trace_rows[1] = 0;
    s->trace_kind = s->kind;
    for (int i = 1; i >= 0; i--)
        if (s->trace_rows[i] == s->rows) return &s->trace[i];
    if (s->rows < s->trace_rows[0]) return NULL;
    const int i = s->rows > s->trace_rows[1];
    if (i) {
        const fai_trace least = s->trace[0];
        s->trace[0] = s->trace[1];
        s->trace_rows[0] = s->trace_rows[1];
        s->trace[1] = least;
    }
    s->trace_rows[i] = s->rows;
    return &s->trace[i];
}

/* A step is over. Its notes are kept in place of others, whose memory serves the next step. Those with more rows stand second. */
void fai_trace_end(fai_steps *s) {
    const uint32_t taken = s->now.taken, n = s->now.n;
    s->now.steady = taken == s->good_taken && n == s->good_n;
    fai_trace *const place = s->rows && s->count && !s->tried ? place_for(s) : NULL;
    if (place) {
        const fai_trace old = *place;
        *place = s->now;
        s->now = old;
    }
    s->good = s->count;
    s->good_taken = taken;
    s->good_n = n;
    s->tried = false;
    restart(s);
}

/* ---- what the device has ---- */

typedef struct piece { uint64_t size; uint32_t step, number; bool live, small, first; } piece;

typedef struct player {
    fai_dev *dev;                /* the one that only counts */
    const fai_trace *less, *more, *steady; /* of steps with fewer and with more rows; that of the two whose numbers of the step before are to be used */
    int64_t less_rows, more_rows;
    piece *piece;                /* the true device's, segment by segment; lasting ones by age behind them */
    size_t npieces, room, nlasting;
    uint32_t good, good_taken, begun_step, begun_number; /* the last step that ended; where the model was called for the first time */
    fai_block **took, **took_before;
    uint64_t limit;
    bool failed;                 /* the host has no memory for it */
} player;

/* With the lock held. */
static bool copy_pieces(const fai_dev *dev, player *p) {
    for (const fai_block *s = dev->memory.segments; s; s = s->segment_after)
        for (const fai_block *b = s; b; b = b->right) p->room++;
    p->piece = fai_alloc(FAI_TAG_OTHER, 3 * p->room * sizeof *p->piece + 1);
    if (!p->piece) return false;
    for (const fai_block *s = dev->memory.segments; s; s = s->segment_after) {
        if (s->heap != &dev->main.heap) { /* it stays as it is */
            for (const fai_block *b = s; b; b = b->right) p->limit -= b->size < p->limit ? b->size : p->limit;
            continue;
        }
        for (const fai_block *b = s; b; b = b->right) {
            const uint64_t part = b->small && b->size > MIB ? MIB : b->size; /* no request of the small pool is larger */
            p->piece[p->npieces++] = (piece){part, b->step, b->number, !b->free && b->step <= p->good, b->small, b == s};
            if (part < b->size) p->piece[p->npieces++] = (piece){.size = b->size - part, .small = true};
        }
    }
    return true;
}

static int by_age(const void *a, const void *b) {
    const piece *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void sort_lasting(player *p) {
    piece *lasting = p->piece + p->npieces;
    for (size_t i = 0; i < p->npieces; i++)
        if (p->piece[i].live && p->piece[i].step < p->good) lasting[p->nlasting++] = p->piece[i];
    qsort(lasting, p->nlasting, sizeof *lasting, by_age);
}

/* ---- a device that only counts ---- */

static __thread fa_address next_address;

static int count_up(int device, size_t bytes, fa_address *out) {
    (void)device;
    *out = next_address;
    next_address += bytes;
    return 0;
}

static int count_down(int device, fa_address address) {
    (void)device, (void)address;
    return 0;
}

static const fa_backend counting = {.name = "counting", .allocate = count_up, .release = count_down};

static void clear(fai_dev *dev) {
    for (fai_block *s = dev->memory.segments, *next_segment; s; s = next_segment) {
        next_segment = s->segment_after;
        for (fai_block *b = s, *next; b; b = next) next = b->right, b->after = dev->memory.spare, dev->memory.spare = b;
    }
    fai_block *spare = dev->memory.spare;
    memset(&dev->memory.stats, 0, sizeof dev->memory.stats);
    memset(&dev->main.heap.small, 0, sizeof dev->main.heap.small);
    memset(&dev->main.heap.large, 0, sizeof dev->main.heap.large);
    dev->main.heap.segments = 0;
    dev->memory.segments = dev->live = NULL;
    dev->memory.spare = spare;
    next_address = 4096;
}

static bool has_spare(player *p) {
    int n = 0;
    for (const fai_block *b = p->dev->memory.spare; b && n < SPARE_LEAST; b = b->after) n++;
    for (int i = n; n < SPARE_LEAST && i < SPARE_MORE; i++) {
        fai_block *b = fai_alloc(FAI_TAG_OBJECT, sizeof *b);
        if (!b) return !(p->failed = true);
        b->after = p->dev->memory.spare;
        p->dev->memory.spare = b;
    }
    return true;
}

static fai_block *take(player *p, fai_heap *heap, size_t bytes) { return has_spare(p) ? fai_block_try(p->dev, heap, bytes) : NULL; }

/* ---- its beginnings ---- */

/* The device as it is. In a heap that has one free segment only, requests are cut from it one after the other. */
static bool begin_here(player *p) {
    fai_heap alone = {0};
    for (size_t i = 0, end; i < p->npieces; i = end) {
        uint64_t size = 0;
        for (end = i; end < p->npieces && (end == i || !p->piece[end].first); end++) size += p->piece[end].size;
        memset(&alone, 0, sizeof alone);
        fai_block *b = take(p, &alone, p->piece[i].small ? UNIT : size);
        if (!b) return false;
        fai_block_free(p->dev, b);
        fai_block *const segment = p->dev->memory.segments;
        for (size_t k = i; k < end; k++)
            if (!(b = take(p, &alone, p->piece[k].size)) || b->size != p->piece[k].size || alone.segments != 1) return false;
        p->dev->main.heap.segments++;
        for (b = segment; b; b = b->right) b->heap = &p->dev->main.heap;
        b = segment;
        for (size_t k = i; k < end; k++) {
            fai_block *const right = b->right; /* what is free becomes one with what is free on its left */
            const piece *is = &p->piece[k];
            if (!is->live) fai_block_free(p->dev, b);
            else if (is->step == p->good && p->good_taken - is->number <= p->less->taken) p->took_before[p->less->taken + is->number - p->good_taken] = b;
            b = right;
        }
    }
    return true;
}

static bool take_lasting(player *p, bool early) {
    for (size_t i = 0; i < p->nlasting; i++) {
        const piece *l = &p->piece[p->npieces + i];
        const bool before = l->step < p->begun_step || (l->step == p->begun_step && l->number < p->begun_number);
        if (before == early && !take(p, &p->dev->main.heap, l->size)) return false;
    }
    return true;
}

/* ---- steps ---- */

/* The bytes of a request in a step of so many rows. */
static size_t bytes_at(const player *p, uint32_t event, int64_t rows) {
    const int64_t less = (int64_t)AMOUNT(p->less->event[event]), more = (int64_t)AMOUNT(p->more->event[event]), between = p->more_rows - p->less_rows;
    const __int128 grown = (__int128)(more - less) * (rows - p->less_rows);
    const int64_t bytes = less + (int64_t)((grown + (grown > 0 ? between - 1 : 0)) / between);
    return bytes > 0 ? (size_t)bytes : 1;
}

/* first: some of what the step before it left may be gone already. */
static bool play_step(player *p, int64_t rows, bool first) {
    fai_block **const before = p->took_before;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < p->less->n; i++) {
        const uint64_t event = p->steady->event[i];
        fai_block **const from = WHAT(event) == GAVE ? p->took : before;
        const size_t which = WHAT(event) == GAVE ? AMOUNT(event) : p->less->taken - AMOUNT(event);
        if (WHAT(event) == TOOK) {
            if (!(p->took[taken++] = take(p, &p->dev->main.heap, bytes_at(p, i, rows)))) return false;
        } else if (WHAT(event) != GAVE_OLD && which < p->less->taken && from[which]) {
            fai_block_free(p->dev, from[which]);
            from[which] = NULL;
        } else if (WHAT(event) != GAVE_OLD && !first) {
            return !(p->failed = true); /* these steps do not follow each other */
        }
    }
    p->took_before = p->took;
    p->took = before;
    return true;
}

static bool play(player *p, int64_t rows, bool here) {
    clear(p->dev);
    memset(p->took_before, 0, p->less->taken * sizeof(fai_block *));
    if (here ? !begin_here(p) : !take_lasting(p, true)) return false;
    for (int k = 0; k < STEPS; k++) {
        if (!play_step(p, rows, k == 0)) return false;
        if (!here && k == 0 && !take_lasting(p, false)) return false;
    }
    return true;
}

/* The largest number of rows below `fails` that fits, seen from the top: with pieces of so many sizes a larger batch may fit where a smaller
 * one does not. 0: none. */
static int64_t most_rows(player *p, int64_t fails, bool here) {
    int64_t low = 0, high = fails;
    for (int k = GRID - 1; k > 0 && !low && !p->failed; k--) {
        const int64_t rows = fails / GRID * k + fails % GRID * k / GRID;
        if (rows < 1 || rows >= high) continue;
        if (play(p, rows, here)) low = rows;
        else high = rows;
    }
    while (high - low > 1 && !p->failed) {
        const int64_t middle = low + (high - low) / 2;
        if (play(p, middle, here)) low = middle;
        else high = middle;
    }
    return low;
}

/* ---- whether the notes are of steps that go alike ---- */

static bool alike(uint64_t a, uint64_t b) { return WHAT(a) == WHAT(b) && (WHAT(a) != GAVE || a == b); }

static uint32_t next_of_this_step(const fai_trace *t, uint32_t i) {
    while (i < t->n && WHAT(t->event[i]) >= GAVE_BEFORE) i++;
    return i;
}

/* What the step that ran out asked for until then is what the line of rows says: then so is the rest. What steps before it left may have
 * been given back by a try of it that failed. */
static bool follows(player *p, const fai_trace *now, int64_t rows, size_t asked) {
    const fai_trace *a = p->less, *b = p->more;
    p->steady = b->steady ? b : a;
    if (!p->steady->steady || a->broken || b->broken || now->broken || a->n != b->n || a->taken != b->taken) return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!alike(a->event[i], b->event[i])) return false;
    for (uint32_t i = next_of_this_step(a, 0), k = next_of_this_step(now, 0); i < a->n; i = next_of_this_step(a, i + 1), k = next_of_this_step(now, k + 1)) {
        const uint64_t event = k < now->n ? now->event[k] : (uint64_t)asked << 2 | TOOK;
        const size_t bytes = AMOUNT(event), expected = bytes_at(p, i, rows);
        if (!alike(a->event[i], event) || (WHAT(event) == TOOK && (bytes > expected ? bytes - expected : expected - bytes) > UNIT)) return false;
        if (k >= now->n) return true;
    }
    return false;
}

static void end_player(player *p) {
    if (p->dev) {
        clear(p->dev);
        fai_arena_drop_spare(&p->dev->memory);
        pthread_mutex_destroy(&p->dev->memory.lock);
        fai_free(FAI_TAG_OTHER, p->dev, sizeof *p->dev);
    }
    if (p->piece) fai_free(FAI_TAG_OTHER, p->piece, 3 * p->room * sizeof *p->piece + 1);
    if (p->took) fai_free(FAI_TAG_OTHER, p->took, p->less->taken * sizeof *p->took);
    if (p->took_before) fai_free(FAI_TAG_OTHER, p->took_before, p->less->taken * sizeof *p->took_before);
}

static bool begin_player(player *p) {
    const size_t table = p->less->taken * sizeof *p->took;
    sort_lasting(p);
    p->dev = fai_calloc(FAI_TAG_OTHER, sizeof *p->dev);
    p->took = fai_calloc(FAI_TAG_OTHER, table);
    p->took_before = fai_calloc(FAI_TAG_OTHER, table);
    if (p->dev) {
        fai_allocator_init(p->dev);
        p->dev->backend = &counting;
        p->dev->heaps = &p->dev->main.heap;
        p->dev->limited = true;
        p->dev->limit = p->limit;
    }
    return p->dev && p->took && p->took_before;
}

/* With the lock held: takes the notes, and looks whether they tell anything. */
static bool take_notes(fai_dev *dev, player *p, fai_trace seen[2], int64_t rows, size_t asked) {
    fai_steps *s = &dev->step;
    p->less_rows = s->trace_rows[0], p->more_rows = s->trace_rows[1];
    p->good = s->good, p->good_taken = s->good_taken, p->begun_step = s->begun_step, p->begun_number = s->begun_number;
    for (int i = 0; i < 2; i++) seen[i] = s->trace[i], s->trace[i] = (fai_trace){0};
    return same(s->kind, s->trace_kind) && p->less_rows > 0 && rows > p->more_rows && !dev->waiting && follows(p, &s->now, rows, asked) && copy_pieces(dev, p);
}

static void put_notes_back(fai_dev *dev, fai_trace seen[2]) {
    fai_steps *s = &dev->step;
    pthread_mutex_lock(&dev->memory.lock);
    for (int i = 0; i < 2; i++) {
        if (s->trace[i].event) fai_trace_free(&seen[i]);
        else s->trace[i] = seen[i];
    }
    s->tried = true; /* what has been noted of this step is of no use: if it is tried again, it begins anew */
    restart(s);
    pthread_mutex_unlock(&dev->memory.lock);
}

fai_replayed fai_replay(fai_dev *dev, uint64_t capacity, int64_t rows, size_t asked) {
    fai_trace seen[2];
    fai_replayed r = {0};
    player p = {.less = &seen[0], .more = &seen[1], .limit = capacity};
    pthread_mutex_lock(&dev->memory.lock);
    const bool known = take_notes(dev, &p, seen, rows, asked);
    pthread_mutex_unlock(&dev->memory.lock);
    if (known && !fai_rules.divides && fai_rules.max_split == SIZE_MAX && fai_rules.collects == 0 && fai_caches_on() && begin_player(&p)) {
        const int64_t here = most_rows(&p, rows, true), anew = most_rows(&p, rows, false);
        p.dev->limit = UINT64_MAX / 4;
        if (play(&p, rows, false) && !p.failed)
            r = (fai_replayed){true, here, anew, p.dev->memory.stats.allocated_bytes[FA_POOL_ALL].peak};
    }
    end_player(&p);
    put_notes_back(dev, seen);
    return r;
}
