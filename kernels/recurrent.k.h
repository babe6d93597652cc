/* One time step of LSTM, GRU and RNN after its matrix products, and its derivative. Rows are sequences, columns hidden units; all
 * operands are contiguous matrices of the compute type. n[0] = rows, n[1] = hidden size, n[2] = 1 for relu instead of tanh.
 * A row of gates holds its parts side by side: i f g o (LSTM), r z n (GRU); the forward step writes the activated ones over
 * the sums. groups = ceil(n[0] * n[1] / 256); view.kind FA_VIEW_NONE: that operand is not there.
 *
 *   lstm_step           view[0] = h for the output, view[1] = h for the next step, view[2] = c for it, view[3] = gates (changed),
 *                       view[4] = c before
 *   lstm_step_backward  view[0] = gradient of the gates' sums, view[1] = gradient of c (that of c before takes its place),
 *                       view[2] = gates, view[3] = c before, view[4] = gradient of the output or none, view[5] = gradient of
 *                       h from the next step
 *   gru_step            view[0] = h for the output, view[1] = h for the next step, view[2] = gates of the input (changed),
 *                       view[3] = gates of the hidden state, view[4] = h before
 *   gru_step_backward   view[0] = gradient of the input's gates, view[1] = of the hidden state's, view[2] = of h from the
 *                       next step (its direct share of h before takes its place), view[3] = gates, view[4] = gates of the
 *                       hidden state, view[5] = h before, view[6] = gradient of the output or none
 *   rnn_step            view[0] = h for the output, view[1] = h for the next step, view[2] = sums
 *   rnn_step_backward   view[0] = gradient of the sums, view[1] = the output, view[2] = gradient of the output or none,
 *                       view[3] = gradient of h from the next step */

#ifndef FA_RECURRENT
#define FA_RECURRENT
/* What an item works on: element e of a matrix, at `at` of a matrix with `parts` columns for each of its. */
#define STEP_PLACE(parts)                                                                                                        \
    const fa_i64 e = GROUP * 256 + item, hidden = P.n[1];                                                                        \
    const fa_i64 at = e / hidden * (parts)*hidden + e % hidden;
#define STEP_INSIDE (GROUP * 256 + item < P.n[0] * P.n[1])
#endif

FN REAL N(gate)(REAL x) { return 1 / (1 + N(fa_exp)(-x)); }

KERNEL(N(lstm_step), 256) {
    ITEMS(256) {
        if (STEP_INSIDE) {
            STEP_PLACE(4)
            GLOBAL REAL *gates = ARG(REAL, 3) + at;
            const REAL i = N(gate)(gates[0]), f = N(gate)(gates[hidden]), g = N(fa_tanh)(gates[2 * hidden]),
                       o = N(gate)(gates[3 * hidden]);
            const REAL c = f * ARG(REAL, 4)[e] + i * g, h = o * N(fa_tanh)(c);
            gates[0] = i;
            gates[hidden] = f;
            gates[2 * hidden] = g;
            gates[3 * hidden] = o;
            ARG(REAL, 0)[e] = h;
            ARG(REAL, 1)[e] = h;
            ARG(REAL, 2)[e] = c;
        }
    }
}

KERNEL(N(lstm_step_backward), 256) {
    ITEMS(256) {
        if (STEP_INSIDE) {
            STEP_PLACE(4)
            GLOBAL const REAL *gates = ARG(REAL, 2) + at;
            GLOBAL REAL *to = ARG(REAL, 0) + at;
            const REAL i = gates[0], f = gates[hidden], g = gates[2 * hidden], o = gates[3 * hidden], before = ARG(REAL, 3)[e];
            const REAL t = N(fa_tanh)(f * before + i * g), dh = ARG(REAL, 5)[e] + (P.view[4].kind ? ARG(REAL, 4)[e] : 0);
            const REAL dc = ARG(REAL, 1)[e] + dh * o * (1 - t * t);
            to[0] = dc * g * i * (1 - i);
            to[hidden] = dc * before * f * (1 - f);
            to[2 * hidden] = dc * i * (1 - g * g);
            to[3 * hidden] = dh * t * o * (1 - o);
            ARG(REAL, 1)[e] = dc * f;
        }
    }
}

KERNEL(N(gru_step), 256) {
    ITEMS(256) {
        if (STEP_INSIDE) {
            STEP_PLACE(3)
            GLOBAL REAL *gates = ARG(REAL, 2) + at;
            GLOBAL const REAL *own = ARG(REAL, 3) + at;
            const REAL r = N(gate)(gates[0] + own[0]), z = N(gate)(gates[hidden] + own[hidden]);
            const REAL n = N(fa_tanh)(gates[2 * hidden] + r * own[2 * hidden]), h = n + z * (ARG(REAL, 4)[e] - n);
            gates[0] = r;
            gates[hidden] = z;
            gates[2 * hidden] = n;
            ARG(REAL, 0)[e] = h;
            ARG(REAL, 1)[e] = h;
        }
    }
}

KERNEL(N(gru_step_backward), 256) {
    ITEMS(256) {
        if (STEP_INSIDE) {
            STEP_PLACE(3)
            GLOBAL const REAL *gates = ARG(REAL, 3) + at;
            GLOBAL REAL *to = ARG(REAL, 0) + at, *to_own = ARG(REAL, 1) + at;
            const REAL r = gates[0], z = gates[hidden], n = gates[2 * hidden], own = ARG(REAL, 4)[at + 2 * hidden];
            const REAL dh = ARG(REAL, 2)[e] + (P.view[6].kind ? ARG(REAL, 6)[e] : 0);
            const REAL dn = dh * (1 - z) * (1 - n * n), dz = dh * (ARG(REAL, 5)[e] - n) * z * (1 - z),
                       dr = dn * own * r * (1 - r);
            to[0] = to_own[0] = dr;
            to[hidden] = to_own[hidden] = dz;
            to[2 * hidden] = dn;
            to_own[2 * hidden] = dn * r;
            ARG(REAL, 2)[e] = dh * z;
        }
    }
}

KERNEL(N(rnn_step), 256) {
    ITEMS(256) {
        if (STEP_INSIDE) {
            const fa_i64 e = GROUP * 256 + item;
            const REAL x = ARG(REAL, 2)[e], h = P.n[2] ? (x <= 0 ? 0 : x) : N(fa_tanh)(x);
            ARG(REAL, 0)[e] = h;
            ARG(REAL, 1)[e] = h;
        }
    }
}

KERNEL(N(rnn_step_backward), 256) {
    ITEMS(256) {
        if (STEP_INSIDE) {
            const fa_i64 e = GROUP * 256 + item;
            const REAL y = ARG(REAL, 1)[e], dh = ARG(REAL, 3)[e] + (P.view[2].kind ? ARG(REAL, 2)[e] : 0);
            ARG(REAL, 0)[e] = P.n[2] ? (y > 0 ? dh : 0) : dh * (1 - y * y);
        }
    }
}
