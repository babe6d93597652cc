/* LSTM, GRU and RNN, one layer in one direction: a node of its own for the fused forms (src/ops/recurrent.c), and the same
 * written step by step in operators. The second form is what derivatives of higher order go through, and what LSTM with a
 * projection is made of.
 *
 * All that comes out (outputs, last h, last c) is one vector with one node; callers get views of it. */
#include "recurrent.h"

/* ---- step by step ---- */

static fa_tensor *part_of(fa_tensor *gates, int i, int64_t hidden) { return fa_slice(gates, 1, i * hidden, (i + 1) * hidden, 1); }

/* c' = f c + i g; h' = o tanh(c') */
static fa_tensor *lstm_step(fa_tensor *sums, fa_tensor **c, int64_t n) {
    fa_tensor *kept = fa_mul(fa_sigmoid(part_of(sums, 1, n)), *c);
    fa_tensor *added = fa_mul(fa_sigmoid(part_of(sums, 0, n)), fa_tanh(part_of(sums, 2, n)));
    *c = fa_add(kept, added);
    return fa_mul(fa_sigmoid(part_of(sums, 3, n)), fa_tanh(*c));
}

/* h' = n + z (h - n) */
static fa_tensor *gru_step(fa_tensor *sums, fa_tensor *own, fa_tensor *h, int64_t n) {
    fa_tensor *r = fa_sigmoid(fa_add(part_of(sums, 0, n), part_of(own, 0, n)));
    fa_tensor *z = fa_sigmoid(fa_add(part_of(sums, 1, n), part_of(own, 1, n)));
    fa_tensor *c = fa_tanh(fa_add(part_of(sums, 2, n), fa_mul(r, part_of(own, 2, n))));
    return fa_add(c, fa_mul(z, fa_sub(h, c)));
}

typedef struct stepping {
    const fai_rnn *r;
    fa_tensor *sums, *w_hh, *b_hh, *projection;
    fa_tensor *h, *c; /* of all sequences */
} stepping;

/* The first rows of a state become new; those of sequences that are not in this step stay. */
static fa_tensor *with_rows(fa_tensor *state, fa_tensor *rows, int64_t n) {
    const int64_t batch = state ? state->size[0] : 0;
    return n == batch ? rows : fa_cat((fa_tensor *const[]){rows, fa_slice(state, 0, n, batch, 1)}, 2, 0);
}

static fa_tensor *first_rows(fa_tensor *state, int64_t n) { return n == state->size[0] ? state : fa_slice(state, 0, 0, n, 1); }

static fa_tensor *one_step(stepping *s, int64_t at, int64_t rows) {
    fa_tensor *sums = fa_slice(s->sums, 0, at, at + rows, 1), *h = first_rows(s->h, rows), *c = NULL, *y;
    fa_tensor *own = fa_linear(h, s->w_hh, s->b_hh);
    switch (s->r->mode) {
    case FAI_LSTM:
        c = first_rows(s->c, rows);
        y = lstm_step(fa_add(sums, own), &c, s->r->hidden);
        if (s->projection) y = fa_linear(y, s->projection, NULL);
        s->c = with_rows(s->c, c, rows);
        break;
    case FAI_GRU: y = gru_step(sums, own, h, s->r->hidden); break;
    case FAI_RNN_RELU: y = fa_relu(fa_add(sums, own)); break;
    default: y = fa_tanh(fa_add(sums, own));
    }
    s->h = with_rows(s->h, y, rows);
    return y;
}

static fa_tensor *flat(fa_tensor *t) { return fa_reshape(t, FA_SHAPE(-1)); }

static fa_tensor *zero_state(const fai_rnn *r, fa_tensor *like, int64_t size) {
    return fai_zeros_of(like, FA_SHAPE(r->batch, size));
}

/* The same vector as fai_rnn_forward gives. */
static fa_tensor *step_by_step(const fai_rnn *r, fa_tensor *const in[], fa_tensor *projection) {
    fa_tensor *x = in[FAI_RNN_X];
    stepping s = {r,
                  fa_linear(x, in[FAI_RNN_W_IH], in[FAI_RNN_B_IH]),
                  in[FAI_RNN_W_HH],
                  in[FAI_RNN_B_HH],
                  projection,
                  in[FAI_RNN_H],
                  in[FAI_RNN_C]};
    if (!s.h) s.h = zero_state(r, x, projection ? projection->size[0] : r->hidden);
    if (!s.c && r->mode == FAI_LSTM) s.c = zero_state(r, x, r->hidden);
    const size_t bytes = (size_t)r->steps * sizeof(fa_tensor *);
    fa_tensor **y = fai_calloc(FAI_TAG_OTHER, bytes), *outputs = NULL;
    if (!y) return fai_fail_memory("rnn", bytes);
    int64_t at = r->reverse ? r->rows : 0;
    bool ok = s.h != NULL && s.sums != NULL;
    for (int64_t p = 0; ok && p < r->steps; p++) {
        const int64_t t = r->reverse ? r->steps - 1 - p : p, rows = fai_rnn_size(r, t);
        if (r->reverse) at -= rows;
        ok = (y[t] = one_step(&s, at, rows)) != NULL && s.h && (r->mode != FAI_LSTM || s.c);
        if (!r->reverse) at += rows;
    }
    if (ok) outputs = fa_cat(y, (int)r->steps, 0);
    fai_free(FAI_TAG_OTHER, y, bytes);
    if (!outputs) return NULL;
    return fa_cat((fa_tensor *const[]){flat(outputs), flat(s.h), s.c ? flat(s.c) : NULL}, s.c ? 3 : 2, 0);
}

/* ---- the node ---- */

enum { KEPT = FAI_RNN_INPUTS }; /* inputs come first among what is kept */

/* Derivatives that can be differentiated: the vector is made again out of aliases of the inputs, so that what is asked for is the
 * derivative towards each of them alone, and the graph of it leads on to the inputs. */
static bool grads_by_steps(fai_node *node, const fai_rnn *r, fa_tensor *g, fa_tensor **grads) {
    fa_tensor *in[FAI_RNN_INPUTS] = {NULL}, *towards[FAI_RNN_INPUTS], *found[FAI_RNN_INPUTS] = {NULL};
    int which[FAI_RNN_INPUTS], n = 0;
    for (int i = 0; i < FAI_RNN_INPUTS; i++) {
        fa_tensor *t = fai_node_kept(node, i);
        if (!t && node->kept[i].tensor) return false;
        in[i] = t ? fa_alias(t) : NULL;
        if (t && !in[i]) return false;
        if (fai_node_needs(node, i)) towards[n] = in[i], which[n++] = i;
    }
    fa_tensor *again = step_by_step(r, in, NULL);
    if (!again || !fa_grad_of(&again, 1, towards, n, found, .grad_outputs = &g, .create_graph = true, .allow_unused = true))
        return false;
    for (int k = 0; k < n; k++) grads[which[k]] = found[k];
    return true;
}

static bool rnn_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    const fai_rnn *r = node->params;
    fa_tensor *in[FAI_RNN_INPUTS], *kept[FAI_RNN_KEPT];
    bool wanted[FAI_RNN_INPUTS];
    if (fai_recording()) return grads_by_steps(node, r, g, grads);
    for (int i = 0; i < FAI_RNN_INPUTS + FAI_RNN_KEPT; i++) {
        fa_tensor *t = fai_node_kept(node, i);
        if (!t && node->kept[i].tensor) return false;
        if (i < FAI_RNN_INPUTS)
            in[i] = t, wanted[i] = fai_node_needs(node, i);
        else
            kept[i - KEPT] = t;
    }
    return fai_rnn_grads(r, g, in, kept, wanted, grads);
}

static void rnn_release(fai_node *node) {
    fai_rnn *r = node->params;
    if (r->sizes) fai_free(FAI_TAG_GRAPH, (void *)(uintptr_t)r->sizes, (size_t)r->steps * sizeof *r->sizes);
    r->sizes = NULL;
}

static const fai_node_op rnn_ops[] = {
    [FAI_RNN_TANH] = {.name = "RnnTanh", .backward = rnn_backward, .release = rnn_release},
    [FAI_RNN_RELU] = {.name = "RnnRelu", .backward = rnn_backward, .release = rnn_release},
    [FAI_LSTM] = {.name = "Lstm", .backward = rnn_backward, .release = rnn_release},
    [FAI_GRU] = {.name = "Gru", .backward = rnn_backward, .release = rnn_release},
};

static fai_node *new_node(const fai_rnn *r, fa_tensor *const in[]) {
    fai_node *node = fai_node_new(&rnn_ops[r->mode], FAI_RNN_INPUTS, FAI_RNN_INPUTS + FAI_RNN_KEPT, sizeof *r);
    if (!node) return NULL;
    fai_rnn *own = node->params;
    *own = *r;
    own->sizes = NULL;
    bool ok = true;
    for (int i = 0; i < FAI_RNN_INPUTS; i++)
        ok = ok && fai_node_input(node, i, in[i], true) && fai_node_keep(node, i, in[i], false);
    const size_t bytes = (size_t)r->steps * sizeof *r->sizes;
    if (ok && r->sizes) {
        int64_t *sizes = fai_alloc(FAI_TAG_GRAPH, bytes);
        if (!sizes)
            fai_fail_memory("rnn", bytes);
        else
            own->sizes = memcpy(sizes, r->sizes, bytes);
        ok = sizes != NULL;
    }
    if (!ok) fai_node_unref(node);
    return ok ? node : NULL;
}

/* float32 or float64 */
static fa_tensor *recorded(const fai_rnn *r, fa_tensor *const in[]) {
    fai_node *node = NULL;
    fa_tensor *kept[FAI_RNN_KEPT] = {NULL};
    if (fai_recording() && fai_any_wants_grad(in, FAI_RNN_INPUTS) && !(node = new_node(r, in))) return NULL;
    fa_tensor *result = fai_rnn_forward(r, in, kept);
    if (!node) return result;
    if (!result) return fai_node_unref(node), NULL;
    if (!fai_node_keep(node, KEPT + FAI_RNN_RESULT, r->mode <= FAI_RNN_RELU ? result : NULL, true))
        return fai_node_unref(node), NULL;
    for (int i = FAI_RNN_GATES; i < FAI_RNN_KEPT; i++) fai_node_keep_hidden(node, KEPT + i, kept[i]);
    fai_node_finish(node, result);
    return result;
}

fai_rnn_out fai_rnn_layer(const fai_rnn *r, fa_tensor *const given[FAI_RNN_INPUTS], fa_tensor *projection) {
    fai_rnn_out out = {NULL, NULL, NULL};
    fa_tensor *in[FAI_RNN_INPUTS];
    const fa_dtype dtype = (fa_dtype)given[FAI_RNN_X]->dtype;
    const int64_t size = projection ? projection->size[0] : r->hidden;
    for (int i = 0; i < FAI_RNN_INPUTS; i++)
        if (!(in[i] = fai_widened(given[i])) && given[i]) return out;
    if (projection && !(projection = fai_widened(projection))) return out;
    fa_tensor *all = projection ? step_by_step(r, in, projection) : recorded(r, in);
    if (all && (fa_dtype)all->dtype != dtype) all = fa_to_dtype(all, dtype);
    if (!all) return out;
    const int64_t outputs = r->rows * size, states = outputs + r->batch * size;
    fa_tensor *y = fa_view(fa_slice(all, 0, 0, outputs, 1), FA_SHAPE(r->rows, size));
    out.h = fa_view(fa_slice(all, 0, outputs, states, 1), FA_SHAPE(r->batch, size));
    if (r->mode == FAI_LSTM) out.c = fa_view(fa_slice(all, 0, states, all->numel, 1), FA_SHAPE(r->batch, r->hidden));
    if (out.h && (r->mode != FAI_LSTM || out.c)) out.y = y;
    return out;
}
