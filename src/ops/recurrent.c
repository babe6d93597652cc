/* LSTM, GRU and RNN over a sequence: the input's product is one for all steps; then each step is one small product and one
 * fused kernel (kernels/recurrent.k.h). The small product's matrix is the same in every step, so it is laid out once in
 * panels of 32 columns, which the CPU's product reads as they are.
 *
 * The states before each step are kept in blocks of their own (before_h, before_c). Where every step has the same sequences,
 * a step writes its state into the block of the next one; else into a carried state [batch, hidden] of which the next step
 * takes what it needs. */
#include "recurrent.h"
#include "ops_gen.h"

enum { PANEL = 32 };
static const char *const OP = "rnn";

/* ---- pieces of tensors as operands: no objects are made for them ---- */

/* Rows from `first` on of a contiguous matrix with `width` columns; a copy of its description. */
static fa_tensor piece(const fa_tensor *t, int64_t first, int64_t rows, int64_t width) {
    fa_tensor part = *t;
    part.offset += first * width;
    part.ndim = 1;
    part.size[0] = part.numel = rows * width;
    part.stride[0] = 1;
    return part;
}

typedef struct matrix {
    const fa_tensor *t; /* NULL: none */
    int64_t first;      /* element of t that is the matrix's first */
    int64_t row, col, panel;
} matrix;

static matrix plain(const fa_tensor *t, int64_t first, int64_t row) { return (matrix){t, first, row, 1, PANEL}; }

static void describe(fa_plan *plan, int k, fa_tensor *part, matrix m, int64_t rows, int64_t cols, int64_t panels) {
    const int64_t size[3] = {panels, rows, cols}, stride[3] = {m.panel, m.row, m.col};
    const int64_t bytes = (int64_t)fa_dtype_size((fa_dtype)m.t->dtype);
    fa_plan_view *v = &plan->view[k];
    *part = *m.t;
    part->offset += m.first;
    v->kind = FA_VIEW_TENSOR, v->dtype = m.t->dtype, v->writes = k == 0, v->ndim = 3;
    v->low = 0, v->high = bytes;
    for (int i = 0; i < 3; i++) {
        v->size[i] = size[i], v->stride[i] = stride[i];
        v->high += (size[i] - 1) * stride[i] * bytes;
    }
    if (plan->nviews < k + 1) plan->nviews = k + 1;
}

/* c [m, n] = a [m, k] b [k, n] + d, in `panels` parts of n columns each. */
static bool multiply(matrix c, matrix a, matrix b, matrix d, int64_t m, int64_t n, int64_t k, int64_t panels) {
    fa_plan plan;
    fa_tensor part[4], *operands[4] = {&part[0], &part[1], &part[2], d.t ? &part[3] : NULL};
    if (m == 0 || n == 0) return true;
    fai_plan_begin(&plan);
    describe(&plan, 0, &part[0], c, m, n, panels);
    describe(&plan, 1, &part[1], a, m, k, panels);
    describe(&plan, 2, &part[2], b, k, n, panels);
    if (d.t) describe(&plan, 3, &part[3], d, m, n, panels);
    plan.n[0] = m, plan.n[1] = n, plan.n[2] = k, plan.n[4] = panels, plan.n[5] = 1;
    plan.f[0] = plan.f[1] = 1;
    plan.numel = panels * m * n;
    plan.groups = panels * ((m + 63) / 64) * ((n + 63) / 64);
    return fai_run(FAI_K_gemm_f32 + fai_compute(c.t->dtype), &plan, operands, d.t ? 4 : 3, OP);
}

/* ---- the matrix of every step ---- */

typedef struct stepper {
    fa_tensor *t;
    int64_t k, n, panels; /* n columns in each panel */
    matrix b;
} stepper;

/* w's element of row k and column n lies at k * k_stride + n * n_stride. */
static bool prepare(stepper *s, fa_tensor *w, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, int64_t uses) {
    *s = (stepper){w, k, n, 1, {w, 0, k_stride, n_stride, 0}};
    if (!fai_on_cpu(w) || n % PANEL || k == 0 || uses < 2) return true;
    const int64_t size[3] = {n / PANEL, k, PANEL}, stride[3] = {PANEL * n_stride, k_stride, n_stride};
    fa_tensor *turned = fai_view(OP, w, 3, size, stride, w->offset);
    if (!turned || !(s->t = fai_contiguous(OP, turned))) return false;
    s->panels = n / PANEL, s->n = PANEL;
    s->b = (matrix){s->t, 0, PANEL, 1, k * PANEL};
    return true;
}

/* rows of c from row `at` on = rows of a + d */
static bool step_product(const stepper *s, matrix c, matrix a, matrix d, int64_t rows) {
    a.panel = 0;
    return multiply(c, a, s->b, d, rows, s->n, s->k, s->panels);
}

/* ---- walking through time ---- */

typedef struct walk {
    int64_t t, at, rows, left; /* step, its first row, its rows, steps to come after it */
} walk;

static walk begin_walk(const fai_rnn *r, bool down) {
    walk w = {0, 0, fai_rnn_size(r, 0), r->steps - 1};
    if (down) {
        w.t = r->steps - 1;
        w.rows = fai_rnn_size(r, w.t);
        w.at = r->rows - w.rows;
    }
    return w;
}

static bool next_step(const fai_rnn *r, walk *w, bool down) {
    if (w->left-- == 0) return false;
    if (!down) w->at += w->rows;
    w->t += down ? -1 : 1;
    w->rows = fai_rnn_size(r, w->t);
    if (down) w->at -= w->rows;
    return true;
}

static bool run_step(int kernel, fa_tensor *parts, fa_tensor *const *operands, int n, int written, const fai_rnn *r,
                     int64_t rows) {
    fa_plan plan;
    fai_plan_begin(&plan);
    for (int k = 0; k < n; k++)
        if (operands[k]) fai_plan_view(&plan, k, operands[k], k < written);
    plan.nviews = n;
    plan.n[0] = rows, plan.n[1] = r->hidden, plan.n[2] = r->mode == FAI_RNN_RELU;
    plan.numel = rows * r->hidden;
    plan.groups = fai_groups(plan.numel, 256);
    return rows == 0 || fai_run(kernel + fai_compute(parts[0].dtype), &plan, operands, n, OP);
}

static bool copy_rows(const fa_tensor *to, int64_t to_row, const fa_tensor *from, int64_t from_row, int64_t rows, int64_t width) {
    fa_tensor a = piece(to, to_row, rows, width), b = piece(from, from_row, rows, width);
    return fai_copy_within(a.buffer, (size_t)a.offset * fa_dtype_size((fa_dtype)a.dtype), b.buffer,
                           (size_t)b.offset * fa_dtype_size((fa_dtype)b.dtype),
                           (size_t)a.numel * fa_dtype_size((fa_dtype)a.dtype), OP);
}

/* ---- forward ---- */

typedef struct running {
    const fai_rnn *r;
    int gates;
    fa_tensor *result, *sums, *own, *before[2]; /* before: h, c */
    fa_tensor *bias_hh;
    stepper step;
} running;

static int64_t last_row(const fai_rnn *r, int state) {
    return r->rows + state * r->batch;
} /* of the result: the last h, the last c */

static fa_tensor *matrix_like(const fa_tensor *x, int64_t rows, int64_t cols) {
    return fai_empty(OP, (fa_dtype)x->dtype, x->device, 2, (const int64_t[]){rows, cols});
}

/* Where a step leaves its state: the block of the next step, or the carried state. */
static int64_t goes_to(const running *run, const walk *w) {
    const fai_rnn *r = run->r;
    if (r->sizes || w->left == 0) return -1;
    return r->reverse ? w->at - r->batch : w->at + r->batch;
}

static bool forward_step(const running *run, const walk *w) {
    const fai_rnn *r = run->r;
    const int64_t h = r->hidden, wide = h * run->gates, to = goes_to(run, w);
    const int states = r->mode == FAI_LSTM ? 2 : 1;
    for (int s = 0; r->sizes && s < states; s++)
        if (!copy_rows(run->before[s], w->at, run->result, last_row(r, s), w->rows, h)) return false;
    fa_tensor *sums = r->mode == FAI_GRU ? run->own : run->sums;
    const matrix c = plain(sums, w->at * wide, wide), d = r->mode != FAI_GRU ? c : (matrix){run->bias_hh, 0, 0, 1, PANEL};
    if (!step_product(&run->step, c, plain(run->before[0], w->at * h, h), d, w->rows)) return false;
    fa_tensor y = piece(run->result, w->at, w->rows, h), gates = piece(run->sums, w->at, w->rows, wide);
    fa_tensor next[2], before[2], own;
    for (int s = 0; s < states; s++) {
        next[s] = to < 0 ? piece(run->result, last_row(r, s), w->rows, h) : piece(run->before[s], to, w->rows, h);
        before[s] = piece(run->before[s], w->at, w->rows, h);
    }
    switch (r->mode) {
    case FAI_LSTM:
        return run_step(FAI_K_lstm_step_f32, &y, (fa_tensor *const[]){&y, &next[0], &next[1], &gates, &before[1]}, 5, 4, r,
                        w->rows);
    case FAI_GRU:
        own = piece(run->own, w->at, w->rows, wide);
        return run_step(FAI_K_gru_step_f32, &y, (fa_tensor *const[]){&y, &next[0], &gates, &own, &before[0]}, 5, 3, r, w->rows);
    default: return run_step(FAI_K_rnn_step_f32, &y, (fa_tensor *const[]){&y, &next[0], &gates}, 3, 2, r, w->rows);
    }
}

/* The first state: in the block of the first step, or carried. */
static bool first_state(const running *run, int state, fa_tensor *from) {
    const fai_rnn *r = run->r;
    const walk w = begin_walk(r, r->reverse);
    fa_tensor to = r->sizes ? piece(run->result, last_row(r, state), r->batch, r->hidden)
                            : piece(run->before[state], w.at, r->batch, r->hidden);
    if (!from) return fai_zero(OP, &to);
    return copy_rows(&to, 0, from, 0, r->batch, r->hidden);
}

/* sums [rows, gates * hidden] = x w_ih^T + biases; GRU's hidden state keeps its own bias. */
static bool input_sums(running *run, fa_tensor *const in[]) {
    const fa_tensor *x = in[FAI_RNN_X], *w = in[FAI_RNN_W_IH];
    const int64_t wide = run->r->hidden * run->gates, n = x->size[1];
    fa_tensor *bias = in[FAI_RNN_B_IH];
    if (bias && run->r->mode != FAI_GRU) {
        const fai_operand both[] = {{.tensor = bias}, {.tensor = in[FAI_RNN_B_HH]}};
        if (!(bias = fai_row_raw(OP, FAI_ROW_add, 2, both, NULL, FA_DTYPE_DEFAULT))) return false;
    }
    return multiply(plain(run->sums, 0, wide), plain(x, 0, n), (matrix){w, 0, 1, n, 0}, (matrix){bias, 0, 0, 1, 0}, run->r->rows,
                    wide, n, 1);
}

static bool contiguous_inputs(fa_tensor *const in[], fa_tensor *out[]) {
    for (int i = 0; i < FAI_RNN_INPUTS; i++) {
        out[i] = in[i] ? fai_contiguous(OP, in[i]) : NULL;
        if (in[i] && !out[i]) return false;
    }
    return true;
}

fa_tensor *fai_rnn_forward(const fai_rnn *r, fa_tensor *const given[FAI_RNN_INPUTS], fa_tensor *kept[FAI_RNN_KEPT]) {
    FA_SCOPE;
    fa_tensor *in[FAI_RNN_INPUTS];
    running run = {.r = r, .gates = fai_rnn_gates(r->mode)};
    const int64_t h = r->hidden, wide = h * run.gates, numel = fai_rnn_numel(r);
    if (!contiguous_inputs(given, in)) return NULL;
    fa_tensor *x = in[FAI_RNN_X], *w = in[FAI_RNN_W_HH];
    run.bias_hh = in[FAI_RNN_B_HH];
    const bool made = (run.result = fai_empty(OP, (fa_dtype)x->dtype, x->device, 1, &numel)) &&
                      (run.sums = matrix_like(x, r->rows, wide)) && (run.before[0] = matrix_like(x, r->rows, h)) &&
                      (r->mode != FAI_LSTM || (run.before[1] = matrix_like(x, r->rows, h))) &&
                      (r->mode != FAI_GRU || (run.own = matrix_like(x, r->rows, wide)));
    if (!made || !input_sums(&run, in) || !prepare(&run.step, w, h, wide, 1, h, r->steps)) return NULL;
    if (!first_state(&run, 0, in[FAI_RNN_H]) || (r->mode == FAI_LSTM && !first_state(&run, 1, in[FAI_RNN_C]))) return NULL;
    walk at = begin_walk(r, r->reverse);
    do
        if (!forward_step(&run, &at)) return NULL;
    while (next_step(r, &at, r->reverse));
    fa_tensor *const keep[FAI_RNN_KEPT] = {run.result, run.sums, run.own, run.before[0], run.before[1]};
    for (int i = 0; i < FAI_RNN_KEPT; i++) kept[i] = keep[i] ? fa_keep(keep[i]) : NULL;
    return run.result;
}

/* ---- backward: from the last step that ran to the first ---- */

typedef struct returning {
    const fai_rnn *r;
    int gates;
    fa_tensor *g, *const *kept;
    fa_tensor *sums, *own,
        *carried[2]; /* gradients of the gates' sums (own: the hidden state's), of h and c from the next step */
    stepper step;
    bool to_first; /* the gradient of the first h is wanted */
} returning;

static bool backward_step(const returning *b, const walk *w) {
    const fai_rnn *r = b->r;
    const int64_t h = r->hidden, wide = h * b->gates;
    fa_tensor gy = piece(b->g, w->at, w->rows, h), to = piece(b->sums, w->at, w->rows, wide);
    fa_tensor dh = piece(b->carried[0], 0, w->rows, h), gates = piece(b->kept[FAI_RNN_GATES], w->at, w->rows, wide), before, dc,
              own, to_own, y;
    bool ok;
    switch (r->mode) {
    case FAI_LSTM:
        dc = piece(b->carried[1], 0, w->rows, h), before = piece(b->kept[FAI_RNN_BEFORE_C], w->at, w->rows, h);
        ok = run_step(FAI_K_lstm_step_backward_f32, &to, (fa_tensor *const[]){&to, &dc, &gates, &before, &gy, &dh}, 6, 2, r,
                      w->rows);
        break;
    case FAI_GRU:
        before = piece(b->kept[FAI_RNN_BEFORE_H], w->at, w->rows, h), own = piece(b->kept[FAI_RNN_OWN], w->at, w->rows, wide);
        to_own = piece(b->own, w->at, w->rows, wide);
        ok = run_step(FAI_K_gru_step_backward_f32, &to, (fa_tensor *const[]){&to, &to_own, &dh, &gates, &own, &before, &gy}, 7, 3,
                      r, w->rows);
        break;
    default:
        y = piece(b->kept[FAI_RNN_RESULT], w->at, w->rows, h);
        ok = run_step(FAI_K_rnn_step_backward_f32, &to, (fa_tensor *const[]){&to, &y, &gy, &dh}, 4, 1, r, w->rows);
    }
    if (!ok || (w->left == 0 && !b->to_first)) return ok;
    const matrix c = plain(b->carried[0], 0, h), none = {.t = NULL};
    return step_product(&b->step, c, plain(b->own ? b->own : b->sums, w->at * wide, wide), r->mode == FAI_GRU ? c : none,
                        w->rows);
}

static bool carry(returning *b, int state) {
    const fai_rnn *r = b->r;
    b->carried[state] = matrix_like(b->g, r->batch, r->hidden);
    return b->carried[state] && copy_rows(b->carried[state], 0, b->g, last_row(r, state), r->batch, r->hidden);
}

/* weight's gradient [wide, n] = sums^T [wide, rows] by x [rows, n] */
static fa_tensor *weight_grad(const fa_tensor *sums, int64_t wide, const fa_tensor *x, int64_t n, int64_t rows) {
    fa_tensor *out = matrix_like(x, wide, n);
    const matrix none = {.t = NULL};
    if (!out) return NULL;
    if (rows == 0) return fai_zero(OP, out) ? out : NULL;
    return multiply(plain(out, 0, n), (matrix){sums, 0, 1, wide, 0}, plain(x, 0, n), none, wide, n, rows, 1) ? out : NULL;
}

static bool input_grads(const returning *b, fa_tensor *const in[], const bool wanted[], fa_tensor *grads[]) {
    const int64_t h = b->r->hidden, wide = h * b->gates, rows = b->r->rows, n = in[FAI_RNN_X]->size[1];
    fa_tensor *own = b->own ? b->own : b->sums;
    const matrix none = {.t = NULL};
    if (wanted[FAI_RNN_X]) {
        fa_tensor *out = grads[FAI_RNN_X] = matrix_like(b->g, rows, n);
        if (!out || !multiply(plain(out, 0, n), plain(b->sums, 0, wide), plain(in[FAI_RNN_W_IH], 0, n), none, rows, n, wide, 1))
            return false;
    }
    if (wanted[FAI_RNN_W_IH] && !(grads[FAI_RNN_W_IH] = weight_grad(b->sums, wide, in[FAI_RNN_X], n, rows))) return false;
    if (wanted[FAI_RNN_W_HH] && !(grads[FAI_RNN_W_HH] = weight_grad(own, wide, b->kept[FAI_RNN_BEFORE_H], h, rows))) return false;
    if (wanted[FAI_RNN_B_IH] && !(grads[FAI_RNN_B_IH] = fai_sum_to(OP, b->sums, 1, &wide))) return false;
    if (wanted[FAI_RNN_B_HH]) {
        const bool same = own == b->sums && grads[FAI_RNN_B_IH];
        grads[FAI_RNN_B_HH] =
            same ? fai_row_raw(OP, FAI_ROW_add, 2,
                               (const fai_operand[]){{.tensor = grads[FAI_RNN_B_IH]}, {.scalar = fa_scalar_of_int(0)}}, NULL,
                               FA_DTYPE_DEFAULT)
                 : fai_sum_to(OP, own, 1, &wide);
        if (!grads[FAI_RNN_B_HH]) return false;
    }
    return true;
}

bool fai_rnn_grads(const fai_rnn *r, fa_tensor *given_g, fa_tensor *const given[FAI_RNN_INPUTS],
                   fa_tensor *const kept[FAI_RNN_KEPT], const bool wanted[FAI_RNN_INPUTS], fa_tensor *grads[FAI_RNN_INPUTS]) {
    FA_SCOPE;
    fa_tensor *in[FAI_RNN_INPUTS];
    returning b = {.r = r, .gates = fai_rnn_gates(r->mode), .kept = kept, .to_first = wanted[FAI_RNN_H]};
    const int64_t h = r->hidden, wide = h * b.gates;
    if (!contiguous_inputs(given, in) || !(b.g = fai_contiguous(OP, given_g))) return false;
    if (!(b.sums = matrix_like(b.g, r->rows, wide)) || (r->mode == FAI_GRU && !(b.own = matrix_like(b.g, r->rows, wide))))
        return false;
    if (!carry(&b, 0) || (r->mode == FAI_LSTM && !carry(&b, 1))) return false;
    if (!prepare(&b.step, in[FAI_RNN_W_HH], wide, h, h, 1, r->steps)) return false;
    walk at = begin_walk(r, !r->reverse);
    do
        if (!backward_step(&b, &at)) return false;
    while (next_step(r, &at, !r->reverse));
    if (!input_grads(&b, in, wanted, grads)) return false;
    if (wanted[FAI_RNN_H]) grads[FAI_RNN_H] = b.carried[0];
    if (wanted[FAI_RNN_C]) grads[FAI_RNN_C] = b.carried[1];
    for (int i = 0; i < FAI_RNN_INPUTS; i++)
        if (grads[i]) fa_keep(grads[i]);
    return true;
}
