/* The modules LSTM, GRU, RNN and their cells: parameters by torch's names and draws, and calls with all results. */
#include "../autograd/generated.h"
#include "module.h"
#include "../ops/random.h"
#include "../ops/recurrent.h"
#include <fa_recurrent.h>
#include <math.h>
#include <string.h>

typedef struct layer {
    fai_rnn_mode mode;
    int64_t input, hidden, layers, projection;
    bool bias, batch_first, bidirectional, relu;
    double dropout;
} layer;

static int directions(const layer *a) { return a->bidirectional ? 2 : 1; }
static int64_t out_size(const layer *a) { return a->projection ? a->projection : a->hidden; }
static bool is_lstm(const layer *a) { return a->mode == FAI_LSTM; }

/* ---- making them ---- */

/* torch draws all parameters alike, whatever they are. */
static bool add_drawn(fa_module *m, const char *name, int ndim, int64_t rows, int64_t cols, int64_t hidden) {
    const double bound = 1 / sqrt((double)hidden);
    return fai_layer_parameter(m, name, true, ndim, (const int64_t[]){rows, cols}, "zeros", -1) &&
           fai_fill_uniform(m->type->name, m->entries[m->nentries - 1].object, -bound, bound, NULL);
}

static bool add_layer(fa_module *m, const layer *a, int64_t l, int direction) {
    const int64_t rows = fai_rnn_gates(a->mode) * a->hidden, size = out_size(a), input = l ? size * directions(a) : a->input;
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"};
    for (int k = 0; k < 5; k++) {
        char name[64];
        if ((k == 2 || k == 3) ? !a->bias : k == 4 && !a->projection) continue;
        snprintf(name, sizeof name, "%s_l%lld%s", names[k], (long long)l, direction ? "_reverse" : "");
        const bool ok = k == 4 ? add_drawn(m, name, 2, size, a->hidden, a->hidden)
                               : add_drawn(m, name, k < 2 ? 2 : 1, rows, k ? size : input, a->hidden);
        if (!ok) return false;
    }
    return true;
}

static bool sizes_ok(const char *name, const layer *a) {
    if (!(a->dropout >= 0 && a->dropout <= 1))
        return fai_layer_refuse(
            name, "dropout should be a number in range [0, 1] representing the probability of an element being zeroed: found %g",
            a->dropout);
    if (a->dropout > 0 && a->layers == 1)
        fai_warn(name,
                 "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater "
                 "than 1, but got dropout=%g and num_layers=1",
                 a->dropout);
    if (a->input <= 0) return fai_layer_refuse(name, "input_size must be greater than zero: found %lld", (long long)a->input);
    if (a->hidden <= 0) return fai_layer_refuse(name, "hidden_size must be greater than zero: found %lld", (long long)a->hidden);
    if (a->layers <= 0) return fai_layer_refuse(name, "num_layers must be greater than zero: found %lld", (long long)a->layers);
    if (a->projection && !is_lstm(a))
        return fai_layer_refuse(name, "proj_size argument is only supported for LSTM, not RNN or GRU");
    if (a->projection < 0)
        return fai_layer_refuse(name, "proj_size should be a positive integer or zero to disable projections: found %lld",
                                (long long)a->projection);
    if (a->projection >= a->hidden)
        return fai_layer_refuse(name, "proj_size has to be smaller than hidden_size: found %lld and %lld",
                                (long long)a->projection, (long long)a->hidden);
    return true;
}

static bool is_relu(const char *name, const char *nonlinearity, bool *relu) {
    *relu = nonlinearity && strcmp(nonlinearity, "relu") == 0;
    return !nonlinearity || *relu || strcmp(nonlinearity, "tanh") == 0 ||
           fai_layer_refuse(name, "Unknown nonlinearity '%s'. Select from 'tanh' or 'relu'.", nonlinearity);
}

static fa_tensor *network_forward(fa_module *m, fa_tensor *const *inputs, int ninputs);
static void describe_network(const fa_module *m, char *text, size_t n);
static const fa_module_type types[] = {
    [FAI_RNN_TANH] = {.name = "RNN", .forward = network_forward, .describe = describe_network},
    [FAI_LSTM] = {.name = "LSTM", .forward = network_forward, .describe = describe_network},
    [FAI_GRU] = {.name = "GRU", .forward = network_forward, .describe = describe_network},
};

static fa_module *make_network(fai_rnn_mode mode, int64_t input, int64_t hidden, const fa_nn_rnn_options *options) {
    const fa_nn_rnn_options defaults = {.struct_size = sizeof defaults, FA_NN_RNN_DEFAULTS}, *o = options ? options : &defaults;
    const fa_module_type *type = &types[mode];
    if (!fai_options_ok(type->name, o->struct_size, sizeof *o)) return NULL;
    layer a = {mode, input, hidden, o->num_layers, o->proj_size, o->bias, o->batch_first, o->bidirectional, false, o->dropout};
    if (!is_relu(type->name, mode == FAI_RNN_TANH ? o->nonlinearity : NULL, &a.relu) || !sizes_ok(type->name, &a)) return NULL;
    if (a.relu) a.mode = FAI_RNN_RELU;
    fa_module *m = fai_module_make(type, sizeof a);
    if (!m) return NULL;
    *(layer *)m->data = a;
    bool ok = true;
    for (int64_t l = 0; ok && l < a.layers; l++)
        for (int d = 0; ok && d < directions(&a); d++) ok = add_layer(m, &a, l, d);
    return fai_layer_done(m, ok);
}

fa_module *fa_nn_lstm_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_options *options) {
    return make_network(FAI_LSTM, input_size, hidden_size, options);
}
fa_module *fa_nn_gru_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_options *options) {
    return make_network(FAI_GRU, input_size, hidden_size, options);
}
fa_module *fa_nn_rnn_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_options *options) {
    return make_network(FAI_RNN_TANH, input_size, hidden_size, options);
}

static void describe_network(const fa_module *m, char *text, size_t n) {
    const layer *a = m->data;
    char dropout[32];
    snprintf(text, n, "%lld, %lld", (long long)a->input, (long long)a->hidden);
    if (a->projection) fai_layer_describe(text, n, ", proj_size=%lld", (long long)a->projection);
    if (a->layers != 1) fai_layer_describe(text, n, ", num_layers=%lld", (long long)a->layers);
    if (!a->bias) fai_layer_describe(text, n, ", bias=False");
    if (a->batch_first) fai_layer_describe(text, n, ", batch_first=True");
    fai_text_float(dropout, sizeof dropout, a->dropout);
    if (a->dropout != 0) fai_layer_describe(text, n, ", dropout=%s", dropout);
    if (a->bidirectional) fai_layer_describe(text, n, ", bidirectional=True");
}

/* ---- calling them ---- */

static const char *network_name(const fa_module *m) { return m->type->name; }

static bool is_network(const fa_module *m, const char *op) {
    if (!fai_module_check(op, m)) return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (m->type == &types[i]) return true;
    return fai_fail(FA_ERR_TYPE, op, "argument 'module' is a %s: LSTM, GRU or RNN is needed", m->type->name);
}

/* torch's sentences about dimensions; what is deeper fa_lstm and its kind check. */
static bool dimensions_ok(const fa_module *m, const fa_tensor *x, const fa_tensor *h0, const fa_tensor *c0) {
    const layer *a = m->data;
    const char *name = network_name(m);
    const bool batched = x->ndim == 3;
    if (x->ndim != 2 && x->ndim != 3)
        return fai_fail(FA_ERR_VALUE, name, "%s: Expected input to be 2D or 3D, got %dD %sinstead", name, x->ndim,
                        m->type == &types[FAI_RNN_TANH] ? "tensor " : "");
    if (is_lstm(a) && ((h0 && h0->ndim != x->ndim) || (c0 && c0->ndim != x->ndim)))
        return fai_fail(FA_ERR_RUNTIME, name, "For %s input, hx and cx should also be %d-D but got (%d-D, %d-D) tensors",
                        batched ? "batched 3-D" : "unbatched 2-D", x->ndim, h0 ? h0->ndim : x->ndim, c0 ? c0->ndim : x->ndim);
    if (!is_lstm(a) && h0 && h0->ndim != x->ndim)
        return fai_fail(FA_ERR_RUNTIME, name, "For %s input, hx should also be %d-D but got %d-D tensor",
                        batched ? "batched 3-D" : "unbatched 2-D", x->ndim, h0->ndim);
    return true;
}

static bool input_ok(const fa_module *m, const fa_tensor *x) {
    const layer *a = m->data;
    const fa_tensor *w = fai_slot(m, 0);
    if (w && x->dtype != w->dtype)
        return fai_fail(FA_ERR_VALUE, network_name(m),
                        "RNN input dtype (torch.%s) does not match weight dtype (torch.%s). Convert input: input.to(torch.%s), "
                        "or convert model: "
                        "model.to(torch.%s). In C: fa_cast(x, ...), fa_module_to_dtype(net, ...)",
                        fa_dtype_name((fa_dtype)x->dtype), fa_dtype_name((fa_dtype)w->dtype), fa_dtype_name((fa_dtype)w->dtype),
                        fa_dtype_name((fa_dtype)x->dtype));
    return x->size[x->ndim - 1] == a->input ||
           fai_fail(FA_ERR_RUNTIME, network_name(m), "input.size(-1) must be equal to input_size. Expected %lld, got %lld",
                    (long long)a->input, (long long)x->size[x->ndim - 1]);
}

static fa_tensor *run_network(fa_module *m, fa_tensor *x, const fa_rnn_options *options) {
    static fa_tensor *(*const run[])(fa_tensor *, fa_tensor *const *, int, const fa_rnn_options *) = {
        [FAI_RNN_TANH] = fa_rnn_tanh_with, [FAI_RNN_RELU] = fa_rnn_relu_with, [FAI_LSTM] = fa_lstm_with, [FAI_GRU] = fa_gru_with};
    const layer *a = m->data;
    fa_rnn_options o = *options;
    const size_t bytes = (size_t)m->nentries * sizeof(fa_tensor *);
    fa_tensor **weights = fai_alloc(FAI_TAG_OTHER, bytes);
    if (!weights) return fai_fail_memory(network_name(m), bytes);
    for (int i = 0; i < m->nentries; i++) weights[i] = fai_slot(m, i);
    o.num_layers = a->layers, o.bias = a->bias, o.bidirectional = a->bidirectional, o.training = m->training,
    o.dropout = a->dropout;
    o.batch_first = a->batch_first && !o.batch_sizes;
    FAI_CALLED(network_name(m));
    fa_tensor *y = run[a->mode](x, weights, m->nentries, &o);
    fai_free(FAI_TAG_OTHER, weights, bytes);
    return y;
}

/* A dimension of one sequence put in or taken away. */
static bool squeeze_results(fa_tensor **y, int dim, fa_tensor **h_n, fa_tensor **c_n) {
    *y = fa_squeeze_dim(*y, dim);
    if (h_n) *h_n = fa_squeeze_dim(*h_n, 1);
    if (c_n) *c_n = fa_squeeze_dim(*c_n, 1);
    return *y != NULL;
}

fa_tensor *fa_rnn_call(fa_module *m, fa_tensor *x, fa_tensor *h0, fa_tensor *c0, fa_tensor **h_n, fa_tensor **c_n) {
    if (!is_network(m, "rnn_call") || !fai_check(network_name(m), "x", x)) return NULL;
    const layer *a = m->data;
    if (!dimensions_ok(m, x, h0, c0) || !input_ok(m, x)) return NULL;
    if (!is_lstm(a)) c_n = NULL;
    FA_SCOPE;
    const bool single = x->ndim == 2;
    const int dim = a->batch_first ? 0 : 1;
    if (single) {
        x = fa_unsqueeze(x, dim);
        if (h0 && !(h0 = fa_unsqueeze(h0, 1))) return NULL;
        if (c0 && !(c0 = fa_unsqueeze(c0, 1))) return NULL;
    }
    fa_tensor *y =
        run_network(m, x, &(fa_rnn_options){.struct_size = sizeof(fa_rnn_options), .h0 = h0, .c0 = c0, .h_n = h_n, .c_n = c_n});
    if (!y || (single && !squeeze_results(&y, dim, h_n, c_n))) return NULL;
    if (h_n) fa_keep(*h_n);
    if (c_n) fa_keep(*c_n);
    return fa_keep(y);
}

static fa_tensor *network_forward(fa_module *m, fa_tensor *const *inputs, int ninputs) {
    const int most = is_lstm(m->data) ? 3 : 2;
    if (ninputs < 1 || ninputs > most)
        return fai_fail(FA_ERR_TYPE, network_name(m), "%s.forward() takes the input and %d states, but %d tensors were given",
                        network_name(m), most - 1, ninputs);
    return fa_rnn_call(m, inputs[0], ninputs > 1 ? inputs[1] : NULL, ninputs > 2 ? inputs[2] : NULL, NULL, NULL);
}

/* States in the order of a packed sequence, or back. */
static bool reorder(fa_tensor **state, fa_tensor *order) {
    if (*state && order) *state = fa_index_select(*state, 1, order);
    return !order || *state || !fa_failed();
}

bool fa_rnn_call_packed(fa_module *m, const fa_packed *x, fa_tensor *h0, fa_tensor *c0, fa_packed *y, fa_tensor **h_n,
                        fa_tensor **c_n) {
    if (!is_network(m, "rnn_call_packed")) return false;
    const char *name = network_name(m);
    if (!x || !y) return fai_fail(FA_ERR_TYPE, name, "argument '%s' is NULL: a packed sequence is needed", x ? "y" : "x");
    if (!fai_check(name, "x.data", x->data) || !fai_check(name, "x.batch_sizes", x->batch_sizes)) return false;
    if (x->data->ndim < 1 || !input_ok(m, x->data)) return false;
    if (!is_lstm(m->data)) c_n = NULL;
    FA_SCOPE;
    if (!reorder(&h0, x->sorted_indices) || !reorder(&c0, x->sorted_indices)) return false;
    fa_tensor *data = run_network(
        m, x->data,
        &(fa_rnn_options){
            .struct_size = sizeof(fa_rnn_options), .h0 = h0, .c0 = c0, .batch_sizes = x->batch_sizes, .h_n = h_n, .c_n = c_n});
    if (!data || (h_n && !reorder(h_n, x->unsorted_indices)) || (c_n && !reorder(c_n, x->unsorted_indices))) return false;
    if (h_n) fa_keep(*h_n);
    if (c_n) fa_keep(*c_n);
    *y = *x;
    y->data = fa_keep(data);
    return true;
}

/* ---- cells ---- */

static fa_tensor *cell_forward(fa_module *m, fa_tensor *const *inputs, int ninputs);
static void describe_cell(const fa_module *m, char *text, size_t n);
static const fa_module_type cell_types[] = {
    [FAI_RNN_TANH] = {.name = "RNNCell", .forward = cell_forward, .describe = describe_cell},
    [FAI_LSTM] = {.name = "LSTMCell", .forward = cell_forward, .describe = describe_cell},
    [FAI_GRU] = {.name = "GRUCell", .forward = cell_forward, .describe = describe_cell},
};

static fa_module *make_cell(fai_rnn_mode mode, int64_t input, int64_t hidden, const fa_nn_rnn_cell_options *options) {
    const fa_nn_rnn_cell_options defaults = {.struct_size = sizeof defaults, .bias = true}, *o = options ? options : &defaults;
    const fa_module_type *type = &cell_types[mode];
    if (!fai_options_ok(type->name, o->struct_size, sizeof *o)) return NULL;
    layer a = {.mode = mode, .input = input, .hidden = hidden, .layers = 1, .bias = o->bias};
    const int64_t rows = fai_rnn_gates(mode) * hidden;
    if (!is_relu(type->name, mode == FAI_RNN_TANH ? o->nonlinearity : NULL, &a.relu) || !sizes_ok(type->name, &a)) return NULL;
    if (a.relu) a.mode = FAI_RNN_RELU;
    fa_module *m = fai_module_make(type, sizeof a);
    if (!m) return NULL;
    *(layer *)m->data = a;
    bool ok = add_drawn(m, "weight_ih", 2, rows, input, hidden) && add_drawn(m, "weight_hh", 2, rows, hidden, hidden);
    ok = ok && (a.bias ? add_drawn(m, "bias_ih", 1, rows, 0, hidden) && add_drawn(m, "bias_hh", 1, rows, 0, hidden)
                       : fa_add_parameter(m, "bias_ih", NULL) && fa_add_parameter(m, "bias_hh", NULL));
    return fai_layer_done(m, ok);
}

fa_module *fa_nn_lstm_cell_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_cell_options *options) {
    return make_cell(FAI_LSTM, input_size, hidden_size, options);
}
fa_module *fa_nn_gru_cell_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_cell_options *options) {
    return make_cell(FAI_GRU, input_size, hidden_size, options);
}
fa_module *fa_nn_rnn_cell_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_cell_options *options) {
    return make_cell(FAI_RNN_TANH, input_size, hidden_size, options);
}

static void describe_cell(const fa_module *m, char *text, size_t n) {
    const layer *a = m->data;
    snprintf(text, n, "%lld, %lld", (long long)a->input, (long long)a->hidden);
    if (!a->bias) fai_layer_describe(text, n, ", bias=False");
    if (a->relu) fai_layer_describe(text, n, ", nonlinearity=relu");
}

static bool cell_state(const fa_module *m, const char *name, const fa_tensor *x, fa_tensor **state, int64_t size) {
    if (!*state) {
        *state = fa_zeros(FA_SHAPE(x->size[0], size), .dtype = (fa_dtype)x->dtype, .device = x->device);
        return *state != NULL;
    }
    if ((*state)->ndim != 1 && (*state)->ndim != 2)
        return fai_fail(FA_ERR_VALUE, m->type->name, "%s: Expected %s to be 1D or 2D, got %dD instead", m->type->name, name,
                        (*state)->ndim);
    return (*state)->ndim == 2 || (*state = fa_unsqueeze(*state, 0)) != NULL;
}

static fa_tensor *run_cell(fa_module *m, fa_tensor *x, fa_tensor *h, fa_tensor *c, fa_tensor **next_c) {
    enum { W_IH, W_HH, B_IH, B_HH };
    const layer *a = m->data;
    const char *name = m->type->name;
    if (!fai_check(name, "x", x)) return NULL;
    if (x->ndim != 1 && x->ndim != 2)
        return fai_fail(FA_ERR_VALUE, name, "%s: Expected input to be 1D or 2D, got %dD instead", name, x->ndim);
    FA_SCOPE;
    FAI_CALLED(name);
    const bool single = x->ndim == 1, lstm = is_lstm(a);
    if (single && !(x = fa_unsqueeze(x, 0))) return NULL;
    if (!cell_state(m, lstm ? "hx[0]" : "hidden", x, &h, a->hidden) || (lstm && !cell_state(m, "hx[1]", x, &c, a->hidden)))
        return NULL;
    fa_tensor *w[4] = {fai_slot(m, W_IH), fai_slot(m, W_HH), fai_slot(m, B_IH), fai_slot(m, B_HH)}, *y, *state = NULL;
    switch (a->mode) {
    case FAI_LSTM: y = fa_lstm_cell(x, h, c, w[0], w[1], w[2], w[3], &state); break;
    case FAI_GRU: y = fa_gru_cell(x, h, w[0], w[1], w[2], w[3]); break;
    case FAI_RNN_RELU: y = fa_rnn_relu_cell(x, h, w[0], w[1], w[2], w[3]); break;
    default: y = fa_rnn_tanh_cell(x, h, w[0], w[1], w[2], w[3]);
    }
    if (single) y = fa_squeeze_dim(y, 0);
    if (single && state) state = fa_squeeze_dim(state, 0);
    if (next_c && y) *next_c = fa_keep(state);
    return y ? fa_keep(y) : NULL;
}

static fa_tensor *cell_forward(fa_module *m, fa_tensor *const *inputs, int ninputs) {
    const int most = is_lstm(m->data) ? 3 : 2;
    if (ninputs < 1 || ninputs > most)
        return fai_fail(FA_ERR_TYPE, m->type->name, "%s.forward() takes the input and %d states, but %d tensors were given",
                        m->type->name, most - 1, ninputs);
    return run_cell(m, inputs[0], ninputs > 1 ? inputs[1] : NULL, ninputs > 2 ? inputs[2] : NULL, NULL);
}

fa_tensor *fa_lstm_cell_call(fa_module *m, fa_tensor *x, fa_tensor *h, fa_tensor *c, fa_tensor **next_c) {
    if (!fai_module_check("lstm_cell_call", m)) return NULL;
    if (m->type != &cell_types[FAI_LSTM])
        return fai_fail(FA_ERR_TYPE, "lstm_cell_call", "argument 'module' is a %s: LSTMCell is needed", m->type->name);
    return run_cell(m, x, h, c, next_c);
}
