/* Reading and writing by index, for elements of 1, 2, 4 or 8 bytes whatever they mean, and the places of nonzero elements.
 *
 * An index tensor names places along one dimension of a tensor. The kernels run over `numel` elements of P.view[...].size; each
 * operand has a stride for every dimension of that space: the indexed tensor 0 where the index decides, the index tensor 0 where
 * it is repeated. So gather, index_select, embedding and x[i] are one kernel, scatter and x[i] = v another.
 *
 *   index_read    view[0] = out, whose sizes are the space; view[1] = x, view[2] = index, view[3] = status?
 *   index_write   view[0] = out, view[1] = x, whose sizes are the space; view[2] = index, view[3] = status?
 *                 Where one place is written twice, any of the values stays.
 *   n[0] = bytes of an element, n[1] = elements in the indexed tensor from one index to the next, n[2] = size of the indexed
 *   dimension, n[3] = its number, n[4] = kind of the report (status.h), n[5] = 1: no negative indices, n[7] = op of the report
 *   groups = ceil(numel / 1024)
 *
 * A negative index counts from the end. A bad one is reported; reading takes it as 0, writing leaves it out. Without status an index
 * is taken as it is.
 *
 *   index_offset  several index tensors, or a check beforehand: view[0] = int64 offsets, contiguous, whose sizes are the space;
 *                 view[1] = index, view[2] = status. out = index * n[1], and with n[6] = 1 what is there is added; n[1] .. n[5]
 *                 as above; n[8] .. n[15]: strides of the space, whose offset is added too
 *
 *   nonzero_count view[0] = int64 [blocks], view[1] = x: the number of nonzeros in each block of 1,024 elements; groups = blocks
 *   nonzero_write view[0] = int64 [nonzeros, dimensions], view[1] = x, view[2] = int64 [blocks], running sums of those numbers
 *                 In order of the elements. */
#include "status.h"

/* Offset of element i of the space in operand k. */
#define OFFSET(k, space) index_offset_of(i, P.ndim, P.view[space].size, P.view[k].stride)

FN fa_i64 index_offset_of(fa_i64 i, int ndim, PLAN_SPACE const fa_i64 *size, PLAN_SPACE const fa_i64 *stride) {
    fa_i64 offset = 0;
    for (int d = ndim - 1; d > 0; --d) {
        offset += i % size[d] * stride[d];
        i /= size[d];
    }
    return ndim > 0 ? offset + i * stride[0] : 0;
}

/* Which element of the index tensor that is: dimensions in which the index is repeated do not count. */
FN fa_i64 index_position(fa_i64 i, int ndim, PLAN_SPACE const fa_i64 *size, PLAN_SPACE const fa_i64 *stride) {
    fa_i64 position = 0, scale = 1;
    for (int d = ndim - 1; d >= 0; --d) {
        if (stride[d] != 0) {
            position += i % size[d] * scale;
            scale *= size[d];
        }
        i /= size[d];
    }
    return position;
}

/* The place that an index names, -1 if it is bad. k: the operand that is the index. */
#define CHECKED(index, status, k, space)                                                                                         \
    ((index) >= (P.n[5] ? 0 : -P.n[2]) && (index) < P.n[2]                                                                       \
         ? ((index) < 0 ? (index) + P.n[2] : (index))                                                                            \
         : index_refused(ARG(fa_i64, status), (int)P.n[4], index, P.n[3], P.n[2],                                                \
                         index_position(i, P.ndim, P.view[space].size, P.view[k].stride), P.n[7]))

FN fa_i64 index_refused(GLOBAL fa_i64 *status, int kind, fa_i64 index, fa_i64 dim, fa_i64 size, fa_i64 position, fa_i64 op) {
    report_index(status, kind, index, dim, size, position, op);
    return -1;
}

FN void index_copy(GLOBAL char *to, fa_i64 i, GLOBAL const char *from, fa_i64 k, int bytes) {
    switch (bytes) {
    case 1: ((GLOBAL fa_u8 *)to)[i] = ((GLOBAL const fa_u8 *)from)[k]; break;
    case 2: ((GLOBAL fa_u16 *)to)[i] = ((GLOBAL const fa_u16 *)from)[k]; break;
    case 4: ((GLOBAL fa_u32 *)to)[i] = ((GLOBAL const fa_u32 *)from)[k]; break;
    default: ((GLOBAL fa_u64 *)to)[i] = ((GLOBAL const fa_u64 *)from)[k]; break;
    }
}

KERNEL(index_read, 256) {
    ITEMS(256) {
        for (int part = 0; part < 4; ++part) {
            const fa_i64 i = GROUP * 1024 + part * 256 + item;
            if (i < P.numel) {
                fa_i64 index = fa_load_i64(ARG(const char, 2), P.view[2].dtype, OFFSET(2, 0));
                if (P.view[3].kind) index = CHECKED(index, 3, 2, 0);
                index_copy(ARG(char, 0), OFFSET(0, 0), ARG(const char, 1), OFFSET(1, 0) + (index < 0 ? 0 : index) * P.n[1],
                           (int)P.n[0]);
            }
        }
    }
}

KERNEL(index_write, 256) {
    ITEMS(256) {
        for (int part = 0; part < 4; ++part) {
            const fa_i64 i = GROUP * 1024 + part * 256 + item;
            if (i < P.numel) {
                fa_i64 index = fa_load_i64(ARG(const char, 2), P.view[2].dtype, OFFSET(2, 1));
                if (P.view[3].kind) index = CHECKED(index, 3, 2, 1);
                if (index >= 0)
                    index_copy(ARG(char, 0), OFFSET(0, 1) + index * P.n[1], ARG(const char, 1), OFFSET(1, 1), (int)P.n[0]);
            }
        }
    }
}

KERNEL(index_offset, 256) {
    ITEMS(256) {
        for (int part = 0; part < 4; ++part) {
            const fa_i64 i = GROUP * 1024 + part * 256 + item;
            if (i < P.numel) {
                const fa_i64 index = fa_load_i64(ARG(const char, 1), P.view[1].dtype, OFFSET(1, 0));
                const fa_i64 checked = CHECKED(index, 2, 1, 0), offset = (checked < 0 ? 0 : checked) * P.n[1];
                const fa_i64 before = P.n[6] ? ARG(fa_i64, 0)[i] : 0;
                ARG(fa_i64, 0)[i] = before + offset + index_offset_of(i, P.ndim, P.view[0].size, &P.n[8]);
            }
        }
    }
}

/* Whether element i of x is there and nonzero; items hold 4 elements side by side. */
#define NONZERO (i < P.numel && fa_load_f64(ARG(const char, 1), P.view[1].dtype, OFFSET(1, 1)) != 0)

KERNEL(nonzero_count, 256) {
    LOCAL(int, found, 256);
    ITEMS(256) {
        found[item] = 0;
        for (int part = 0; part < 4; ++part) {
            const fa_i64 i = GROUP * 1024 + item * 4 + part;
            if (NONZERO) found[item]++;
        }
    }
    BARRIER();
    ITEMS(256) {
        if (item == 0) {
            fa_i64 sum = 0;
            for (int other = 0; other < 256; ++other) sum += found[other];
            ARG(fa_i64, 0)[GROUP] = sum;
        }
    }
}

KERNEL(nonzero_write, 256) {
    LOCAL(int, found, 256);
    ITEMS(256) {
        found[item] = 0;
        for (int part = 0; part < 4; ++part) {
            const fa_i64 i = GROUP * 1024 + item * 4 + part;
            if (NONZERO) found[item]++;
        }
    }
    BARRIER();
    ITEMS(256) {
        fa_i64 at = GROUP > 0 ? ARG(const fa_i64, 2)[GROUP - 1] : 0;
        for (int other = 0; other < item; ++other) at += found[other];
        for (int part = 0; part < 4; ++part) {
            const fa_i64 i = GROUP * 1024 + item * 4 + part;
            if (NONZERO) {
                fa_i64 rest = i;
                for (int d = P.ndim - 1; d >= 0; --d) {
                    ARG(fa_i64, 0)[at * P.ndim + d] = rest % P.view[1].size[d];
                    rest /= P.view[1].size[d];
                }
                ++at;
            }
        }
    }
}

#undef OFFSET
#undef CHECKED
#undef NONZERO
