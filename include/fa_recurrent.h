/* Recurrent networks: LSTM, GRU and RNN over sequences, their cells, packed sequences of different lengths, and the modules
 * of them. */
#ifndef FA_RECURRENT_H
#define FA_RECURRENT_H

#include "fa_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sequences of different lengths ---- */

/* Sequences, the longest first, written step by step: data [sum of lengths, ...], batch_sizes (int64, on the CPU) says how
 * many sequences each step has. The indices (NULL: they came sorted) lead from the caller's order to that order, and back.
 * Members belong to the scope. */
typedef struct fa_packed {
    fa_tensor *data, *batch_sizes, *sorted_indices, *unsorted_indices;
} fa_packed;

/* x [t, b, ...], or [b, t, ...] where batch_first; lengths: b numbers, int64, on the CPU. enforce_sorted: they must fall. */
FA_API bool fa_pack_padded_sequence(fa_tensor *x, fa_tensor *lengths, bool batch_first, bool enforce_sorted, fa_packed *packed);
/* Back, with padding_value after the end of each. total_length 0: the longest one's. lengths may be NULL. */
FA_API fa_tensor *fa_pad_packed_sequence(const fa_packed *packed, bool batch_first, double padding_value, int64_t total_length,
                                         fa_tensor **lengths);
/* Sequences [length, ...] side by side; padding_side "right" (NULL) or "left". */
FA_API fa_tensor *fa_pad_sequence(fa_tensor *const *sequences, int n, bool batch_first, double padding_value,
                                  const char *padding_side);
FA_API bool fa_pack_sequence(fa_tensor *const *sequences, int n, bool enforce_sorted, fa_packed *packed);

/* ---- One step. x [b, n], states [b, hidden], weights [gates * hidden, n or hidden]; biases may be NULL, both or none. ---- */

FA_API fa_tensor *fa_lstm_cell(fa_tensor *x, fa_tensor *h, fa_tensor *c, fa_tensor *w_ih, fa_tensor *w_hh, fa_tensor *b_ih,
                               fa_tensor *b_hh, fa_tensor **next_c); /* gives the next h; next_c may be NULL */
FA_API fa_tensor *fa_gru_cell(fa_tensor *x, fa_tensor *h, fa_tensor *w_ih, fa_tensor *w_hh, fa_tensor *b_ih, fa_tensor *b_hh);
FA_API fa_tensor *fa_rnn_tanh_cell(fa_tensor *x, fa_tensor *h, fa_tensor *w_ih, fa_tensor *w_hh, fa_tensor *b_ih,
                                   fa_tensor *b_hh);
FA_API fa_tensor *fa_rnn_relu_cell(fa_tensor *x, fa_tensor *h, fa_tensor *w_ih, fa_tensor *w_hh, fa_tensor *b_ih,
                                   fa_tensor *b_hh);

/* ---- Whole sequences. x [t, b, n], [b, t, n] where batch_first, or the data of a packed sequence where batch_sizes is
 * given. ---- */

typedef struct fa_rnn_options {
    size_t struct_size;
    fa_tensor *h0, *c0;     /* [layers * directions, b, hidden]; NULL: zeros. c0 is LSTM's */
    fa_tensor *batch_sizes; /* of a packed sequence */
    int64_t num_layers;     /* 1 */
    bool bias;              /* true: each layer has two */
    bool batch_first, bidirectional;
    bool training; /* dropout between layers happens */
    double dropout;
    fa_tensor **h_n, **c_n; /* where the last states go; NULL: nowhere */
} fa_rnn_options;
#define FA_RNN_DEFAULTS .num_layers = 1, .bias = true
/* weights: for each layer and direction w_ih, w_hh, with biases b_ih, b_hh, with a projection (LSTM) w_hr. */
FA_API fa_tensor *fa_lstm_with(fa_tensor *x, fa_tensor *const *weights, int nweights, const fa_rnn_options *options);
FA_API fa_tensor *fa_gru_with(fa_tensor *x, fa_tensor *const *weights, int nweights, const fa_rnn_options *options);
FA_API fa_tensor *fa_rnn_tanh_with(fa_tensor *x, fa_tensor *const *weights, int nweights, const fa_rnn_options *options);
FA_API fa_tensor *fa_rnn_relu_with(fa_tensor *x, fa_tensor *const *weights, int nweights, const fa_rnn_options *options);
#ifndef __cplusplus
#define FA_RNN_OPTIONS(...)                    (&FA_OPTIONS(fa_rnn_options, FA_RNN_DEFAULTS, __VA_ARGS__))
#define fa_lstm(x, weights, nweights, ...)     fa_lstm_with((x), (weights), (nweights), FA_RNN_OPTIONS(__VA_ARGS__))
#define fa_gru(x, weights, nweights, ...)      fa_gru_with((x), (weights), (nweights), FA_RNN_OPTIONS(__VA_ARGS__))
#define fa_rnn_tanh(x, weights, nweights, ...) fa_rnn_tanh_with((x), (weights), (nweights), FA_RNN_OPTIONS(__VA_ARGS__))
#define fa_rnn_relu(x, weights, nweights, ...) fa_rnn_relu_with((x), (weights), (nweights), FA_RNN_OPTIONS(__VA_ARGS__))
#endif

/* ---- Modules ---- */

typedef struct fa_nn_rnn_options {
    size_t struct_size;
    int64_t num_layers;       /* 1 */
    const char *nonlinearity; /* RNN's: "tanh" or "relu" */
    bool bias;                /* true */
    bool batch_first;
    double dropout;
    bool bidirectional;
    int64_t proj_size; /* LSTM's: h has this size instead; 0: no projection */
} fa_nn_rnn_options;
#define FA_NN_RNN_DEFAULTS .num_layers = 1, .bias = true
/* Parameters weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0, ..._reverse. fa_call(net, x) or fa_call(net,
 * x, h0) and, for LSTM, fa_call(net, x, h0, c0) give the outputs alone; x [t, b, n], [b, t, n], or one sequence [t, n]. */
FA_API fa_module *fa_nn_lstm_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_options *options);
FA_API fa_module *fa_nn_gru_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_options *options);
FA_API fa_module *fa_nn_rnn_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_options *options);
/* One step: fa_call(cell, x), fa_call(cell, x, h); LSTMCell gives h alone that way. */
typedef struct fa_nn_rnn_cell_options {
    size_t struct_size;
    bool bias;                /* true */
    const char *nonlinearity; /* RNNCell's: "tanh" or "relu" */
} fa_nn_rnn_cell_options;
FA_API fa_module *fa_nn_lstm_cell_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_cell_options *options);
FA_API fa_module *fa_nn_gru_cell_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_cell_options *options);
FA_API fa_module *fa_nn_rnn_cell_with(int64_t input_size, int64_t hidden_size, const fa_nn_rnn_cell_options *options);
#ifndef __cplusplus
#define FA_NN_RNN_OPTIONS(...)                   (&FA_OPTIONS(fa_nn_rnn_options, FA_NN_RNN_DEFAULTS, __VA_ARGS__))
#define FA_NN_RNN_CELL_OPTIONS(...)              (&FA_OPTIONS(fa_nn_rnn_cell_options, .bias = true, __VA_ARGS__))
#define fa_nn_lstm(input_size, hidden_size, ...) fa_nn_lstm_with((input_size), (hidden_size), FA_NN_RNN_OPTIONS(__VA_ARGS__))
#define fa_nn_gru(input_size, hidden_size, ...)  fa_nn_gru_with((input_size), (hidden_size), FA_NN_RNN_OPTIONS(__VA_ARGS__))
#define fa_nn_rnn(input_size, hidden_size, ...)  fa_nn_rnn_with((input_size), (hidden_size), FA_NN_RNN_OPTIONS(__VA_ARGS__))
#define fa_nn_lstm_cell(input_size, hidden_size, ...)                                                                            \
    fa_nn_lstm_cell_with((input_size), (hidden_size), FA_NN_RNN_CELL_OPTIONS(__VA_ARGS__))
#define fa_nn_gru_cell(input_size, hidden_size, ...)                                                                             \
    fa_nn_gru_cell_with((input_size), (hidden_size), FA_NN_RNN_CELL_OPTIONS(__VA_ARGS__))
#define fa_nn_rnn_cell(input_size, hidden_size, ...)                                                                             \
    fa_nn_rnn_cell_with((input_size), (hidden_size), FA_NN_RNN_CELL_OPTIONS(__VA_ARGS__))
#endif

/* The same with all results. States are [layers * directions, b, hidden], without b for one sequence; NULL: zeros; h_n and
 * c_n may be NULL. RNN and GRU: c0 and c_n NULL. */
FA_API fa_tensor *fa_rnn_call(fa_module *net, fa_tensor *x, fa_tensor *h0, fa_tensor *c0, fa_tensor **h_n, fa_tensor **c_n);
/* Of a packed sequence: states in the caller's order. */
FA_API bool fa_rnn_call_packed(fa_module *net, const fa_packed *x, fa_tensor *h0, fa_tensor *c0, fa_packed *y, fa_tensor **h_n,
                               fa_tensor **c_n);
FA_API fa_tensor *fa_lstm_cell_call(fa_module *cell, fa_tensor *x, fa_tensor *h, fa_tensor *c, fa_tensor **next_c);

#ifdef __cplusplus
}
#endif
#endif
