/* Elementwise launches, held back for a moment, so that several can go to the device as one.
 *
 * A stream may hold up to eight elementwise launches over the same number of elements. The next one of that kind joins them; anything
 * else that comes to the stream, or asks how far it has come, sends them off first, so that nobody sees the difference: one after
 * the other, as they came, or as one launch of the chain kernel (kernels/ew.k.h), which keeps what they hand to each other in
 * registers. A result that has no buffer any more when the chain is sent is not stored. Every result is rounded to its element type
 * at once, so the bits are the same.
 *
 * What a step may read: memory as it was before the chain, or an earlier result, of the same elements in the same order. What it may
 * write: elements in order, without gaps. Memory that was freed meanwhile may be a later result's; then, and for what is
 * written in place, a step may write exactly what one before it read, element for element, or wrote. All else is not joined:
 * the chain is sent, and the launch begins another.
 *
 * A chain's program is made of the family's text and definitions of its steps, when the same chain is sent for the second time. Where
 * it can't be made the steps go one by one. Memory is counted as without all this: buffers are not kept. */
#include "inside.h"
#include <kernels_gen.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 8, VIEWS = 8, NUMBERS = 8, OPERANDS = 4, OWN_NUMBERS_AT = 5, NONE = -1 };
enum { FROM_STEP = 8, FROM_NUMBER = 16 }; /* values of kernels/ew.k.h */

typedef struct held {
    const char *op;
    fai_work work;
    fai_buffer *out;                 /* NULL: freed, or overwritten by a later step */
    fa_address pointers[VIEWS];
    fa_plan plan;
} held;

struct fai_chain {
    int n;                           /* steps; 0: nothing is held */
    int numbers;                     /* of all steps */
    held step[STEPS];
};

/* What is known of chains that were sent: one entry for each that differs in more than shapes and numbers. One that has no program
 * yet gives way to another; programs stay, since the device may be running them. */
typedef struct fai_fused {
    uint64_t key;                    /* 0: unused */
    int sent;
    bool failed;                     /* no program of it can be made */
    fa_kernel_handle handle;
    uint64_t ops_key;
    const char *ops;                 /* "mul, add, relu" */
} fai_fused;
enum { FUSED_ROOM = 4096, FUSED_WAYS = 4, TEXTS = 256, TEXT_MOST = 80 };

typedef struct fai_ops_text {
    uint64_t key;
    char text[TEXT_MOST];
} fai_ops_text;

/* One piece of memory, made at the first chain and kept: nothing that comes later is left over of a program that failed. */
struct fai_fused_table {
    int ntexts;
    fai_ops_text text[TEXTS];
    fai_fused entry[FUSED_ROOM];
};

/* ---- whether ---- */

static atomic_int how = NONE;

static int default_fusing(void) {
    const char *text = getenv("FACULA_FUSE");
    if (text && !strcmp(text, "first")) return FA_FUSE_FIRST;
    return text && !strcmp(text, "on") ? FA_FUSE_ON : FA_FUSE_OFF;
}

fa_fusing fa_get_fusing(void) {
    int now = atomic_load_explicit(&how, memory_order_relaxed);
    if (FAI_UNLIKELY(now == NONE)) atomic_store(&how, now = default_fusing());
    return (fa_fusing)now;
}

void fa_set_fusing(fa_fusing fusing) {
    fai_dev *dev;
    atomic_store(&how, (int)fusing);
    for (int i = 0; (dev = fai_dev_number(i)); i++) fai_fuse_flush_all(dev);
}

/* FAI_F32 ... */
static int compute_of(const held *h) { return h->work.elementwise - 1; }

/* Types whose elements are, once rounded, values of the compute type. */
static bool is_kept(int compute, int dtype) {
    if (dtype == FA_BOOL) return true;
    if (compute == FAI_I64) return dtype < FA_FLOAT16;
    return dtype >= FA_FLOAT16 && (dtype != FA_FLOAT64 || compute == FAI_F64);
}

/* ---- what lies where ---- */

static bool is_dense(const fa_plan_view *v) {
    int64_t stride = 1;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (v->size[d] != 1 && v->stride[d] != stride) return false;
        stride *= v->size[d];
    }
    return true;
}

static bool same_elements(const fa_plan_view *a, const fa_plan_view *b) {
    if (a->dtype != b->dtype) return false;
    if (is_dense(a) || is_dense(b)) return is_dense(a) && is_dense(b);
    if (a->ndim != b->ndim) return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->size[d] != b->size[d] || a->stride[d] != b->stride[d]) return false;
    return true;
}

static bool overlap(const held *a, int i, const held *b, int j) {
    const fa_plan_view *x = &a->plan.view[i], *y = &b->plan.view[j];
    return a->pointers[i] + (uint64_t)x->low < b->pointers[j] + (uint64_t)y->high &&
           b->pointers[j] + (uint64_t)y->low < a->pointers[i] + (uint64_t)x->high;
}

static bool same_place(const held *a, int i, const held *b, int j) {
    return a->pointers[i] == b->pointers[j] && same_elements(&a->plan.view[i], &b->plan.view[j]);
}

static bool is_tensor(const held *h, int k) { return h->plan.view[k].kind == FA_VIEW_TENSOR; }

/* The step whose result operand k of h is, among the first n; NONE: memory as it was before the chain. */
static int made_by(const struct fai_chain *c, int n, const held *h, int k) {
    for (int s = n; s-- > 0;)
        if (overlap(&c->step[s], 0, h, k)) return s;
    return NONE;
}

static bool can_write_over(const held *h, int k, const held *written) {
    return !is_tensor(h, k) || !overlap(h, k, written, 0) || same_place(h, k, written, 0);
}

/* What it says itself, whatever the others are. */
static bool can_be_held(const fai_stream *s, const held *h, fai_buffer *const buffers[VIEWS]) {
    const fa_plan *plan = &h->plan;
    if (s->external || s->shown || plan->row > 1023) return false;
    if (plan->nviews < 1 || plan->nviews > OPERANDS + 1 || !is_tensor(h, 0) || !plan->view[0].writes) return false;
    if (!is_dense(&plan->view[0]) || !is_kept(compute_of(h), plan->view[0].dtype)) return false;
    for (int k = 0; k < plan->nviews; k++)
        if ((buffers[k] && buffers[k]->exported) || (k && !can_write_over(h, k, h))) return false;
    return true;
}

static int numbers_of(const held *h) {
    int n = fai_rows[h->plan.row].nparams;
    for (int k = 1; k < h->plan.nviews; k++) n += h->plan.view[k].kind == FA_VIEW_SCALAR;
    return n;
}

/* ---- the chain as one plan ---- */

typedef struct fusion {
    fa_plan plan;
    fa_address pointers[VIEWS];
    const held *of[VIEWS];           /* whose view k is its operand at[k] */
    int at[VIEWS];
    int views, numbers;
} fusion;

/* The view of h's operand k: one that is there already, or one more. VIEWS: there is no room. */
static int view_of(fusion *f, const held *h, int k) {
    for (int v = 0; v < f->views; v++)
        if (same_place(f->of[v], f->at[v], h, k)) return v;
    if (f->views == VIEWS) return VIEWS;
    f->of[f->views] = h;
    f->at[f->views] = k;
    return f->views++;
}

static int number_of(fusion *f, double real, int64_t whole) {
    f->plan.f[f->numbers] = real;
    f->plan.n[16 + f->numbers] = whole;
    return f->numbers++;
}

/* Adds step s, operands first. False: not enough room. */
static bool add_step(fusion *f, const struct fai_chain *c, int s, uint64_t *read) {
    const held *h = &c->step[s];
    const int params = fai_rows[h->plan.row].nparams;
    uint64_t code = (uint64_t)h->plan.row;
    int value = 0;
    for (int k = 1; k <= OPERANDS; k++) {
        if (k < h->plan.nviews && is_tensor(h, k)) {
            const int from = made_by(c, s, h, k);
            value = from == NONE ? view_of(f, h, k) : FROM_STEP + from;
            if (from == NONE && value == VIEWS) return false;
            if (from == NONE) *read |= (uint64_t)1 << value;
        } else if (k < h->plan.nviews) {
            value = FROM_NUMBER + number_of(f, h->plan.f[k], h->plan.n[k]);
        }
        code |= (uint64_t)value << (10 + 5 * (k - 1)); /* where there is no operand any value will do */
    }
    code |= (uint64_t)(f->numbers & 7) << 30;
    for (int i = 0; i < params; i++) number_of(f, h->plan.f[OWN_NUMBERS_AT + i], h->plan.n[OWN_NUMBERS_AT + i]);
    const int to = h->out ? view_of(f, h, 0) : VIEWS;
    if (h->out && to == VIEWS) return false;
    code |= (uint64_t)to << 33 | (uint64_t)h->plan.view[0].dtype << 37;
    f->plan.n[s] = (int64_t)code;
    return true;
}

static void describe_views(fusion *f, uint64_t read, uint64_t written) {
    uint64_t types = 0;
    memset(f->plan.view, 0, sizeof f->plan.view);
    for (int v = 0; v < f->views; v++) {
        fa_plan_view *view = &f->plan.view[v];
        *view = f->of[v]->plan.view[f->at[v]];
        view->writes = written >> v & 1;
        f->pointers[v] = f->of[v]->pointers[f->at[v]];
        types |= ((uint64_t)view->dtype | (read >> v & 1) << 4 | (uint64_t)is_dense(view) << 5) << (6 * v);
    }
    f->plan.n[9] = (int64_t)types;
}

/* False: its views are too many for one launch. */
static bool fuse(fusion *f, const struct fai_chain *c) {
    uint64_t read = 0, written = 0;
    memset(&f->plan, 0, offsetof(fa_plan, view));
    memset(f->pointers, 0, sizeof f->pointers);
    f->views = f->numbers = 0;
    for (int s = 0; s < c->n; s++)
        if (!add_step(f, c, s, &read)) return false;
    for (int s = 0; s < c->n; s++)
        if (c->step[s].out) written |= (uint64_t)1 << (f->plan.n[s] >> 33 & 15);
    describe_views(f, read, written);
    f->plan.n[8] = c->n;
    f->plan.n[10] = f->numbers;
    f->plan.numel = c->step[0].plan.numel;
    f->plan.groups = c->step[0].plan.groups;
    f->plan.nviews = f->views;
    f->plan.ndim = 1;
    return true;
}

/* ---- its program ---- */

static void write_definitions(char *out, size_t n, const fusion *f, int compute) {
    int used = snprintf(out, n, "-DFA_CHAIN=%d -DFA_VIEWS=0x%llx -DFA_INSTANCE=%d", (int)f->plan.n[8], (unsigned long long)f->plan.n[9],
                        compute);
    for (int s = 0; s < STEPS; s++) used += snprintf(out + used, n - (size_t)used, " -DFA_S%d=0x%llx", s, (unsigned long long)f->plan.n[s]);
}

static fai_fused *entry_for(fai_dev *dev, const fusion *f, int compute) {
    const uint64_t key = fai_hash(f->plan.n, 10 * sizeof f->plan.n[0], (uint64_t)compute) | 1;
    if (!dev->fused) dev->fused = fai_calloc(FAI_TAG_OTHER, sizeof *dev->fused);
    if (!dev->fused) return NULL;
    fai_fused *set = &dev->fused->entry[(key >> 32) % (FUSED_ROOM / FUSED_WAYS) * FUSED_WAYS], *least = NULL;
    for (int i = 0; i < FUSED_WAYS; i++) {
        if (set[i].key == key) return &set[i];
        if (!set[i].handle && (!least || set[i].sent < least->sent)) least = &set[i];
    }
    if (least) *least = (fai_fused){.key = key};
    return least;
}

/* The names of the steps' operators, for errors: kept, because the log of launches points to it. */
static const char *ops_of(fai_dev *dev, const struct fai_chain *c, fai_fused *entry) {
    static const char many[] = "a chain of elementwise operators";
    struct fai_fused_table *table = dev->fused;
    uint64_t key = 0;
    size_t used = 0;
    int at = 0;
    for (int s = 0; s < c->n; s++) key = fai_hash(&c->step[s].op, sizeof c->step[s].op, key + 1);
    if (entry->ops && entry->ops_key == key) return entry->ops;
    while (at < table->ntexts && table->text[at].key != key) at++;
    entry->ops_key = key;
    entry->ops = at < TEXTS ? table->text[at].text : many;
    if (at < table->ntexts || at == TEXTS) return entry->ops;
    fai_ops_text *t = &table->text[table->ntexts++];
    t->key = key;
    for (int s = 0; s < c->n; s++) {
        const size_t room = TEXT_MOST - used, n = strlen(c->step[s].op);
        if (n + 6 > room && s) { /* ", ..." and its end */
            snprintf(t->text + used, room, ", ...");
            break;
        }
        used += (size_t)snprintf(t->text + used, room, "%s%s", s ? ", " : "", c->step[s].op);
        if (used >= TEXT_MOST) break;
    }
    return entry->ops;
}

/* With the build lock held. No error: the steps run without it. */
static void make_program(fai_dev *dev, const fusion *f, int compute, fai_fused *entry) {
    char options[512], log[600] = "";
    fa_program_handle program = NULL;
    const char *name = fai_kernels[FAI_K_chain_f32 + compute].name;
    write_definitions(options, sizeof options, f, compute);
    size_t bytes;
    char *text = fai_family_text("ew", &bytes);
    if (!text) return; /* there may be memory the next time */
    int code = dev->backend->build(dev->ordinal, "ew", text, options, &program, log, sizeof log);
    fai_free(FAI_TAG_OTHER, text, bytes);
    if (!code) code = dev->backend->find(dev->ordinal, program, name, &entry->handle);
    if (!code || code == FA_BACKEND_NO_MEMORY || code == FA_BACKEND_LOST) return;
    entry->handle = NULL;
    entry->failed = true;
    if (!atomic_load(&dev->fuse_problem)) {
        snprintf(dev->fuse_text, sizeof dev->fuse_text, "%s", log[0] ? log : dev->backend->error_text());
        atomic_store(&dev->fuse_problem, 1);
    }
}

/* Where no lock is held: a warning may run a program's own code. */
void fai_fuse_tell(fai_dev *dev) {
    int untold = 1;
    if (!atomic_compare_exchange_strong(&dev->fuse_problem, &untold, 2)) return;
    fai_warn("fuse",
             "elementwise operators that could run as one launch on %s run one by one, because their program could not be made: %s. "
             "FACULA_FUSE=off asks for no such programs",
             fa_device_text(dev->name), dev->fuse_text);
}

/* Its kernel, or NULL: the steps go one by one. */
static fa_kernel_handle kernel_for(fai_dev *dev, const struct fai_chain *c, const fusion *f, const char **ops) {
    pthread_mutex_lock(&dev->build_lock);
    fai_fused *entry = entry_for(dev, f, compute_of(&c->step[0]));
    fa_kernel_handle handle = NULL;
    if (entry) {
        entry->sent++;
        if (!entry->handle && !entry->failed && (entry->sent > 1 || fa_get_fusing() == FA_FUSE_FIRST))
            make_program(dev, f, compute_of(&c->step[0]), entry);
        handle = entry->handle;
        if (handle) *ops = ops_of(dev, c, entry);
    }
    pthread_mutex_unlock(&dev->build_lock);
    return handle;
}

/* ---- sending ---- */

static int send_one_by_one(fai_stream *s, struct fai_chain *c) {
    int code = 0;
    for (int i = 0; i < c->n && !code; i++) {
        const held *h = &c->step[i];
        code = fai_launch_held(s, h->op, &h->work, &h->plan, h->pointers);
    }
    return code;
}

/* Its results are known to be worth nothing; whoever sent the chain tells. */
static void fail_chain(fai_stream *s, const struct fai_chain *c, int code) {
    char doing[240];
    size_t used = (size_t)snprintf(doing, sizeof doing, "launching '%s'", c->step[0].op);
    for (int i = 1; i < c->n && used < sizeof doing; i++)
        used += (size_t)snprintf(doing + used, sizeof doing - used, ", '%s'", c->step[i].op);
    fai_spoil(s, &(fai_queued){c->step[c->n - 1].op, NULL, 0, fai_place_base(s) | s->place});
    fai_fail_backend(s->dev, code, c->step[c->n - 1].op, doing);
}

static int send(fai_stream *s, struct fai_chain *c) {
    fai_dev *dev = s->dev;
    fusion f;
    const char *ops = NULL;
    fa_kernel_handle handle = c->n > 1 && fuse(&f, c) ? kernel_for(dev, c, &f, &ops) : NULL;
    if (!handle) return send_one_by_one(s, c);
    const fai_kernel_info *info = &fai_kernels[FAI_K_chain_f32 + compute_of(&c->step[0])];
    const fai_work work = {.kernel = info->name, .group_size = info->group_size, .handle = handle};
    int code = fai_launch_held(s, ops, &work, &f.plan, f.pointers);
    if (!code) atomic_fetch_add_explicit(&dev->count.fused, (uint64_t)c->n - 1, memory_order_relaxed);
    return code;
}

int fai_fuse_flush(fai_stream *s) {
    struct fai_chain *c = s->chain;
    if (FAI_LIKELY(!c || !c->n)) return 0;
    for (int i = 0; i < c->n; i++)
        if (c->step[i].out) atomic_store_explicit(&c->step[i].out->held, 0, memory_order_relaxed);
    int code = send(s, c);
    if (code) fail_chain(s, c, code);
    c->n = c->numbers = 0;
    atomic_store_explicit(&s->holds, false, memory_order_relaxed);
    return code;
}

void fai_fuse_flush_all(fai_dev *dev) {
    for (int id = 0; id < FAI_STREAMS; id++) {
        fai_stream *s = atomic_load_explicit(&dev->streams[id], memory_order_acquire);
        if (!s || !atomic_load_explicit(&s->holds, memory_order_acquire)) continue;
        pthread_mutex_lock(&s->lock);
        fai_fuse_flush(s);
        pthread_mutex_unlock(&s->lock);
    }
}

/* ---- holding ---- */

/* Whether h may run as one with what is held. */
static bool joins(const struct fai_chain *c, const held *h) {
    fusion f = {.views = 0};
    if (!c->n || c->n == STEPS || compute_of(h) != compute_of(&c->step[0]) || h->plan.numel != c->step[0].plan.numel) return false;
    if (c->numbers + numbers_of(h) > NUMBERS) return false;
    for (int s = 0; s < c->n; s++) {
        const held *before = &c->step[s];
        for (int k = 1; k < before->plan.nviews; k++)
            if (!can_write_over(before, k, h)) return false;
        if (before->out && !can_write_over(before, 0, h)) return false;
        for (int k = 1; k < before->plan.nviews; k++)
            if (is_tensor(before, k) && made_by(c, s, before, k) == NONE && view_of(&f, before, k) == VIEWS) return false;
        if (before->out && view_of(&f, before, 0) == VIEWS) return false;
    }
    for (int k = 1; k < h->plan.nviews; k++) {
        const int from = is_tensor(h, k) ? made_by(c, c->n, h, k) : NONE;
        if (from != NONE && !same_place(h, k, &c->step[from], 0)) return false;
        if (is_tensor(h, k) && from == NONE && view_of(&f, h, k) == VIEWS) return false;
    }
    return view_of(&f, h, 0) < VIEWS;
}

static void hold(fai_stream *s, struct fai_chain *c, const held *h, fai_buffer *out) {
    if (!c->n) s->place++; /* all of a chain lies at one place */
    for (int i = 0; i < c->n; i++)
        if (c->step[i].out && overlap(&c->step[i], 0, h, 0)) c->step[i].out = NULL; /* joins() has seen that it is the same place */
    held *to = &c->step[c->n++];
    *to = *h;
    to->out = out;
    c->numbers += numbers_of(h);
    atomic_store_explicit(&s->holds, true, memory_order_release);
    atomic_store_explicit(&out->held, (uint8_t)(s->id + 1), memory_order_relaxed);
}

bool fai_fuse_take(fai_stream *s, const char *op, const fai_work *work, const fa_plan *plan, fai_buffer *const buffers[8],
                   const fa_address pointers[8], int *code) {
    *code = 0;
    if (!work->elementwise || fa_get_fusing() == FA_FUSE_OFF) return false;
    held h = {op, *work, NULL, {0}, *plan};
    memcpy(h.pointers, pointers, sizeof h.pointers);
    if (!can_be_held(s, &h, buffers) || numbers_of(&h) > NUMBERS) return false;
    if (!s->chain) s->chain = fai_calloc(FAI_TAG_OTHER, sizeof *s->chain);
    if (!s->chain) return false; /* without memory it goes at once */
    if (!joins(s->chain, &h) && (*code = fai_fuse_flush(s)) != 0) return false;
    hold(s, s->chain, &h, buffers[0]);
    return true;
}

/* Of a buffer that is about to be freed: what would have been stored to it need not be. */
void fai_fuse_forget(fai_dev *dev, fai_buffer *b) {
    const int id = atomic_load_explicit(&b->held, memory_order_relaxed) - 1;
    fai_stream *s = id < 0 ? NULL : atomic_load_explicit(&dev->streams[id], memory_order_acquire);
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; s->chain && i < s->chain->n; i++)
        if (s->chain->step[i].out == b) s->chain->step[i].out = NULL;
    pthread_mutex_unlock(&s->lock);
}

/* Its address goes to somebody who may use it without the library's knowledge. */
void fai_buffer_show(fai_buffer *b) {
    fai_dev *dev = b->device.type == FA_DEVICE_CPU || b->exported ? NULL : fai_dev_find(b->device);
    if (!dev) return;
    b->exported = true;
    fai_fuse_flush_all(dev);
}
