/* Elementwise: one row, or the derivative of one, over tensors of any layout and element type.
 *
 *   row        the loop: FAI_ROW_<name> of kernels_gen.h
 *   view[0]    the result; view[1] ... the operands in the row's order, at most 4; all have view[0]'s sizes: broadcast operands
 *              have strides 0. kind FA_VIEW_SCALAR: a number, in f[k] for the k-th view (n[k] in the i64 instance)
 *   ndim       dimensions of the iteration space, merged by the host as far as all strides allow; numel its elements
 *   f[5..7]    the row's own numbers, in order (n[5..7] in the i64 instance)
 *   groups     ceil(numel / 1024)
 *
 * Elements are computed in REAL, the instance's type, whatever their storage types are. The cases are generated from
 * elementwise.tab; -DFA_ROW=<row> leaves only one of them in the program. */

#define EW_GROUP 1024
#if defined(FA_I64)
#define EW_NUMBER(k) (P.n[k])
#else
#define EW_NUMBER(k) ((REAL)P.f[k])
#endif
#define EW_PARAM(k) EW_NUMBER(5 + (k))
#define EW_OPERAND(k, offset) \
    (P.view[k].kind == FA_VIEW_TENSOR ? LOAD_ARG(k, offset) : P.view[k].kind == FA_VIEW_SCALAR ? EW_NUMBER(k) : (REAL)0)
#define EW_STEP(v) P.view[v].stride[k]

KERNEL(N(ew), 256) {
    PRIVATE(REAL, a, 256);
    PRIVATE(REAL, b, 256);
    PRIVATE(REAL, c, 256);
    PRIVATE(REAL, d, 256);
    PRIVATE(REAL, out, 256);
    PRIVATE(fa_i64, place, 256);
    for (int part = 0; part < EW_GROUP / 256; ++part) {
        const fa_i64 first = GROUP * EW_GROUP + part * 256;
        ITEMS(256) { /* items past the end do the last element once more, and keep it to themselves */
            fa_i64 rest = first + item < P.numel ? first + item : P.numel - 1;
            fa_i64 o0 = 0, o1 = 0, o2 = 0, o3 = 0, o4 = 0;
            for (int k = P.ndim - 1; k >= 0; --k) {
                const fa_i64 size = P.view[0].size[k];
                fa_i64 x = rest;
                if (k > 0 && (rest >> 31) == 0 && (size >> 31) == 0) { /* a division of 64 bits is slow on a GPU */
                    x = (fa_i64)((fa_u32)rest % (fa_u32)size);
                    rest = (fa_i64)((fa_u32)rest / (fa_u32)size);
                } else if (k > 0) {
                    x = rest % size;
                    rest = rest / size;
                }
                o0 += x * EW_STEP(0);
                o1 += x * EW_STEP(1);
                o2 += x * EW_STEP(2);
                o3 += x * EW_STEP(3);
                o4 += x * EW_STEP(4);
            }
            MINE(place) = o0;
            MINE(a) = EW_OPERAND(1, o1);
            MINE(b) = EW_OPERAND(2, o2);
            MINE(c) = EW_OPERAND(3, o3);
            MINE(d) = EW_OPERAND(4, o4);
        }
        switch (P.row) {
#include "ew_rows.h"
        default:
            ITEMS(256) { MINE(out) = (REAL)0; }
            break;
        }
        ITEMS(256) {
            if (first + item < P.numel) STORE_ARG(0, MINE(place), MINE(out));
        }
    }
}
#undef EW_NUMBER
#undef EW_PARAM
#undef EW_OPERAND
#undef EW_STEP
