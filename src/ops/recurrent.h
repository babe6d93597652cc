/* One layer of LSTM, GRU or RNN in one direction over a whole sequence, without recording: forward and derivative. */
#ifndef FAI_RECURRENT_H
#define FAI_RECURRENT_H

#include "ops.h"

typedef enum fai_rnn_mode { FAI_RNN_TANH, FAI_RNN_RELU, FAI_LSTM, FAI_GRU } fai_rnn_mode;

/* Time runs over blocks of rows: step t has sizes[t] of them (NULL: batch for every step), in an order that a longer sequence comes
 * first, so that step t's are the first ones of the step before. reverse: from the last step to the first. */
typedef struct fai_rnn {
    fai_rnn_mode mode;
    bool reverse;
    int64_t steps, batch, rows, hidden; /* rows: of all steps together */
    const int64_t *sizes;               /* borrowed */
} fai_rnn;

/* The operands: input [rows, n]; states [batch, hidden], NULL for zeros; weights [gates * hidden, n or hidden]; biases may be NULL. */
enum { FAI_RNN_X, FAI_RNN_H, FAI_RNN_C, FAI_RNN_W_IH, FAI_RNN_W_HH, FAI_RNN_B_IH, FAI_RNN_B_HH, FAI_RNN_INPUTS };
/* What the derivative reads besides. own: the gates' part that comes from the hidden state (GRU). h, c: the states before each step. */
enum { FAI_RNN_RESULT, FAI_RNN_GATES, FAI_RNN_OWN, FAI_RNN_BEFORE_H, FAI_RNN_BEFORE_C, FAI_RNN_KEPT };

static inline int64_t fai_rnn_size(const fai_rnn *r, int64_t t) { return r->sizes ? r->sizes[t] : r->batch; }
static inline int fai_rnn_gates(fai_rnn_mode mode) { return mode == FAI_LSTM ? 4 : mode == FAI_GRU ? 3 : 1; }
static inline int64_t fai_rnn_numel(const fai_rnn *r) { return (r->rows + r->batch * (r->mode == FAI_LSTM ? 2 : 1)) * r->hidden; }

/* float32 or float64, all of one type. The result is a vector of everything that comes out: outputs [rows, hidden], the last h
 * [batch, hidden], for LSTM the last c. kept: filled, in the caller's scope. */
fa_tensor *fai_rnn_forward(const fai_rnn *r, fa_tensor *const in[FAI_RNN_INPUTS], fa_tensor *kept[FAI_RNN_KEPT]);
/* g: of the vector. grads[i] where wanted[i]. */
bool fai_rnn_grads(const fai_rnn *r, fa_tensor *g, fa_tensor *const in[FAI_RNN_INPUTS], fa_tensor *const kept[FAI_RNN_KEPT],
                   const bool wanted[FAI_RNN_INPUTS], fa_tensor *grads[FAI_RNN_INPUTS]);

#endif
