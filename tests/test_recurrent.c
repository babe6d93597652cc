/* LSTM, GRU and RNN against PyTorch: initial values, outputs, states, derivatives of first and second order, packed
 * sequences, cells; how they print; what they refuse. tests/golden/make_recurrent.py draws the same numbers from the same seeds.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:1
 * test-env-opencl: FACULA_OPENCL=cpu */
#include "golden/recurrent.h"
#include "support/recurrent.h"
#include "base/base.h"

static fa_module *network(int i) {
    switch (i) {
    case 0: return fa_nn_lstm(5, 4, .num_layers = 2, .batch_first = true, .bidirectional = true);
    case 1: return fa_nn_lstm(5, 32);
    case 2: return fa_nn_lstm(5, 4, .bias = false);
    case 3: return fa_nn_lstm(5, 4, .num_layers = 2, .proj_size = 3, .bidirectional = true);
    case 4: return fa_nn_lstm(5, 4, .num_layers = 3, .dropout = 0.4);
    case 5: return fa_nn_gru(5, 4, .num_layers = 2, .batch_first = true, .bidirectional = true);
    case 6: return fa_nn_gru(5, 32);
    case 7: return fa_nn_gru(5, 4, .bias = false);
    case 8: return fa_nn_rnn(5, 4, .num_layers = 2, .batch_first = true, .bidirectional = true);
    default: return fa_nn_rnn(5, 32, .nonlinearity = "relu");
    }
}
static const char *const names[] = {"lstm", "lstm plain", "lstm no bias", "lstm proj", "lstm dropout",
                                    "gru",  "gru plain",  "gru no bias",  "rnn",       "relu"};
static const struct {
    int layers, hidden, h;
    bool lstm, batch_first;
} sizes[] = {{4, 4, 4, true, true},  {1, 32, 32, true, false}, {1, 4, 4, true, false},    {4, 4, 3, true, false},
             {3, 4, 4, true, false}, {4, 4, 4, false, true},   {1, 32, 32, false, false}, {1, 4, 4, false, false},
             {4, 4, 4, false, true}, {1, 32, 32, false, false}};

/* One network on x: its results and derivatives are those of the file. lengths: packed, NULL: not. */
static void run(int i, const char *name, fa_module *net, fa_tensor *x, fa_tensor *h0, fa_tensor *c0, fa_tensor *lengths) {
    fa_tensor *outputs[3] = {NULL}, *inputs[3] = {x, h0, c0}, *loss = NULL;
    const int n = sizes[i].lstm ? 3 : 2;
    if (lengths) {
        fa_packed in, out;
        fa_tensor *back;
        assert_true(fa_pack_padded_sequence(x, lengths, sizes[i].batch_first, false, &in));
        assert_true(fa_rnn_call_packed(net, &in, h0, c0, &out, &outputs[1], &outputs[2]));
        matches(name, "data", -1, out.data);
        outputs[0] = fa_pad_packed_sequence(&out, sizes[i].batch_first, 0.25, 0, &back);
        assert_int_equal(fa_int_item(back, 0), 2);
        assert_int_equal(fa_int_item(back, 1), 3);
    } else {
        outputs[0] = fa_rnn_call(net, x, h0, c0, &outputs[1], &outputs[2]);
    }
    for (int k = 0; k < n; k++) {
        matches(name, "", k, outputs[k]);
        fa_tensor *part = weighted(outputs[k]);
        loss = loss ? fa_add(loss, part) : part;
    }
    derivatives(name, loss, net, inputs, n, true);
}

static void states_of(int i, int64_t batch, fa_tensor **h0, fa_tensor **c0) {
    *h0 = draw(FA_SHAPE(sizes[i].layers, batch, sizes[i].h));
    *c0 = sizes[i].lstm ? draw(FA_SHAPE(sizes[i].layers, batch, sizes[i].hidden)) : NULL;
}

static void networks_are_torchs(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        FA_SCOPE;
        fa_tensor *h0, *c0, *lengths = fa_ints(2, 3, 1);
        char packed[40];
        const bool dropout = i == 4;
        if (dropout && on_device()) continue; /* a device draws otherwise */
        fa_manual_seed((uint64_t)i);
        fa_module *net = ready(network(i));
        fa_tensor *x = draw(FA_SHAPE(3, 2, 5));
        states_of(i, sizes[i].batch_first ? 3 : 2, &h0, &c0);
        run(i, names[i], net, x, h0, c0, NULL);
        if (dropout) continue;
        snprintf(packed, sizeof packed, "%s packed", names[i]);
        x = draw(FA_SHAPE(3, 3, 5));
        states_of(i, 3, &h0, &c0);
        run(i, packed, net, x, h0, c0, lengths);
    }
}

static void one_sequence_needs_no_batch(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *h, *c;
    fa_manual_seed(100);
    fa_module *net = ready(fa_nn_lstm(5, 4, .bidirectional = true));
    matches("one", "y", -1, fa_rnn_call(net, draw(FA_SHAPE(3, 5)), NULL, NULL, &h, &c));
    matches("one", "h", -1, h);
    matches("one", "c", -1, c);
}

static void cells_are_torchs(void **state) {
    static const char *const cells[] = {"lstm cell", "gru cell", "rnn cell"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        FA_SCOPE;
        fa_tensor *x, *inputs[3], *outputs[2] = {NULL}, *loss;
        fa_manual_seed(200 + (uint64_t)i);
        fa_module *net = ready(i == 0 ? fa_nn_lstm_cell(5, 4) : i == 1 ? fa_nn_gru_cell(5, 4) : fa_nn_rnn_cell(5, 4));
        inputs[0] = x = draw(FA_SHAPE(3, 5)), inputs[1] = draw(FA_SHAPE(3, 4)), inputs[2] = i ? NULL : draw(FA_SHAPE(3, 4));
        outputs[0] = i == 0 ? fa_lstm_cell_call(net, x, inputs[1], inputs[2], &outputs[1]) : fa_call(net, x, inputs[1]);
        matches(cells[i], "", 0, outputs[0]);
        loss = weighted(outputs[0]);
        if (i == 0) {
            matches(cells[i], "", 1, outputs[1]);
            loss = fa_add(loss, weighted(outputs[1]));
        }
        derivatives(cells[i], loss, net, inputs, i ? 2 : 3, true);
        matches(cells[i], "one", -1, fa_call(net, draw(FA_SHAPE(5))));
    }
}

/* ---- float32 and the narrow types ---- */

static void narrow_types_are_near(void **state) {
    (void)state;
    static const fa_dtype types[] = {FA_FLOAT32, FA_FLOAT16, FA_BFLOAT16};
    static const double near[] = {1e-5, 5e-3, 4e-2};
    for (int i = 0; i < 9; i++) {
        FA_SCOPE;
        const int t = i % 3, kind = i / 3;
        fa_manual_seed(3);
        fa_module *net = ready(kind == 0 ? fa_nn_lstm(5, 7) : kind == 1 ? fa_nn_gru(5, 7) : fa_nn_rnn(5, 7));
        fa_tensor *x = fa_detach(draw(FA_SHAPE(4, 3, 5))), *exact = fa_call(net, x);
        fa_module_to_dtype(net, types[t]);
        fa_tensor *y = fa_call(net, fa_cast(x, types[t]));
        assert_int_equal(fa_dtype_of(y), types[t]);
        const double apart = fa_item(fa_max(fa_abs(fa_sub(fa_cast(y, FA_FLOAT64), exact))));
        assert_true(apart < near[t] && apart > 0);
        assert_true(fa_backward(fa_sum(y)));
        assert_int_equal(fa_dtype_of(fa_grad(fa_get_parameter(net, "weight_hh_l0"))), types[t]);
    }
}

/* ---- sequences ---- */

static void sequences_are_packed_and_padded(void **state) {
    (void)state;
    FA_SCOPE;
    fa_packed p;
    fa_tensor *x = fa_to(fa_reshape(fa_arange(0, 12, 1, .dtype = FA_FLOAT32), FA_SHAPE(4, 3, 1)), device());
    assert_true(fa_pack_padded_sequence(x, fa_ints(1, 4, 3), false, false, &p));
    holds(p.data, 8, (double[]){1, 2, 0, 4, 5, 7, 8, 10});
    holds(p.batch_sizes, 4, (double[]){3, 2, 2, 1});
    holds(p.sorted_indices, 3, (double[]){1, 2, 0});
    holds(p.unsorted_indices, 3, (double[]){2, 0, 1});
    fa_tensor *lengths, *back = fa_pad_packed_sequence(&p, true, -1, 5, &lengths);
    holds(back, 15, (double[]){0, -1, -1, -1, -1, 1, 4, 7, 10, -1, 2, 5, 8, -1, -1});
    holds(lengths, 3, (double[]){1, 4, 3});
    assert_true(fa_pack_padded_sequence(x, fa_ints(4, 2, 2), false, true, &p));
    assert_null(p.sorted_indices);
    holds(p.data, 8, (double[]){0, 1, 2, 3, 4, 5, 6, 9});
    fa_tensor *list[] = {fa_to(fa_floats(1, 2), device()), fa_to(fa_floats(3, 4, 5), device())};
    holds(fa_pad_sequence(list, 2, false, 0, NULL), 6, (double[]){1, 3, 2, 4, 0, 5});
    holds(fa_pad_sequence(list, 2, true, 9, "left"), 6, (double[]){9, 1, 2, 3, 4, 5});
    assert_true(fa_pack_sequence(list, 2, false, &p));
    holds(p.data, 5, (double[]){3, 1, 4, 2, 5});
}

/* ---- text and refusals ---- */

static void they_print_as_torch_prints_them(void **state) {
    (void)state;
    FA_SCOPE;
    prints_as(fa_nn_lstm(4, 3), "LSTM(4, 3)");
    prints_as(fa_nn_lstm(4, 3, .num_layers = 2, .bias = false, .batch_first = true, .dropout = 0.25, .bidirectional = true),
              "LSTM(4, 3, num_layers=2, bias=False, batch_first=True, dropout=0.25, bidirectional=True)");
    prints_as(fa_nn_lstm(4, 3, .proj_size = 2), "LSTM(4, 3, proj_size=2)");
    prints_as(fa_nn_gru(4, 3, .num_layers = 2), "GRU(4, 3, num_layers=2)");
    prints_as(fa_nn_rnn(4, 3, .nonlinearity = "relu"), "RNN(4, 3)");
    prints_as(fa_nn_rnn_cell(4, 3, .bias = false, .nonlinearity = "relu"), "RNNCell(4, 3, bias=False, nonlinearity=relu)");
    prints_as(fa_nn_lstm_cell(4, 3), "LSTMCell(4, 3)");
}

static void constructors_refuse(void **state) {
    (void)state;
    FA_SCOPE;
    refuses(fa_nn_lstm(4, 3, .num_layers = 0), FA_ERR_VALUE, "num_layers must be greater than zero");
    refuses(fa_nn_lstm(4, 0), FA_ERR_VALUE, "hidden_size must be greater than zero");
    refuses(fa_nn_gru(0, 3), FA_ERR_VALUE, "input_size must be greater than zero");
    refuses(fa_nn_rnn(4, 3, .dropout = 1.5), FA_ERR_VALUE,
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed");
    refuses(fa_nn_lstm(4, 3, .proj_size = 3), FA_ERR_VALUE, "proj_size has to be smaller than hidden_size");
    refuses(fa_nn_lstm(4, 3, .proj_size = -1), FA_ERR_VALUE,
            "proj_size should be a positive integer or zero to disable projections");
    refuses(fa_nn_gru(4, 3, .proj_size = 1), FA_ERR_VALUE, "proj_size argument is only supported for LSTM, not RNN or GRU");
    refuses(fa_nn_rnn(4, 3, .nonlinearity = "x"), FA_ERR_VALUE, "Unknown nonlinearity 'x'. Select from 'tanh' or 'relu'.");
    refuses(fa_nn_lstm_with(4, 3, &(fa_nn_rnn_options){.struct_size = 1}), FA_ERR_VALUE, "the options have struct_size 1");
    refuses(fa_nn_lstm_cell_with(4, 3, &(fa_nn_rnn_cell_options){.struct_size = 1}), FA_ERR_VALUE,
            "the options have struct_size 1");
}

static fa_tensor *r(int a, int b, int c) {
    fa_shape s = {.ndim = c ? 3 : b ? 2 : 1, .dim = {a, b, c}};
    return fa_rand(s, .device = device());
}

static void calls_refuse(void **state) {
    (void)state;
    FA_SCOPE;
    fa_module *l = fa_nn_lstm(4, 3), *g = fa_nn_gru(4, 3), *n = fa_nn_rnn(4, 3);
    fa_module_to(l, device()), fa_module_to(g, device()), fa_module_to(n, device());
    fa_tensor *x = r(2, 3, 4), *four = fa_rand(FA_SHAPE(2, 3, 5, 4), .device = device());
    refuses(fa_call(l, four), FA_ERR_VALUE, "LSTM: Expected input to be 2D or 3D, got 4D instead");
    refuses(fa_call(n, four), FA_ERR_VALUE, "RNN: Expected input to be 2D or 3D, got 4D tensor instead");
    refuses(fa_call(l, r(2, 3, 5)), FA_ERR_RUNTIME, "input.size(-1) must be equal to input_size. Expected 4, got 5");
    refuses(fa_call(l, fa_cast(x, FA_FLOAT64)), FA_ERR_VALUE,
            "RNN input dtype (torch.float64) does not match weight dtype (torch.float32). Convert input: "
            "input.to(torch.float32), or convert model: model.to(torch.float64)");
    refuses(fa_rnn_call(l, x, r(1, 3, 4), r(1, 3, 3), NULL, NULL), FA_ERR_RUNTIME,
            "Expected hidden[0] size (1, 3, 3), got [1, 3, 4]");
    refuses(fa_rnn_call(l, x, r(1, 3, 3), r(1, 2, 3), NULL, NULL), FA_ERR_RUNTIME,
            "Expected hidden[1] size (1, 3, 3), got [1, 2, 3]");
    refuses(fa_rnn_call(l, x, r(1, 3, 0), r(1, 3, 0), NULL, NULL), FA_ERR_RUNTIME,
            "For batched 3-D input, hx and cx should also be 3-D but got (2-D, 2-D) tensors");
    refuses(fa_rnn_call(g, r(2, 4, 0), r(1, 1, 3), NULL, NULL, NULL), FA_ERR_RUNTIME,
            "For unbatched 2-D input, hx should also be 2-D but got 3-D tensor");
    refuses(fa_rnn_call(g, x, r(2, 3, 3), NULL, NULL, NULL), FA_ERR_RUNTIME, "Expected hidden size (1, 3, 3), got [2, 3, 3]");
    refuses(fa_rnn_call(g, x, NULL, r(1, 3, 3), NULL, NULL), FA_ERR_VALUE, "c0 was given, but only LSTM has a cell state");
    refuses(fa_call(g, x, x, x), FA_ERR_TYPE, "GRU.forward() takes the input and 1 states, but 3 tensors were given");
    refuses(fa_rnn_call(fa_nn_relu(), x, NULL, NULL, NULL, NULL), FA_ERR_TYPE,
            "argument 'module' is a ReLU: LSTM, GRU or RNN is needed");
    refuses(fa_call(l, fa_zeros(FA_SHAPE(0, 3, 4), .device = device())), FA_ERR_RUNTIME,
            "Expected sequence length to be larger than 0 in RNN");
    refuses(fa_rnn_call(l, x, fa_cast(r(1, 3, 3), FA_FLOAT64), NULL, NULL, NULL), FA_ERR_RUNTIME,
            "hidden[0] is of type float64, the input of type float32");
    fa_packed out, bad = {.data = r(5, 4, 0), .batch_sizes = fa_ints(3, 3)},
                   grows = {.data = r(5, 4, 0), .batch_sizes = fa_ints(2, 3)},
                   empty = {.data = r(5, 4, 0), .batch_sizes = fa_floats(5)};
    refuses(fa_rnn_call_packed(l, &bad, NULL, NULL, &out, NULL, NULL) ? l : NULL, FA_ERR_RUNTIME,
            "the data of a packed sequence must be [6, n], as the sum of batch_sizes says");
    refuses(fa_rnn_call_packed(l, &grows, NULL, NULL, &out, NULL, NULL) ? l : NULL, FA_ERR_VALUE,
            "batch_sizes[1] is 3: they are 1 or more and never grow");
    refuses(fa_rnn_call_packed(l, &empty, NULL, NULL, &out, NULL, NULL) ? l : NULL, FA_ERR_RUNTIME,
            "batch_sizes should be a 1D CPU int64 tensor with an element for each step");
    refuses(fa_rnn_call_packed(l, NULL, NULL, NULL, &out, NULL, NULL) ? l : NULL, FA_ERR_TYPE,
            "argument 'x' is NULL: a packed sequence is needed");
}

static void functions_refuse(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = r(2, 3, 4), *w[] = {r(12, 4, 0), r(12, 3, 0), r(12, 0, 0), r(12, 0, 0)},
              *bad[] = {r(12, 4, 0), r(12, 4, 0), r(12, 0, 0), r(12, 0, 0)};
    refuses(fa_lstm(x, w, 3), FA_ERR_RUNTIME,
            "3 weights were given: each of 1 layers and directions has 4 (w_ih, w_hh, b_ih, b_hh)");
    refuses(fa_lstm(x, bad, 4), FA_ERR_RUNTIME, "w_hh of layer 0 (weight 1 of the list) has shape [12, 4]: [12, 3] is needed");
    refuses(fa_lstm(x, w, 4, .num_layers = 0), FA_ERR_VALUE, "num_layers must be greater than zero");
    refuses(fa_lstm(x, w + 2, 2, .bias = false), FA_ERR_RUNTIME,
            "the first weight must be a matrix with 4 times the hidden size as rows");
    refuses(fa_lstm(r(2, 3, 0), w, 4), FA_ERR_RUNTIME, "input must have 3 dimensions, got 2");
    refuses(fa_lstm(x, w, 4, .dropout = 2), FA_ERR_VALUE, "dropout probability has to be between 0 and 1, but got 2");
    w[0] = fa_cast(w[0], FA_FLOAT64);
    refuses(fa_lstm(x, w, 4), FA_ERR_VALUE,
            "RNN input dtype (torch.float32) does not match weight dtype (torch.float64). Convert input: fa_cast(x, ...)");
}

static void cells_refuse(void **state) {
    (void)state;
    FA_SCOPE;
    fa_module *l = fa_nn_lstm_cell(4, 3), *g = fa_nn_gru_cell(4, 3);
    fa_module_to(l, device()), fa_module_to(g, device());
    refuses(fa_call(l, r(2, 5, 0)), FA_ERR_RUNTIME, "input has inconsistent input_size: got 5 expected 4");
    refuses(fa_call(l, r(2, 3, 4)), FA_ERR_VALUE, "LSTMCell: Expected input to be 1D or 2D, got 3D instead");
    refuses(fa_call(g, r(2, 4, 0), r(2, 4, 0)), FA_ERR_RUNTIME, "hidden0 has inconsistent hidden_size: got 4, expected 3");
    refuses(fa_call(g, r(2, 4, 0), r(1, 3, 0)), FA_ERR_RUNTIME, "Input batch size 2 doesn't match hidden0 batch size 1");
    refuses(fa_call(g, r(2, 4, 0), r(1, 2, 3)), FA_ERR_VALUE, "GRUCell: Expected hidden to be 1D or 2D, got 3D instead");
    refuses(fa_lstm_cell_call(g, r(2, 4, 0), NULL, NULL, NULL), FA_ERR_TYPE,
            "argument 'module' is a GRUCell: LSTMCell is needed");
    fa_tensor *x = r(2, 4, 0), *h = r(2, 3, 0), *w = r(9, 4, 0), *u = r(9, 3, 0), *b = r(9, 0, 0);
    refuses(fa_gru_cell(x, h, w, u, b, NULL), FA_ERR_RUNTIME, "one of the biases is NULL: give both or none");
    refuses(fa_gru_cell(x, h, w, u, r(8, 0, 0), b), FA_ERR_RUNTIME, "b_ih has 8 rows: 3 times the hidden size of 3 are needed");
    refuses(fa_gru_cell(r(4, 0, 0), h, w, u, b, b), FA_ERR_RUNTIME, "x must have 2 dimensions, but has 1");
    refuses(fa_gru_cell(fa_cast(x, FA_FLOAT64), h, w, u, b, b), FA_ERR_RUNTIME,
            "x and h must have the same floating dtype, but got Double and Float");
}

static void sequences_refuse(void **state) {
    (void)state;
    FA_SCOPE;
    fa_packed p;
    fa_tensor *x = r(4, 3, 2);
#define PACK(x, l, sorted) (fa_pack_padded_sequence(x, l, false, sorted, &p) ? x : NULL)
    refuses(
        PACK(x, fa_ints(2, 3, 1), true), FA_ERR_RUNTIME,
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` "
        "to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability.");
    refuses(PACK(x, fa_ints(4, 3), true), FA_ERR_RUNTIME,
            "Expected `len(lengths)` to be equal to batch_size, but got 2 (batch_size=3)");
    refuses(PACK(x, fa_ints(4, 3, 0), true), FA_ERR_RUNTIME,
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0");
    refuses(PACK(x, fa_ints(5, 3, 1), true), FA_ERR_RUNTIME, "lengths[0] is 5, but the padded sequences have 4 steps");
    refuses(PACK(x, fa_floats(4, 3, 1), true), FA_ERR_RUNTIME,
            "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cpu Float tensor");
    refuses(PACK(fa_zeros(FA_SHAPE(0, 3), .device = device()), fa_ints(1, 1, 1), true), FA_ERR_RUNTIME,
            "Cannot pack empty tensors.");
    refuses(PACK(r(3, 0, 0), fa_ints(1), true), FA_ERR_INDEX, "Dimension specified as 1 but tensor has 1 dimensions");
    refuses(fa_pack_padded_sequence(x, fa_ints(1, 1, 1), false, true, NULL) ? x : NULL, FA_ERR_TYPE,
            "argument 'packed' is NULL: there is no place for the result");
    assert_non_null(PACK(x, fa_ints(4, 3, 1), true));
    refuses(fa_pad_packed_sequence(&p, false, 0, 3, NULL), FA_ERR_VALUE,
            "Expected total_length to be at least the length of the longest sequence in input, but got total_length=3 and max "
            "sequence length being 4");
    refuses(fa_pad_packed_sequence(NULL, false, 0, 0, NULL), FA_ERR_TYPE, "argument 'packed' is NULL");
    fa_packed bad = {.data = x, .batch_sizes = fa_ints(1)}, order = p;
    refuses(fa_pad_packed_sequence(&bad, false, 0, 0, NULL), FA_ERR_RUNTIME, "this is no packed sequence");
    order.sorted_indices = fa_ints(0, 1, 7);
    refuses(fa_pad_packed_sequence(&order, false, 0, 0, NULL), FA_ERR_INDEX, "sorted_indices[2] is 7, but there are 3 sequences");
    order.sorted_indices = fa_ints(0, 1);
    refuses(fa_pad_packed_sequence(&order, false, 0, 0, NULL), FA_ERR_RUNTIME, "sorted_indices has 2 elements for 3 sequences");
    fa_tensor *uneven[] = {r(2, 3, 0), r(2, 4, 0)}, *mixed[] = {r(2, 3, 0), r(2, 0, 0)};
    refuses(fa_pad_sequence(uneven, 0, false, 0, NULL), FA_ERR_RUNTIME, "received an empty list of sequences");
    refuses(fa_pad_sequence(uneven, 2, false, 0, NULL), FA_ERR_RUNTIME,
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1");
    refuses(fa_pad_sequence(mixed, 2, false, 0, NULL), FA_ERR_RUNTIME,
            "sequence 1 has 1 dimensions and type float32, the first 2 and float32");
    refuses(fa_pad_sequence(uneven, 1, false, 0, "x"), FA_ERR_RUNTIME,
            "Expected padding_side to be one of left or right, but got x.");
    refuses(fa_pack_sequence(uneven, 1, true, NULL) ? x : NULL, FA_ERR_TYPE,
            "argument 'packed' is NULL: there is no place for the result");
}

static char told[400];
static void tell(const char *op, const char *text) {
    (void)op;
    snprintf(told, sizeof told, "%s", text);
}

static void dropout_of_one_layer_warns(void **state) {
    (void)state;
    FA_SCOPE;
    fai_set_warn(tell);
    assert_non_null(fa_nn_lstm(4, 3, .dropout = 0.5));
    fai_set_warn(NULL);
    assert_string_equal(told, "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                              "num_layers greater than 1, but got dropout=0.5 and num_layers=1");
}

/* Memory that can't be had anywhere: an error each time, nothing leaks, and the next call works. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    for (int n = 1; n < 400; n++) {
        FA_SCOPE;
        fa_module *net = fa_nn_lstm(3, 2, .bidirectional = true);
        fa_packed p, y;
        fa_tensor *x = fa_rand(FA_SHAPE(3, 2, 3)), *lengths = fa_ints(2, 3);
        fa_test_fail_allocation((uint64_t)n, false);
        const bool ok = fa_pack_padded_sequence(x, lengths, false, false, &p) &&
                        fa_rnn_call_packed(net, &p, NULL, NULL, &y, NULL, NULL) &&
                        fa_backward(fa_sum(fa_pad_packed_sequence(&y, false, 0, 0, NULL)));
        const bool failed = fa_test_failed_allocations() > 0;
        fa_test_fail_allocation(0, false);
        assert_true(failed || ok);
        if (!ok) assert_int_equal(fa_error_take().code, FA_ERR_MEMORY);
        if (!failed) return;
    }
    fail_msg("400 allocations were not enough");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_are_torchs),
        cmocka_unit_test(one_sequence_needs_no_batch),
        cmocka_unit_test(cells_are_torchs),
        cmocka_unit_test(narrow_types_are_near),
        cmocka_unit_test(sequences_are_packed_and_padded),
        cmocka_unit_test(they_print_as_torch_prints_them),
        cmocka_unit_test(constructors_refuse),
        cmocka_unit_test(calls_refuse),
        cmocka_unit_test(functions_refuse),
        cmocka_unit_test(cells_refuse),
        cmocka_unit_test(sequences_refuse),
        cmocka_unit_test(dropout_of_one_layer_warns),
        cmocka_unit_test(every_allocation_may_fail),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + fa_finish("test_recurrent");
}
