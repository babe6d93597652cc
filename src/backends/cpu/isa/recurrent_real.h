/* The steps for one compute type; see recurrent.c. The loops take restricted pointers, so that the compiler may make vectors
 * of them. */

typedef struct N(step) {
    REAL *to[8];
    int64_t hidden;
    bool relu;
} N(step);

INLINE REAL N(gate)(REAL x) { return 1 / (1 + N(fa_exp)(-x)); }
static const REAL N(no_gradient)[256];

/* ---- LSTM ---- */

static void N(lstm_row)(int64_t n, REAL *restrict y, REAL *restrict next_h, REAL *restrict next_c, REAL *restrict gi,
                        REAL *restrict gf, REAL *restrict gg, REAL *restrict go, const REAL *restrict before) {
    for (int64_t k = 0; k < n; k++) {
        const REAL i = N(gate)(gi[k]), f = N(gate)(gf[k]), g = N(fa_tanh)(gg[k]), o = N(gate)(go[k]);
        const REAL c = f * before[k] + i * g, h = o * N(fa_tanh)(c);
        gi[k] = i, gf[k] = f, gg[k] = g, go[k] = o;
        y[k] = next_h[k] = h;
        next_c[k] = c;
    }
}

static void N(lstm_rows)(void *context, int64_t begin, int64_t end) {
    const N(step) *s = context;
    for (int64_t row = begin; row < end; row++) {
        const int64_t n = s->hidden, at = row * n;
        REAL *gates = s->to[3] + 4 * at;
        N(lstm_row)
        (n, s->to[0] + at, s->to[1] + at, s->to[2] + at, gates, gates + n, gates + 2 * n, gates + 3 * n, s->to[4] + at);
    }
}

static void N(lstm_row_backward)(int64_t n, REAL *restrict to, REAL *restrict dc, const REAL *restrict gates,
                                 const REAL *restrict before, const REAL *restrict gy, const REAL *restrict next,
                                 int64_t hidden) {
    REAL *restrict to_f = to + hidden, *restrict to_g = to + 2 * hidden, *restrict to_o = to + 3 * hidden;
    for (int64_t k = 0; k < n; k++) {
        const REAL i = gates[k], f = gates[k + hidden], g = gates[k + 2 * hidden], o = gates[k + 3 * hidden], c = before[k];
        const REAL t = N(fa_tanh)(f * c + i * g), dh = next[k] + gy[k], d = dc[k] + dh * o * (1 - t * t);
        to[k] = d * g * i * (1 - i);
        to_f[k] = d * c * f * (1 - f);
        to_g[k] = d * i * (1 - g * g);
        to_o[k] = dh * t * o * (1 - o);
        dc[k] = d * f;
    }
}

static void N(lstm_rows_backward)(void *context, int64_t begin, int64_t end) {
    const N(step) *s = context;
    for (int64_t row = begin; row < end; row++)
        for (int64_t k = 0; k < s->hidden; k += 256) { /* where there is no gradient of the output, 256 zeros stand for it */
            const int64_t n = least(256, s->hidden - k), at = row * s->hidden + k, wide = row * 4 * s->hidden + k;
            N(lstm_row_backward)
            (n, s->to[0] + wide, s->to[1] + at, s->to[2] + wide, s->to[3] + at, s->to[4] ? s->to[4] + at : N(no_gradient),
             s->to[5] + at, s->hidden);
        }
}

/* ---- GRU ---- */

static void N(gru_row)(int64_t n, REAL *restrict y, REAL *restrict next, REAL *restrict gr, REAL *restrict gz, REAL *restrict gn,
                       const REAL *restrict own, const REAL *restrict before) {
    for (int64_t k = 0; k < n; k++) {
        const REAL r = N(gate)(gr[k] + own[k]), z = N(gate)(gz[k] + own[k + n]), c = N(fa_tanh)(gn[k] + r * own[k + 2 * n]);
        gr[k] = r, gz[k] = z, gn[k] = c;
        y[k] = next[k] = c + z * (before[k] - c);
    }
}

static void N(gru_rows)(void *context, int64_t begin, int64_t end) {
    const N(step) *s = context;
    for (int64_t row = begin; row < end; row++) {
        const int64_t n = s->hidden, at = row * n;
        REAL *gates = s->to[2] + 3 * at;
        N(gru_row)(n, s->to[0] + at, s->to[1] + at, gates, gates + n, gates + 2 * n, s->to[3] + 3 * at, s->to[4] + at);
    }
}

static void N(gru_row_backward)(int64_t n, REAL *restrict to, REAL *restrict to_own, REAL *restrict carried,
                                const REAL *restrict gates, const REAL *restrict own, const REAL *restrict before,
                                const REAL *restrict gy, int64_t hidden) {
    REAL *restrict to_z = to + hidden, *restrict to_n = to + 2 * hidden;
    REAL *restrict own_z = to_own + hidden, *restrict own_n = to_own + 2 * hidden;
    for (int64_t k = 0; k < n; k++) {
        const REAL r = gates[k], z = gates[k + hidden], c = gates[k + 2 * hidden], dh = carried[k] + gy[k];
        const REAL dn = dh * (1 - z) * (1 - c * c), dz = dh * (before[k] - c) * z * (1 - z),
                   dr = dn * own[k + 2 * hidden] * r * (1 - r);
        to[k] = to_own[k] = dr;
        to_z[k] = own_z[k] = dz;
        to_n[k] = dn;
        own_n[k] = dn * r;
        carried[k] = dh * z;
    }
}

static void N(gru_rows_backward)(void *context, int64_t begin, int64_t end) {
    const N(step) *s = context;
    for (int64_t row = begin; row < end; row++)
        for (int64_t k = 0; k < s->hidden; k += 256) {
            const int64_t n = least(256, s->hidden - k), at = row * s->hidden + k, wide = row * 3 * s->hidden + k;
            N(gru_row_backward)
            (n, s->to[0] + wide, s->to[1] + wide, s->to[2] + at, s->to[3] + wide, s->to[4] + wide, s->to[5] + at,
             s->to[6] ? s->to[6] + at : N(no_gradient), s->hidden);
        }
}

/* ---- RNN ---- */

static void N(rnn_row)(int64_t n, REAL *restrict y, REAL *restrict next, const REAL *restrict x, bool relu) {
    if (relu)
        for (int64_t k = 0; k < n; k++) y[k] = next[k] = x[k] <= 0 ? 0 : x[k];
    else
        for (int64_t k = 0; k < n; k++) y[k] = next[k] = N(fa_tanh)(x[k]);
}

static void N(rnn_rows)(void *context, int64_t begin, int64_t end) {
    const N(step) *s = context;
    const int64_t at = begin * s->hidden;
    N(rnn_row)((end - begin) * s->hidden, s->to[0] + at, s->to[1] + at, s->to[2] + at, s->relu);
}

static void N(rnn_row_backward)(int64_t n, REAL *restrict to, const REAL *restrict y, const REAL *restrict gy,
                                const REAL *restrict next, bool relu) {
    if (relu)
        for (int64_t k = 0; k < n; k++) to[k] = y[k] > 0 ? next[k] + gy[k] : 0;
    else
        for (int64_t k = 0; k < n; k++) to[k] = (next[k] + gy[k]) * (1 - y[k] * y[k]);
}

static void N(rnn_rows_backward)(void *context, int64_t begin, int64_t end) {
    const N(step) *s = context;
    for (int64_t at = begin * s->hidden; at < end * s->hidden; at += 256) {
        const int64_t n = least(256, end * s->hidden - at);
        N(rnn_row_backward)(n, s->to[0] + at, s->to[1] + at, s->to[2] ? s->to[2] + at : N(no_gradient), s->to[3] + at, s->relu);
    }
}

/* ---- the kernels ---- */

static void N(run_step)(const fa_plan *plan, char *const *pointers, void (*rows)(void *, int64_t, int64_t)) {
    N(step) s = {.hidden = plan->n[1], .relu = plan->n[2] != 0};
    for (int k = 0; k < 8; k++) s.to[k] = plan->view[k].kind ? (REAL *)(void *)pointers[k] : NULL;
    fai_parallel(plan->n[0], rows_per_piece(8 * s.hidden), rows, &s);
}

void FAI_NAME(N(fai_cpu_lstm_step))(const fa_plan *plan, char *const *pointers) { N(run_step)(plan, pointers, N(lstm_rows)); }
void FAI_NAME(N(fai_cpu_lstm_step_backward))(const fa_plan *plan, char *const *pointers) {
    N(run_step)(plan, pointers, N(lstm_rows_backward));
}
void FAI_NAME(N(fai_cpu_gru_step))(const fa_plan *plan, char *const *pointers) { N(run_step)(plan, pointers, N(gru_rows)); }
void FAI_NAME(N(fai_cpu_gru_step_backward))(const fa_plan *plan, char *const *pointers) {
    N(run_step)(plan, pointers, N(gru_rows_backward));
}
void FAI_NAME(N(fai_cpu_rnn_step))(const fa_plan *plan, char *const *pointers) { N(run_step)(plan, pointers, N(rnn_rows)); }
void FAI_NAME(N(fai_cpu_rnn_step_backward))(const fa_plan *plan, char *const *pointers) {
    N(run_step)(plan, pointers, N(rnn_rows_backward));
}
