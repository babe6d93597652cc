/* Inside the room: one layer of LSTM, GRU or RNN in one direction, recorded. */
#ifndef FAI_RECURRENT_AUTOGRAD_H
#define FAI_RECURRENT_AUTOGRAD_H

#include "composite.h"
#include "ops/recurrent.h"

/* What comes out of it, as views of one vector. Made in the current scope; y NULL after an error. */
typedef struct fai_rnn_out {
    fa_tensor *y, *h, *c;
} fai_rnn_out; /* y [rows, size], h and c [batch, size]; c of LSTM only */

/* projection: LSTM's w_hr [size, hidden] or NULL. Operands have been checked. */
fai_rnn_out fai_rnn_layer(const fai_rnn *r, fa_tensor *const in[FAI_RNN_INPUTS], fa_tensor *projection);

#endif
