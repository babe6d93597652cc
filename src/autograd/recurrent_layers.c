/* fa_lstm, fa_gru, fa_rnn_tanh, fa_rnn_relu and the cells: layers one above the other, both directions, dropout between them. */
#include "autocast.h"
#include "recurrent.h"
#include <fa_recurrent.h>
#include <string.h>

typedef struct network {
    const char *op;
    fai_rnn_mode mode;
    const fa_rnn_options *o;
    fa_tensor *const *weights;
    int nweights, each, directions; /* each: weights of one layer in one direction */
    bool projected;
    fai_rnn shape; /* of every layer; hidden: the first weight's */
} network;

/* ---- checks ---- */

static bool weight_fits(const network *n, int layer, int k, const fa_tensor *x, int64_t rows, int64_t cols) {
    static const char *const names[] = {"w_ih", "w_hh", "b_ih", "b_hh"};
    const bool hr = n->projected && k == n->each - 1;
    const fa_tensor *w = n->weights[layer * n->each + k];
    char found[120];
    if (!w) return fai_check(n->op, "weights", NULL);
    if (w->dtype != x->dtype)
        return fai_fail(FA_ERR_VALUE, n->op,
                        "RNN input dtype (torch.%s) does not match weight dtype (torch.%s). Convert input: fa_cast(x, ...), or "
                        "convert model: "
                        "fa_module_to_dtype(net, ...)",
                        fa_dtype_name((fa_dtype)x->dtype), fa_dtype_name((fa_dtype)w->dtype));
    const int64_t wanted[2] = {rows, cols};
    const int ndim = !hr && k >= 2 ? 1 : 2;
    char needed[64];
    if (w->ndim == ndim && w->size[0] == rows && (ndim == 1 || w->size[1] == cols)) return true;
    fai_text_shape(found, sizeof found, w->ndim, w->size);
    fai_text_shape(needed, sizeof needed, ndim, wanted);
    return fai_fail(FA_ERR_RUNTIME, n->op, "%s of layer %d (weight %d of the list) has shape %s: %s is needed",
                    hr ? "w_hr" : names[k], layer / n->directions, layer * n->each + k, found, needed);
}

/* All weights of the list, in order. */
static bool weights_fit(network *n, fa_tensor *x) {
    const int64_t gates = fai_rnn_gates(n->mode), layers = n->o->num_layers * n->directions;
    const int plain = n->o->bias ? 4 : 2;
    n->each = layers > 0 ? (int)(n->nweights / layers) : 0;
    n->projected = n->mode == FAI_LSTM && n->each == plain + 1;
    if (n->o->num_layers < 1) return fai_fail(FA_ERR_VALUE, n->op, "num_layers must be greater than zero");
    if (!n->weights || n->nweights != n->each * layers || n->each != plain + n->projected)
        return fai_fail(
            FA_ERR_RUNTIME, n->op,
            "%d weights were given: each of %lld layers and directions has %d (w_ih, w_hh%s), LSTM with a projection one more",
            n->nweights, (long long)layers, plain, n->o->bias ? ", b_ih, b_hh" : "");
    const fa_tensor *first = n->weights[0];
    if (!first) return fai_check(n->op, "weights", NULL);
    if (first->ndim != 2 || first->size[0] % gates || first->size[0] == 0)
        return fai_fail(FA_ERR_RUNTIME, n->op, "the first weight must be a matrix with %lld times the hidden size as rows",
                        (long long)gates);
    n->shape.hidden = first->size[0] / gates;
    const int64_t h = n->shape.hidden, size = n->projected && n->weights[n->each - 1] ? n->weights[n->each - 1]->size[0] : h;
    for (int l = 0; l < layers; l++) {
        const int64_t input = l < n->directions ? x->size[x->ndim - 1] : size * n->directions;
        for (int k = 0; k < n->each; k++) {
            const bool hr = n->projected && k == n->each - 1;
            if (!weight_fits(n, l, k, x, hr ? size : gates * h, hr ? h : k == 0 ? input : size)) return false;
        }
    }
    return true;
}

/* torch's sentence, then every tensor that matters and the line that mends it. */
static bool refuse_device(const network *n, fa_tensor *x, const char *name, const char *kind, fa_tensor *t) {
    char sentence[300];
    const bool odd = !fai_on_cpu(x); /* the one on the CPU is the one that was forgotten */
    fa_tensor *const both[] = {x, t};
    snprintf(sentence, sizeof sentence,
             "Input and %s tensors are not at the same device, found input tensor at %s and %s tensor at %s. Expected all tensors to "
             "be on the same device.",
             kind, fa_device_text(x->device), kind, fa_device_text(t->device));
    return fai_fail_devices(n->op, sentence, 2, (const char *const[]){"x", name}, both, odd, both[!odd]->device);
}

static bool one_device(const network *n, fa_tensor *x) {
    static const char *const names[] = {"h0", "c0"};
    fa_tensor *const states[] = {n->o->h0, n->o->c0};
    for (int i = 0; i < n->nweights; i++)
        if (n->weights[i] && !fa_device_equal(n->weights[i]->device, x->device)) return refuse_device(n, x, "weights", "parameter", n->weights[i]);
    for (int i = 0; i < 2; i++)
        if (states[i] && !fa_device_equal(states[i]->device, x->device)) return refuse_device(n, x, names[i], "hidden", states[i]);
    return true;
}

static bool state_fits(const network *n, const char *name, const fa_tensor *state, const fa_tensor *x, int64_t size) {
    const int64_t layers = n->o->num_layers * n->directions;
    char found[120];
    if (!state) return true;
    fai_text_shape(found, sizeof found, state->ndim, state->size);
    if (state->ndim != 3 || state->size[0] != layers || state->size[1] != n->shape.batch || state->size[2] != size)
        return fai_fail(FA_ERR_RUNTIME, n->op, "Expected %s size (%lld, %lld, %lld), got %s", name, (long long)layers,
                        (long long)n->shape.batch, (long long)size, found);
    if (state->dtype != x->dtype)
        return fai_fail(FA_ERR_RUNTIME, n->op, "%s is of type %s, the input of type %s: they must be the same", name,
                        fa_dtype_name((fa_dtype)state->dtype), fa_dtype_name((fa_dtype)x->dtype));
    return true;
}

static bool packed_shape(network *n, fa_tensor *x) {
    const fa_tensor *sizes = n->o->batch_sizes;
    fai_rnn *r = &n->shape;
    if (sizes->dtype != FA_INT64 || sizes->ndim != 1 || !fai_on_cpu(sizes) || !FAI_HAS(sizes, FAI_CONTIGUOUS) ||
        sizes->numel == 0)
        return fai_fail(
            FA_ERR_RUNTIME, n->op,
            "batch_sizes should be a 1D CPU int64 tensor with an element for each step; fa_pack_padded_sequence makes it");
    r->sizes = fai_host(sizes);
    r->steps = sizes->numel, r->batch = r->sizes[0], r->rows = 0;
    for (int64_t t = 0; t < r->steps; t++) {
        if (r->sizes[t] < 1 || (t && r->sizes[t] > r->sizes[t - 1]))
            return fai_fail(FA_ERR_VALUE, n->op, "batch_sizes[%lld] is %lld: they are 1 or more and never grow", (long long)t,
                            (long long)r->sizes[t]);
        r->rows += r->sizes[t];
    }
    if (x->ndim != 2 || x->size[0] != r->rows)
        return fai_fail(FA_ERR_RUNTIME, n->op, "the data of a packed sequence must be [%lld, n], as the sum of batch_sizes says",
                        (long long)r->rows);
    if (r->sizes[r->steps - 1] == r->batch) r->sizes = NULL; /* all of one length */
    return true;
}

static bool shape_of(network *n, fa_tensor *x) {
    fai_rnn *r = &n->shape;
    r->mode = n->mode;
    if (n->o->batch_sizes) return packed_shape(n, x);
    if (x->ndim != 3) return fai_fail(FA_ERR_RUNTIME, n->op, "input must have 3 dimensions, got %d", x->ndim);
    r->batch = x->size[n->o->batch_first ? 0 : 1];
    r->steps = x->size[n->o->batch_first ? 1 : 0];
    r->rows = r->batch * r->steps;
    return r->steps > 0 || fai_fail(FA_ERR_RUNTIME, n->op, "Expected sequence length to be larger than 0 in RNN");
}

static bool check_network(network *n, fa_tensor *x) {
    if (!fai_options_ok(n->op, n->o->struct_size, sizeof *n->o) || !fai_begin1(n->op, "x", x)) return false;
    if (!fai_check_dtype(n->op, "x", x, fai_is_float(x->dtype), "floating")) return false;
    if (!(n->o->dropout >= 0 && n->o->dropout <= 1))
        return fai_fail(FA_ERR_VALUE, n->op, "dropout probability has to be between 0 and 1, but got %g", n->o->dropout);
    if (!shape_of(n, x) || !weights_fit(n, x) || !one_device(n, x)) return false;
    const fa_tensor *hr = n->projected ? n->weights[n->each - 1] : NULL;
    const bool lstm = n->mode == FAI_LSTM;
    if (n->o->c0 && !lstm) return fai_fail(FA_ERR_VALUE, n->op, "c0 was given, but only LSTM has a cell state");
    return state_fits(n, lstm ? "hidden[0]" : "hidden", n->o->h0, x, hr ? hr->size[0] : n->shape.hidden) &&
           state_fits(n, "hidden[1]", n->o->c0, x, n->shape.hidden);
}

/* ---- layers ---- */

static bool run_direction(const network *n, int layer, int direction, fa_tensor *x, fai_rnn_out *out) {
    const int at = layer * n->directions + direction;
    fa_tensor *const *w = n->weights + at * n->each, *in[FAI_RNN_INPUTS] = {x};
    fai_rnn r = n->shape;
    r.reverse = direction == 1;
    if (n->o->h0 && !(in[FAI_RNN_H] = fa_select(n->o->h0, 0, at))) return false;
    if (n->o->c0 && !(in[FAI_RNN_C] = fa_select(n->o->c0, 0, at))) return false;
    in[FAI_RNN_W_IH] = w[0], in[FAI_RNN_W_HH] = w[1];
    if (n->o->bias) in[FAI_RNN_B_IH] = w[2], in[FAI_RNN_B_HH] = w[3];
    *out = fai_rnn_layer(&r, in, n->projected ? w[n->each - 1] : NULL);
    return out->y != NULL;
}

/* Outputs of all layers' last steps as one tensor. */
static bool give_states(fa_tensor **states, int n, fa_tensor **to) {
    if (!to) return true;
    *to = n == 1 ? fa_unsqueeze(states[0], 0) : fa_stack(states, n, 0);
    return fa_keep(*to) != NULL;
}

static fa_tensor *run_layers(const network *n, fa_tensor *x, fa_tensor **h, fa_tensor **c) {
    for (int l = 0; l < n->o->num_layers; l++) {
        fa_tensor *y[2];
        if (l > 0 && !(x = fa_dropout(x, n->o->dropout, n->o->training))) return NULL;
        for (int d = 0; d < n->directions; d++) {
            fai_rnn_out out;
            if (!run_direction(n, l, d, x, &out)) return NULL;
            y[d] = out.y, h[l * n->directions + d] = out.h, c[l * n->directions + d] = out.c;
        }
        x = n->directions == 1 ? y[0] : fa_cat(y, 2, 1);
        if (!x) return NULL;
    }
    return x;
}

static fa_tensor *in_time(const network *n, fa_tensor *x) {
    if (n->o->batch_sizes) return x;
    if (n->o->batch_first) x = fa_contiguous(fa_transpose(x, 0, 1));
    return x ? fa_reshape(x, FA_SHAPE(n->shape.rows, x->size[2])) : NULL;
}

static fa_tensor *out_of_time(const network *n, fa_tensor *y) {
    if (!y || n->o->batch_sizes) return y;
    y = fa_view(y, FA_SHAPE(n->shape.steps, n->shape.batch, y->size[1]));
    return n->o->batch_first ? fa_transpose(y, 0, 1) : y;
}

static fa_tensor *run_network(const char *op, fai_rnn_mode mode, fa_tensor *x, fa_tensor *const *weights, int nweights,
                              const fa_rnn_options *options) {
    const fa_rnn_options defaults = {.struct_size = sizeof defaults, FA_RNN_DEFAULTS};
    network n = {.op = op, .mode = mode, .o = options ? options : &defaults, .weights = weights, .nweights = nweights};
    FAI_CALLED(op);
    n.directions = n.o->bidirectional ? 2 : 1;
    if (!check_network(&n, x)) return NULL;
    FA_SCOPE;
    const int states = (int)n.o->num_layers * n.directions;
    const size_t bytes = 2 * (size_t)states * sizeof(fa_tensor *);
    fa_tensor **last = fai_calloc(FAI_TAG_OTHER, bytes);
    if (!last) return fai_fail_memory(op, bytes);
    fa_tensor *y = in_time(&n, x);
    if (y) y = out_of_time(&n, run_layers(&n, y, last, last + states));
    const bool ok =
        y && give_states(last, states, n.o->h_n) && (mode != FAI_LSTM || give_states(last + states, states, n.o->c_n));
    fai_free(FAI_TAG_OTHER, last, bytes);
    return ok ? fai_return(y) : NULL;
}

/* What src/ops/autocast.tab can't say: in torch, recurrent networks compute in the lower precision. On the CPU a GRU and the cells are made
 * of products in the lower precision and of sums with the state, whose type is the one that both promote to; here all is computed in that. */
static uint8_t casts_by_state(const fa_tensor *state) {
    const bool low = state && state->dtype == fa_autocast_dtype(FA_CPU);
    return FAI_CASTS(low ? FAI_CAST_LOWER : FAI_CAST_FLOAT32, FAI_CAST_LOWER);
}

/* Under autocast: input, states and weights as one list that is cast, and the states handed through with the result. */
static fa_tensor *run_cast(const char *op, fai_rnn_mode mode, fa_tensor *x, fa_tensor *const *weights, int nweights,
                           const fa_rnn_options *options) {
    const fa_rnn_options defaults = {.struct_size = sizeof defaults, FA_RNN_DEFAULTS};
    if (FAI_LIKELY(!fai_tls.autocast) || nweights < 0 || !weights) return run_network(op, mode, x, weights, nweights, options);
    fa_rnn_options o = options ? *options : defaults;
    const size_t bytes = ((size_t)nweights + 3) * sizeof(fa_tensor *);
    fa_tensor **all = fai_alloc(FAI_TAG_OTHER, bytes), *const *cast = all;
    if (!all) return fai_fail_memory(op, bytes);
    all[0] = x, all[1] = o.h0, all[2] = o.c0;
    memcpy(all + 3, weights, (size_t)nweights * sizeof *all);
    fai_casting c;
    fa_tensor *y = NULL;
    if (fai_cast_begin_list(&c, op, mode == FAI_GRU ? casts_by_state(o.h0 ? o.h0 : x) : FAI_CASTS(FAI_CAST_LOWER, FAI_CAST_LOWER), &cast, nweights + 3)) {
        o.h0 = cast[1], o.c0 = cast[2];
        y = run_network(op, mode, cast[0], cast + 3, nweights, &o);
    }
    if (y && c.scoped && ((o.h_n && !fa_keep(*o.h_n)) || (mode == FAI_LSTM && o.c_n && !fa_keep(*o.c_n)))) y = NULL;
    fai_free(FAI_TAG_OTHER, all, bytes);
    return fai_cast_end(&c, y);
}

fa_tensor *fa_lstm_with(fa_tensor *x, fa_tensor *const *weights, int nweights, const fa_rnn_options *options) {
    return run_cast("lstm", FAI_LSTM, x, weights, nweights, options);
}
fa_tensor *fa_gru_with(fa_tensor *x, fa_tensor *const *weights, int nweights, const fa_rnn_options *options) {
    return run_cast("gru", FAI_GRU, x, weights, nweights, options);
}
fa_tensor *fa_rnn_tanh_with(fa_tensor *x, fa_tensor *const *weights, int nweights, const fa_rnn_options *options) {
    return run_cast("rnn_tanh", FAI_RNN_TANH, x, weights, nweights, options);
}
fa_tensor *fa_rnn_relu_with(fa_tensor *x, fa_tensor *const *weights, int nweights, const fa_rnn_options *options) {
    return run_cast("rnn_relu", FAI_RNN_RELU, x, weights, nweights, options);
}

/* ---- cells: one step of one layer ---- */

static bool cell_fits(const char *op, fai_rnn_mode mode, fa_tensor *const in[], int64_t *hidden) {
    static const char *const names[] = {"x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh"};
    const uint32_t optional = (mode == FAI_LSTM ? 0u : 1u << FAI_RNN_C) | 1u << FAI_RNN_B_IH | 1u << FAI_RNN_B_HH;
    const int64_t gates = fai_rnn_gates(mode);
    if (!fai_op_begin(op, FAI_RNN_INPUTS, names, in, optional)) return false;
    for (int i = 0; i < FAI_RNN_INPUTS; i++) {
        const int ndim = i >= FAI_RNN_B_IH ? 1 : 2;
        if (!in[i]) continue;
        if (in[i]->ndim != ndim)
            return fai_fail(FA_ERR_RUNTIME, op, "%s must have %d dimensions, but has %d", names[i], ndim, in[i]->ndim);
        if (!fai_is_float(in[i]->dtype) || in[i]->dtype != in[0]->dtype)
            return fai_fail(FA_ERR_RUNTIME, op, "x and %s must have the same floating dtype, but got %s and %s", names[i],
                            fai_dtype_title((fa_dtype)in[0]->dtype), fai_dtype_title((fa_dtype)in[i]->dtype));
    }
    const fa_tensor *x = in[FAI_RNN_X], *w_ih = in[FAI_RNN_W_IH], *w_hh = in[FAI_RNN_W_HH];
    const int64_t h = *hidden = w_hh->size[1];
    if (x->size[1] != w_ih->size[1])
        return fai_fail(FA_ERR_RUNTIME, op, "input has inconsistent input_size: got %lld expected %lld", (long long)x->size[1],
                        (long long)w_ih->size[1]);
    for (int i = FAI_RNN_H; i <= FAI_RNN_C; i++) {
        if (!in[i]) continue;
        if (in[i]->size[0] != x->size[0])
            return fai_fail(FA_ERR_RUNTIME, op, "Input batch size %lld doesn't match hidden%d batch size %lld",
                            (long long)x->size[0], i - FAI_RNN_H, (long long)in[i]->size[0]);
        if (in[i]->size[1] != h)
            return fai_fail(FA_ERR_RUNTIME, op, "hidden%d has inconsistent hidden_size: got %lld, expected %lld", i - FAI_RNN_H,
                            (long long)in[i]->size[1], (long long)h);
    }
    for (int i = FAI_RNN_W_IH; i < FAI_RNN_INPUTS; i++)
        if (in[i] && in[i]->size[0] != gates * h)
            return fai_fail(FA_ERR_RUNTIME, op, "%s has %lld rows: %lld times the hidden size of %lld are needed", names[i],
                            (long long)in[i]->size[0], (long long)gates, (long long)h);
    if (!in[FAI_RNN_B_IH] != !in[FAI_RNN_B_HH])
        return fai_fail(FA_ERR_RUNTIME, op, "one of the biases is NULL: give both or none");
    return true;
}

static fa_tensor *compute_cell(const char *op, fai_rnn_mode mode, fa_tensor *const in[], fa_tensor **next_c) {
    fai_rnn r = {.mode = mode, .steps = 1};
    FAI_CALLED(op);
    if (!cell_fits(op, mode, in, &r.hidden)) return NULL;
    FA_SCOPE;
    r.batch = r.rows = in[FAI_RNN_X]->size[0];
    const fai_rnn_out out = fai_rnn_layer(&r, in, NULL);
    if (!out.y) return NULL;
    if (next_c) *next_c = fa_keep(out.c);
    return fa_keep(out.h);
}

static fa_tensor *run_cell(const char *op, fai_rnn_mode mode, fa_tensor *const in[], fa_tensor **next_c) {
    if (FAI_LIKELY(!fai_tls.autocast)) return compute_cell(op, mode, in, next_c);
    fa_tensor *cast[FAI_RNN_INPUTS];
    memcpy(cast, in, sizeof cast);
    fai_casting c;
    const fa_tensor *state = in[mode == FAI_LSTM ? FAI_RNN_C : FAI_RNN_H];
    const uint8_t casts = mode == FAI_LSTM || mode == FAI_GRU ? casts_by_state(state) : FAI_CASTS(FAI_CAST_LOWER, FAI_CAST_LOWER);
    fa_tensor *h = fai_cast_begin(&c, op, casts, cast, FAI_RNN_INPUTS) ? compute_cell(op, mode, cast, next_c) : NULL;
    if (h && c.scoped && next_c && !fa_keep(*next_c)) h = NULL;
    return fai_cast_end(&c, h);
}

fa_tensor *fa_lstm_cell(fa_tensor *x, fa_tensor *h, fa_tensor *c, fa_tensor *w_ih, fa_tensor *w_hh, fa_tensor *b_ih,
                        fa_tensor *b_hh, fa_tensor **next_c) {
    return run_cell("lstm_cell", FAI_LSTM, (fa_tensor *const[]){x, h, c, w_ih, w_hh, b_ih, b_hh}, next_c);
}
fa_tensor *fa_gru_cell(fa_tensor *x, fa_tensor *h, fa_tensor *w_ih, fa_tensor *w_hh, fa_tensor *b_ih, fa_tensor *b_hh) {
    return run_cell("gru_cell", FAI_GRU, (fa_tensor *const[]){x, h, NULL, w_ih, w_hh, b_ih, b_hh}, NULL);
}
fa_tensor *fa_rnn_tanh_cell(fa_tensor *x, fa_tensor *h, fa_tensor *w_ih, fa_tensor *w_hh, fa_tensor *b_ih, fa_tensor *b_hh) {
    return run_cell("rnn_tanh_cell", FAI_RNN_TANH, (fa_tensor *const[]){x, h, NULL, w_ih, w_hh, b_ih, b_hh}, NULL);
}
fa_tensor *fa_rnn_relu_cell(fa_tensor *x, fa_tensor *h, fa_tensor *w_ih, fa_tensor *w_hh, fa_tensor *b_ih, fa_tensor *b_hh) {
    return run_cell("rnn_relu_cell", FAI_RNN_RELU, (fa_tensor *const[]){x, h, NULL, w_ih, w_hh, b_ih, b_hh}, NULL);
}
