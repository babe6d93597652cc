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
 * elementwise.tab; -DFA_ROW=<row> leaves only one of them in the program.
 *
 * chain: up to eight rows over the same elements, one after the other, each of which may read what those before it made.
 * Each result is rounded to its own element type at once, so that the bits are those of as many launches.
 *
 *   n[0..7]    the steps, bits from the lowest: row 10; four values 5 each; first number of the row's own 3; the view that
 *              gets the result 4 (8: none); the result's element type 4. A value is 0..7 a view as it was before the launch, 8..15
 *              a step's result, 16..23 a number
 *   n[8], n[9] how many steps; six bits for each view: element type 4, 1 if it is read, 1 if its elements lie in order without gaps
 *   n[10]      how many numbers: f[0..7], in the i64 instance n[16..23]
 *   view[k]    each has its own dimensions: element i of the space is its element i in row-major order
 *   groups     ceil(numel / 1024)
 *
 * -DFA_CHAIN=<steps> with -DFA_S0=<n[0]> to FA_S7 and -DFA_VIEWS=<n[9]> makes the program of that one chain: all that the steps
 * say is constant then, and values are registers. A device's program has no chain but by these. */

#include "pieces.h"

#define EW_GROUP 1024
#if defined(FA_CHAIN)
#define EW_HAS_ROW(r) ((FA_S0 & 1023) == (r) || (FA_S1 & 1023) == (r) || (FA_S2 & 1023) == (r) || (FA_S3 & 1023) == (r) || \
                       (FA_S4 & 1023) == (r) || (FA_S5 & 1023) == (r) || (FA_S6 & 1023) == (r) || (FA_S7 & 1023) == (r))
#elif defined(FA_ROW)
#define EW_HAS_ROW(r) (FA_ROW == (r))
#else
#define EW_HAS_ROW(r) 1
#endif

/* One row, for all items of the group at once in C. */
#define EW_PARAM(k) param[k]
#ifdef FA_IS_C
static __attribute__((noinline)) void N(ew_row)(int row, const REAL *restrict a, const REAL *restrict b, const REAL *restrict c,
                                                const REAL *restrict d, REAL *restrict out, const REAL *param) {
    switch (row) {
#include "ew_rows.h"
    default:
        ITEMS(256) { MINE(out) = (REAL)0; }
        break;
    }
}
#define EW_APPLY(row, a, b, c, d, out) N(ew_row)(row, a, b, c, d, out, param)
#else
FN REAL N(ew_row)(int row, REAL a, REAL b, REAL c, REAL d, const REAL *param) {
    REAL out = (REAL)0;
    switch (row) {
#include "ew_rows.h"
    default: break;
    }
    return out;
}
#define EW_APPLY(row, a, b, c, d, out) out = N(ew_row)(row, a, b, c, d, param)
#endif

#ifndef FA_CHAIN
#if defined(FA_I64)
#define EW_NUMBER(k) (P.n[k])
#else
#define EW_NUMBER(k) ((REAL)P.f[k])
#endif
#define EW_OPERAND(k, offset) \
    (P.view[k].kind == FA_VIEW_TENSOR ? LOAD_ARG(k, offset) : P.view[k].kind == FA_VIEW_SCALAR ? EW_NUMBER(k) : (REAL)0)
#define EW_STEP(v) P.view[v].stride[k]

#if defined(FA_IS_C) && defined(FA_OWN)
/* Whether results lie side by side, and rows are long enough to be taken as pieces. */
FN int N(ew_is_dense)(const fa_plan *plan) {
    fa_i64 stride = 1;
    int dense = plan->ndim > 0 && plan->view[0].size[plan->ndim - 1] >= FA_PIECE_ROW;
    for (int k = plan->ndim - 1; k >= 0; --k) {
        dense &= plan->view[0].stride[k] == stride || plan->view[0].size[k] == 1;
        stride *= plan->view[0].size[k];
    }
    return dense;
}
/* Operand k of 256 elements from the first one on, of which count are there; a number lies in room already. */
FN const REAL *N(ew_source)(const fa_plan *plan, int k, const REAL *memory, fa_i64 first, int count, REAL *room) {
    if (plan->view[k].kind != FA_VIEW_TENSOR) return room;
    const REAL *found = fa_piece(plan->view[0].size, plan->view[k].stride, 0, plan->ndim, memory, first, count, room);
    if (count == 256) return found;
    if (found != room) memcpy(room, found, (size_t)count * sizeof(REAL));
    for (int i = count; i < 256; ++i) room[i] = 0;
    return room;
}
#define EW_FILL(k, x) if (P.view[k].kind == FA_VIEW_SCALAR) ITEMS(256) { MINE(x) = EW_NUMBER(k); }
#define EW_SOURCE(k, x) N(ew_source)(&P, k, ARG(const REAL, k), first, count, x)
#endif

KERNEL(N(ew), 256) {
    PRIVATE(REAL, a, 256);
    PRIVATE(REAL, b, 256);
    PRIVATE(REAL, c, 256);
    PRIVATE(REAL, d, 256);
    PRIVATE(REAL, out, 256);
    PRIVATE(fa_i64, place, 256);
    REAL param[3];
    for (int i = 0; i < 3; ++i) param[i] = EW_NUMBER(5 + i);
#ifdef EW_SOURCE
    const int dense = N(ew_is_dense)(&P);
    if (dense) {
        EW_FILL(1, a) EW_FILL(2, b) EW_FILL(3, c) EW_FILL(4, d)
    }
#endif
    for (fa_i64 first = GROUP * EW_GROUP; first < (GROUP + 1) * EW_GROUP && first < P.numel; first += 256) {
#ifdef EW_SOURCE
        if (dense) {
            const int count = P.numel - first < 256 ? (int)(P.numel - first) : 256;
            EW_APPLY(P.row, EW_SOURCE(1, a), EW_SOURCE(2, b), EW_SOURCE(3, c), EW_SOURCE(4, d), out);
            memcpy(ARG(REAL, 0) + first, out, (size_t)count * sizeof(REAL)); /* it may be an operand too */
            continue;
        }
#endif
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
        EW_APPLY(P.row, a, b, c, d, out);
        ITEMS(256) {
            if (first + item < P.numel) STORE_ARG(0, MINE(place), MINE(out));
        }
    }
}
#undef EW_NUMBER
#undef EW_OPERAND
#undef EW_STEP
#undef EW_FILL
#undef EW_SOURCE
#endif

#if defined(FA_CHAIN) || defined(FA_IS_C)
#if defined(FA_CHAIN)
#define CHAIN_VIEWS FA_VIEWS
#else
#define CHAIN_VIEWS (P.n[9])
#endif
#define CHAIN_TYPE(k) ((int)(CHAIN_VIEWS >> (6 * (k)) & 15))
#define CHAIN_IS_READ(k) ((CHAIN_VIEWS >> (6 * (k) + 4) & 1) != 0)
#define CHAIN_IS_DENSE(k) ((CHAIN_VIEWS >> (6 * (k) + 5) & 1) != 0)
#define CHAIN_STEP_VALUE(code, k) MINE_OF_GROUP(value, (int)((code) >> (10 + 5 * (k)) & 31))
#ifdef FA_IS_C
#define MINE_OF_GROUP(name, i) name[i]
#define CHAIN_POINTER(k) (pointer[k])
#else
#define MINE_OF_GROUP(name, i) MINE_OF(name, i)
#define CHAIN_POINTER(k) ((k) == 0 ? ARG(char, 0) : (k) == 1 ? ARG(char, 1) : (k) == 2 ? ARG(char, 2) : (k) == 3 ? ARG(char, 3) : \
                          (k) == 4 ? ARG(char, 4) : (k) == 5 ? ARG(char, 5) : (k) == 6 ? ARG(char, 6) : ARG(char, 7))
#endif
#if defined(FA_F32)
#define CHAIN_OWN FA_T_FLOAT32
#define CHAIN_NUMBER(i) ((REAL)P.f[i])
#elif defined(FA_F64)
#define CHAIN_OWN FA_T_FLOAT64
#define CHAIN_NUMBER(i) ((REAL)P.f[i])
#else
#define CHAIN_OWN FA_T_INT64
#define CHAIN_NUMBER(i) (P.n[16 + (i)])
#endif

/* What a value is after it was stored as an element of that type and loaded again. */
FN REAL N(chain_rounded)(int dtype, REAL v) {
#if defined(FA_I64)
    switch (dtype) {
    case FA_T_BOOL: return v != 0;
    case FA_T_UINT8: return (fa_u8)v;
    case FA_T_INT8: return (fa_i8)v;
    case FA_T_INT16: return (fa_i16)v;
    case FA_T_INT32: return (fa_i32)v;
    default: return v;
    }
#else
    switch (dtype) {
    case FA_T_BOOL: return (REAL)(v != 0);
    case FA_T_FLOAT16: return (REAL)fa_half_to_f32(fa_f32_to_half((float)v));
    case FA_T_BFLOAT16: return (REAL)fa_bf16_to_f32(fa_f32_to_bf16((float)v));
    case FA_T_FLOAT32: return (REAL)(float)v;
    default: return v;
    }
#endif
}

#define CHAIN_LOAD(k)                                                                                                     \
    if (CHAIN_IS_READ(k) && CHAIN_IS_DENSE(k) && CHAIN_TYPE(k) == CHAIN_OWN && first + 256 <= P.numel) {                  \
        ITEMS(256) { MINE_OF(value, k) = ((GLOBAL const REAL *)CHAIN_POINTER(k))[first + item]; }                         \
    } else if (CHAIN_IS_READ(k)) {                                                                                        \
        ITEMS(256) { /* items past the end do the last element once more, and keep it to themselves */                    \
            fa_i64 rest = first + item < P.numel ? first + item : P.numel - 1, at = 0;                                    \
            for (int d = CHAIN_IS_DENSE(k) ? 0 : P.view[k].ndim - 1; d > 0; --d) {                                        \
                const fa_i64 size = P.view[k].size[d];                                                                    \
                const int narrow = (rest >> 31) == 0 && (size >> 31) == 0;                                                \
                const fa_i64 before = narrow ? (fa_i64)((fa_u32)rest / (fa_u32)size) : rest / size;                       \
                at += (rest - before * size) * P.view[k].stride[d];                                                       \
                rest = before;                                                                                            \
            }                                                                                                             \
            at += CHAIN_IS_DENSE(k) ? rest : rest * P.view[k].stride[0];                                                  \
            MINE_OF(value, k) = LOAD(CHAIN_POINTER(k), CHAIN_TYPE(k), at);                                                \
        }                                                                                                                 \
    }

#define CHAIN_STEP(s, code) {                                                                                             \
    const int type = (int)((code) >> 37 & 15), to = (int)((code) >> 33 & 15);                                             \
    REAL param[3];                                                                                                        \
    for (int i = 0; i < 3; ++i) param[i] = CHAIN_NUMBER(((int)((code) >> 30) + i) & 7);                                   \
    EW_APPLY((int)((code) & 1023), CHAIN_STEP_VALUE(code, 0), CHAIN_STEP_VALUE(code, 1), CHAIN_STEP_VALUE(code, 2),       \
             CHAIN_STEP_VALUE(code, 3), MINE_OF_GROUP(value, 8 + (s)));                                                   \
    if (type != CHAIN_OWN) {                                                                                              \
        ITEMS(256) { MINE_OF(value, 8 + (s)) = N(chain_rounded)(type, MINE_OF(value, 8 + (s))); }                         \
    }                                                                                                                     \
    if (to < 8 && type == CHAIN_OWN && first + 256 <= P.numel) {                                                          \
        ITEMS(256) { ((GLOBAL REAL *)CHAIN_POINTER(to))[first + item] = MINE_OF(value, 8 + (s)); }                        \
    } else if (to < 8) {                                                                                                  \
        ITEMS(256) {                                                                                                      \
            if (first + item < P.numel) STORE(CHAIN_POINTER(to), type, first + item, MINE_OF(value, 8 + (s)));            \
        }                                                                                                                 \
    }                                                                                                                     \
}

KERNEL(N(chain), 256) {
    PRIVATES(REAL, value, 24, 256);
#ifdef FA_IS_C
    char *const pointer[8] = {ARG(char, 0), ARG(char, 1), ARG(char, 2), ARG(char, 3), ARG(char, 4), ARG(char, 5), ARG(char, 6), ARG(char, 7)};
    for (int i = 0; i < P.n[10]; ++i) ITEMS(256) { MINE_OF(value, 16 + i) = CHAIN_NUMBER(i); }
#else
    UNROLLED for (int i = 0; i < 8; ++i) MINE_OF(value, 16 + i) = CHAIN_NUMBER(i);
#endif
    for (int part = 0; part < EW_GROUP / 256; ++part) {
        const fa_i64 first = GROUP * EW_GROUP + part * 256;
#ifdef FA_CHAIN
        CHAIN_LOAD(0) CHAIN_LOAD(1) CHAIN_LOAD(2) CHAIN_LOAD(3) CHAIN_LOAD(4) CHAIN_LOAD(5) CHAIN_LOAD(6) CHAIN_LOAD(7)
        CHAIN_STEP(0, (fa_i64)FA_S0)
#if FA_CHAIN > 1
        CHAIN_STEP(1, (fa_i64)FA_S1)
#endif
#if FA_CHAIN > 2
        CHAIN_STEP(2, (fa_i64)FA_S2)
#endif
#if FA_CHAIN > 3
        CHAIN_STEP(3, (fa_i64)FA_S3)
#endif
#if FA_CHAIN > 4
        CHAIN_STEP(4, (fa_i64)FA_S4)
#endif
#if FA_CHAIN > 5
        CHAIN_STEP(5, (fa_i64)FA_S5)
#endif
#if FA_CHAIN > 6
        CHAIN_STEP(6, (fa_i64)FA_S6)
#endif
#if FA_CHAIN > 7
        CHAIN_STEP(7, (fa_i64)FA_S7)
#endif
#else
        if (first >= P.numel) break;
        for (int k = 0; k < 8; ++k) CHAIN_LOAD(k)
        for (int s = 0; s < P.n[8]; ++s) CHAIN_STEP(s, P.n[s])
#endif
    }
}
#undef CHAIN_VIEWS
#undef CHAIN_TYPE
#undef CHAIN_IS_READ
#undef CHAIN_IS_DENSE
#undef CHAIN_STEP_VALUE
#undef MINE_OF_GROUP
#undef CHAIN_POINTER
#undef CHAIN_OWN
#undef CHAIN_NUMBER
#undef CHAIN_LOAD
#undef CHAIN_STEP
#endif
#undef EW_GROUP
#undef EW_HAS_ROW
#undef EW_PARAM
#undef EW_APPLY
