/* What a kernel gets: one parameter block of fixed layout, then eight pointers. Read by gcc, NVRTC and OpenCL alike: plain
 * structs of int, long long and double, no pointer, no bool, nothing of the host. The simulator checks every pointer and
 * span of it before a launch. */
#ifndef FA_PLAN_H
#define FA_PLAN_H

#ifdef __OPENCL_VERSION__
typedef long fa_i64;
#else
typedef long long fa_i64;
#endif

#define FA_PLAN_DIMS 8
#define FA_PLAN_VIEWS 8
#define FA_PLAN_INTS 24
#define FA_PLAN_FLOATS 8

/* One operand. Element (i0, i1, ...) lies at pointer + (i0 * stride[0] + i1 * stride[1] + ...) elements. Strides may be 0
 * (broadcast) or negative (flip). kind FA_VIEW_SCALAR: no memory, the value is in f[k] (floating) and n[k] (integer). */
typedef struct fa_plan_view {
    fa_i64 size[FA_PLAN_DIMS], stride[FA_PLAN_DIMS];
    fa_i64 low, high;    /* bytes that the kernel may touch, relative to the pointer: [low, high) */
    int ndim, dtype;     /* dtype: fa_dtype */
    int kind, writes;    /* kind: below; writes: 1 if the kernel stores through it */
} fa_plan_view;

enum { FA_VIEW_NONE = 0, FA_VIEW_TENSOR = 1, FA_VIEW_SCALAR = 2, FA_VIEW_TABLE = 3 /* memory holds device addresses */ };

/* An operand of kind FA_VIEW_TABLE is a list of operands: device memory with size[0] of these entries, so [low, high) is
 * [0, 16 * size[0]). The kernel may touch [address, address + bytes) of each; address 0 is none. TABLE(type, k, i) of dialect.h
 * is the i-th pointer. (The simulator gives the kernel a translated copy, so a kernel can't write to a table.) Where kernels see
 * memory only through objects (OpenCL), the plan lists those that its tables lead to, at most eight: n[16 ..] has the bits of their
 * addresses from 40 on, 0: none. */
typedef struct fa_table_entry {
    fa_i64 address, bytes;
} fa_table_entry;
enum { FA_PLAN_OBJECTS = 8, FA_PLAN_OBJECTS_AT = FA_PLAN_INTS - FA_PLAN_OBJECTS, FA_OBJECT_SHIFT = 40 };

typedef struct fa_plan {
    fa_i64 groups;                /* work-groups launched; each kernel says what one does */
    fa_i64 numel;                 /* elements of the iteration space */
    fa_i64 n[FA_PLAN_INTS];       /* the kernel's own integers, named by a comment in its text */
#ifdef FA_NO_F64 /* OpenCL devices without float64: the backend writes them like this */
    float f[FA_PLAN_FLOATS], unused[FA_PLAN_FLOATS];
#else
    double f[FA_PLAN_FLOATS];     /* and floating numbers */
#endif
    int row, nviews;              /* row: the elementwise or reduction row to apply */
    int ndim, pad;
    fa_plan_view view[FA_PLAN_VIEWS];  /* outputs first */
} fa_plan;

/* Element types as in fa_base.h (a test compares them). */
enum { FA_T_BOOL = 1, FA_T_UINT8, FA_T_INT8, FA_T_INT16, FA_T_INT32, FA_T_INT64, FA_T_FLOAT16, FA_T_BFLOAT16, FA_T_FLOAT32, FA_T_FLOAT64 };

#endif
