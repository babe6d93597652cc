/* Recurrent networks, packed sequences and attention for facula.nn: the library's functions, with all their results. */
#include "nn.h"
#include <fa_recurrent.h>
#include <fa_transformer.h>

#define TENSOR(name)                                                                                                             \
    { name, FAPY_T, 0 }
#define MAYBE(name)                                                                                                              \
    { name, FAPY_T, FAPY_OPTIONAL | FAPY_NONE }
static fa_tensor *tensor_at(const fapy_value *v) { return v->given ? v->as.t : NULL; }

/* A tuple of new references; sweeps. */
static PyObject *results(fa_tensor *const *parts, int n, uint32_t mark) {
    if (fai_tls.error_pending || !parts[0]) return fapy_take(NULL, mark);
    return fapy_take_tuple(parts, n, mark);
}

/* ---- networks: x, [h0, c0], weights -> y, h_n[, c_n] ---- */

typedef fa_tensor *network(fa_tensor *x, fa_tensor *const *weights, int nweights, const fa_rnn_options *options);

static PyObject *run_network(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    enum { MODE, X, H0, C0, WEIGHTS, LAYERS, BIAS, FIRST, DROPOUT, TRAINING, BOTH, SIZES, COUNT };
    static const fapy_parameter parameters[] = {{"mode", FAPY_TEXT, 0},
                                                TENSOR("input"),
                                                MAYBE("h0"),
                                                MAYBE("c0"),
                                                {"weights", FAPY_TS, 0},
                                                {"num_layers", FAPY_INT, 0},
                                                {"bias", FAPY_BOOL, 0},
                                                {"batch_first", FAPY_BOOL, 0},
                                                {"dropout", FAPY_FLOAT, 0},
                                                {"training", FAPY_BOOL, 0},
                                                {"bidirectional", FAPY_BOOL, 0},
                                                MAYBE("batch_sizes")};
    static const fapy_signature signature = {"rnn", COUNT, parameters};
    fapy_value v[COUNT];
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    const char *mode = v[MODE].as.text;
    network *run = strcmp(mode, "LSTM") == 0       ? fa_lstm_with
                   : strcmp(mode, "GRU") == 0      ? fa_gru_with
                   : strcmp(mode, "RNN_RELU") == 0 ? fa_rnn_relu_with
                                                   : fa_rnn_tanh_with;
    const bool lstm = run == fa_lstm_with;
    fa_tensor *out[3] = {NULL};
    const uint32_t mark = FAPY_MARK;
    const fa_rnn_options options = {.struct_size = sizeof options,
                                    .h0 = tensor_at(&v[H0]),
                                    .c0 = tensor_at(&v[C0]),
                                    .batch_sizes = tensor_at(&v[SIZES]),
                                    .num_layers = v[LAYERS].as.i,
                                    .bias = v[BIAS].as.b,
                                    .batch_first = v[FIRST].as.b,
                                    .bidirectional = v[BOTH].as.b,
                                    .training = v[TRAINING].as.b,
                                    .dropout = v[DROPOUT].as.f,
                                    .h_n = &out[1],
                                    .c_n = lstm ? &out[2] : NULL};
    out[0] = run(v[X].as.t, v[WEIGHTS].as.ts.at, v[WEIGHTS].as.ts.n, &options);
    PyObject *result = results(out, lstm ? 3 : 2, mark);
    fapy_done(&signature, v);
    return result;
}

static PyObject *run_cell(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    enum { MODE, X, H, C, W_IH, W_HH, B_IH, B_HH, COUNT };
    static const fapy_parameter parameters[] = {{"mode", FAPY_TEXT, 0}, TENSOR("input"),     TENSOR("h"),      MAYBE("c"),
                                                TENSOR("weight_ih"),    TENSOR("weight_hh"), MAYBE("bias_ih"), MAYBE("bias_hh")};
    static const fapy_signature signature = {"rnn_cell", COUNT, parameters};
    fapy_value v[COUNT];
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    const char *mode = v[MODE].as.text;
    fa_tensor *x = v[X].as.t, *h = v[H].as.t, *w = v[W_IH].as.t, *u = v[W_HH].as.t, *b = tensor_at(&v[B_IH]),
              *d = tensor_at(&v[B_HH]), *out[2] = {NULL};
    const uint32_t mark = FAPY_MARK;
    if (strcmp(mode, "LSTM") == 0) {
        out[0] = fa_lstm_cell(x, h, tensor_at(&v[C]), w, u, b, d, &out[1]);
        return results(out, 2, mark);
    }
    return fapy_take(strcmp(mode, "GRU") == 0        ? fa_gru_cell(x, h, w, u, b, d)
                     : strcmp(mode, "RNN_RELU") == 0 ? fa_rnn_relu_cell(x, h, w, u, b, d)
                                                     : fa_rnn_tanh_cell(x, h, w, u, b, d),
                     mark);
}

/* ---- packed sequences: (data, batch_sizes, sorted_indices, unsorted_indices) ---- */

static PyObject *pack_padded(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    static const fapy_parameter parameters[] = {
        TENSOR("input"), TENSOR("lengths"), {"batch_first", FAPY_BOOL, 0}, {"enforce_sorted", FAPY_BOOL, 0}};
    static const fapy_signature signature = {"pack_padded_sequence", 4, parameters};
    fapy_value v[4];
    fa_packed p = {0};
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    const uint32_t mark = FAPY_MARK;
    if (!fa_pack_padded_sequence(v[0].as.t, v[1].as.t, v[2].as.b, v[3].as.b, &p)) return fapy_take(NULL, mark);
    return results((fa_tensor *const[]){p.data, p.batch_sizes, p.sorted_indices, p.unsorted_indices}, 4, mark);
}

static PyObject *pad_packed(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    enum { DATA, SIZES, SORTED, UNSORTED, FIRST, VALUE, TOTAL, COUNT };
    static const fapy_parameter parameters[] = {TENSOR("data"),
                                                TENSOR("batch_sizes"),
                                                MAYBE("sorted_indices"),
                                                MAYBE("unsorted_indices"),
                                                {"batch_first", FAPY_BOOL, 0},
                                                {"padding_value", FAPY_FLOAT, 0},
                                                {"total_length", FAPY_INT, FAPY_OPTIONAL | FAPY_NONE}};
    static const fapy_signature signature = {"pad_packed_sequence", COUNT, parameters};
    fapy_value v[COUNT];
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    const fa_packed p = {v[DATA].as.t, v[SIZES].as.t, tensor_at(&v[SORTED]), tensor_at(&v[UNSORTED])};
    fa_tensor *out[2] = {NULL};
    const uint32_t mark = FAPY_MARK;
    out[0] = fa_pad_packed_sequence(&p, v[FIRST].as.b, v[VALUE].as.f, v[TOTAL].given ? v[TOTAL].as.i : 0, &out[1]);
    return results(out, 2, mark);
}

static PyObject *pad_sequence(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    static const fapy_parameter parameters[] = {{"sequences", FAPY_TS, 0},
                                                {"batch_first", FAPY_BOOL, FAPY_OPTIONAL},
                                                {"padding_value", FAPY_FLOAT, FAPY_OPTIONAL},
                                                {"padding_side", FAPY_TEXT, FAPY_OPTIONAL}};
    static const fapy_signature signature = {"pad_sequence", 4, parameters};
    fapy_value v[4];
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    const uint32_t mark = FAPY_MARK;
    PyObject *result = fapy_take(fa_pad_sequence(v[0].as.ts.at, v[0].as.ts.n, v[1].given && v[1].as.b, v[2].given ? v[2].as.f : 0,
                                                 v[3].given ? v[3].as.text : NULL),
                                 mark);
    fapy_done(&signature, v);
    return result;
}

/* ---- attention ---- */

static bool is_module(PyObject *o) {
    if (fapy_module_check(o)) return true;
    return PyErr_Format(PyExc_TypeError, "a Module is needed, not %s", Py_TYPE(o)->tp_name), false;
}

/* What the class's __init__ calls: the layer in a module that is there. */
static PyObject *attention_init(PyObject *unused, PyObject *args) {
    PyObject *self;
    long long embed, heads, kdim, vdim;
    double dropout;
    int bias, bias_kv, zero, first;
    (void)unused;
    if (!PyArg_ParseTuple(args, "OLLdpppLLp", &self, &embed, &heads, &dropout, &bias, &bias_kv, &zero, &kdim, &vdim, &first) ||
        !is_module(self))
        return NULL;
    const uint32_t mark = FAPY_MARK;
    const fa_nn_multihead_attention_options options = {.struct_size = sizeof options,
                                                       .dropout = dropout,
                                                       .bias = bias,
                                                       .add_bias_kv = bias_kv,
                                                       .add_zero_attn = zero,
                                                       .kdim = kdim,
                                                       .vdim = vdim,
                                                       .batch_first = first};
    return fapy_bool_or_raise(fai_multihead_attention_build(M(self), embed, heads, &options), mark);
}

static PyObject *attention_call(PyObject *unused, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    enum { MODULE, Q, K, V, PADDING, NEED, MASK, AVERAGE, CAUSAL, COUNT };
    static const fapy_parameter parameters[] = {{"module", FAPY_OBJ, 0},
                                                TENSOR("query"),
                                                TENSOR("key"),
                                                TENSOR("value"),
                                                MAYBE("key_padding_mask"),
                                                {"need_weights", FAPY_BOOL, 0},
                                                MAYBE("attn_mask"),
                                                {"average_attn_weights", FAPY_BOOL, 0},
                                                {"is_causal", FAPY_BOOL, 0}};
    static const fapy_signature signature = {"multi_head_attention", COUNT, parameters};
    fapy_value v[COUNT];
    (void)unused;
    if (!fapy_parse(&signature, args, n, names, 0, v) || !is_module(v[MODULE].as.o)) return NULL;
    if (!fai_is_multihead_attention(M(v[MODULE].as.o)))
        return PyErr_SetString(PyExc_RuntimeError, "MultiheadAttention.__init__() was not called"), NULL;
    fa_tensor *out[2] = {NULL};
    const uint32_t mark = FAPY_MARK;
    const fa_multihead_attention_options options = {.struct_size = sizeof options,
                                                    .key_padding_mask = tensor_at(&v[PADDING]),
                                                    .attn_mask = tensor_at(&v[MASK]),
                                                    .is_causal = v[CAUSAL].as.b,
                                                    .weights = v[NEED].as.b ? &out[1] : NULL,
                                                    .average_attn_weights = v[AVERAGE].as.b};
    out[0] = fa_multihead_attention_call_with(M(v[MODULE].as.o), v[Q].as.t, v[K].as.t, v[V].as.t, &options);
    return results(out, 2, mark);
}

#define FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL | METH_KEYWORDS
PyMethodDef fapy_recurrent_functions[] = {{"_rnn", FAST(run_network), NULL},
                                          {"_rnn_cell", FAST(run_cell), NULL},
                                          {"_pack_padded_sequence", FAST(pack_padded), NULL},
                                          {"_pad_packed_sequence", FAST(pad_packed), NULL},
                                          {"_pad_sequence", FAST(pad_sequence), NULL},
                                          {"_attention_init", attention_init, METH_VARARGS, NULL},
                                          {"_attention_call", FAST(attention_call), NULL},
                                          {0}};
