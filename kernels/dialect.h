/* The dialect that kernels are written in: one text for NVRTC (CUDA), OpenCL C and plain C.
 *
 *   KERNEL(scale, 256) {                      // every kernel gets the plan P and eight pointers
 *       LOCAL(REAL, sum, 256);                // memory of the work-group; only at the kernel's top level
 *       PRIVATE(REAL, mine, 256);             // a value of each item that lives across a BARRIER: MINE(mine)
 *       PRIVATES(REAL, several, 8, 256);      // eight of them: MINE_OF(several, i), i a constant or counted by an UNROLLED for
 *       ITEMS(256) { MINE(mine) = ...; sum[item] = ...; }
 *       BARRIER();
 *       ITEMS(256) { ... }
 *       GRID(16, 16) { sum[item] = f(GRID_Y(16), GRID_X(16)); }   // the same, counted as 16 rows of 16
 *   }
 *
 * On a GPU ITEMS is nothing and BARRIER a barrier; in C ITEMS is a loop over the work-group and BARRIER nothing. So: no return,
 * break or continue that leaves an ITEMS block; what is declared outside ITEMS is the same for the whole group; group sizes
 * are constants. A kernel with a table among its operands is a TABLES_KERNEL. Items of one block don't see each other's writes: the C build runs 8 or 16 at once in one vector, where nothing
 * in the block hinders it: branches that are values (?:), side by side in memory, inner loops of constant length over
 * scalars. GRID's vectors are parts of its rows. ITEMS(n) { if (item < n) ... } spares the C build the items that would do
 * nothing. `item` is the item's number, GROUP the group's (0 .. P.groups-1), ARG(type, k) the k-th pointer (k a plain digit).
 * Pointers of helpers name the memory that they lead to: GLOBAL, LOCAL_POINTER, PLAN_SPACE (into P), or nothing for what is the
 * item's own.
 * REAL, INT_REAL and N(name) come from the family's instance (f32, f64, i64): N(scale) is scale_f32. */
#ifndef FA_DIALECT_H
#define FA_DIALECT_H

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define FA_IS_CUDA 1
typedef signed char fa_i8; typedef unsigned char fa_u8; typedef short fa_i16; typedef unsigned short fa_u16;
typedef int fa_i32; typedef unsigned int fa_u32; typedef unsigned long long fa_u64; typedef float fa_f32; typedef double fa_f64;
#define GLOBAL
#define LOCAL_POINTER
#define PLAN_SPACE
#define FN __device__ static inline
#define CONSTANT __device__ const
#define KERNEL_(name, W) extern "C" __global__ void __launch_bounds__(W) name(const fa_plan P, char *fa_p0, char *fa_p1, char *fa_p2, char *fa_p3, \
                                                                             char *fa_p4, char *fa_p5, char *fa_p6, char *fa_p7)
#define KERNEL(name, W) KERNEL_(name, W)
#define ARG(type, k) ((type *)fa_p##k)
#define GROUP ((fa_i64)blockIdx.x)
#define item ((int)threadIdx.x)
#define ITEMS(W)
#define GRID(H, W)
#define GRID_Y(W) (item / (W))
#define GRID_X(W) (item % (W))
#define BARRIER() __syncthreads()
#define LOCAL(type, name, n) __shared__ type name[n]
#define PRIVATE(type, name, W) type name
#define MINE(name) name
#define PRIVATES(type, name, n, W) type name[n]
#define MINE_OF(name, i) name[i]
#define UNROLLED _Pragma("unroll")
#define fa_bits_f32(u) __uint_as_float(u)
#define fa_f32_bits(f) __float_as_uint(f)
#define fa_bits_f64(u) __longlong_as_double((long long)(u))
#define fa_f64_bits(f) ((fa_u64)__double_as_longlong(f))
#define fa_fma_f32(a, b, c) __fmaf_rn(a, b, c)
#define fa_fma_f64(a, b, c) __fma_rn(a, b, c)
#define fa_sqrt_f32(a) __fsqrt_rn(a)
#define fa_sqrt_f64(a) __dsqrt_rn(a)
#define fa_div_f32(a, b) __fdiv_rn(a, b)
#define fa_atomic_or_u32(p, v) atomicOr((p), (v))
#define fa_atomic_cas_u32(p, old, v) atomicCAS((p), (old), (v))

#elif defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
#define FA_IS_OPENCL 1
#ifdef FA_NO_F64 /* the backend defines it for devices without float64, where no float64 is let in: what is left converts numbers */
#define double float
#else
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#pragma OPENCL FP_CONTRACT OFF
typedef char fa_i8; typedef uchar fa_u8; typedef short fa_i16; typedef ushort fa_u16;
typedef int fa_i32; typedef uint fa_u32; typedef ulong fa_u64; typedef float fa_f32; typedef double fa_f64;
#define GLOBAL __global
#define LOCAL_POINTER __local
/* OpenCL knows no addresses, but objects of memory: a pointer is its object's beginning and an offset, which stands behind the
 * plan. The plan is an argument by value where the device takes that many bytes of arguments, and lies in memory elsewhere. */
typedef struct fa_block { fa_plan plan; fa_i64 offset[8]; } fa_block;
#ifdef FA_PLAN_BY_VALUE
#define PLAN_SPACE
#define FA_BLOCK_ARGUMENT const fa_block fa_block_
#define P (fa_block_.plan)
#define FA_OFFSET(k) (fa_block_.offset[k])
#else
#define PLAN_SPACE __constant
#define FA_BLOCK_ARGUMENT __constant fa_block *fa_block_
#define P (fa_block_->plan)
#define FA_OFFSET(k) (fa_block_->offset[k])
#endif
#define FN static inline
#define CONSTANT __constant
#define KERNEL_(name, W) __kernel __attribute__((reqd_work_group_size(W, 1, 1))) void name(FA_BLOCK_ARGUMENT, __global char *fa_p0, \
    __global char *fa_p1, __global char *fa_p2, __global char *fa_p3, __global char *fa_p4, __global char *fa_p5, __global char *fa_p6, __global char *fa_p7)
#define KERNEL(name, W) KERNEL_(name, W)
#ifdef FA_OBJECTS
#define FA_TABLES_KERNEL_(name, W) __kernel __attribute__((reqd_work_group_size(W, 1, 1))) void name(FA_BLOCK_ARGUMENT, __global char *fa_p0, \
    __global char *fa_p1, __global char *fa_p2, __global char *fa_p3, __global char *fa_p4, __global char *fa_p5, __global char *fa_p6, __global char *fa_p7, \
    __global char *fa_q0, __global char *fa_q1, __global char *fa_q2, __global char *fa_q3, __global char *fa_q4, __global char *fa_q5, __global char *fa_q6, __global char *fa_q7)
#define TABLES_KERNEL(name, W) FA_TABLES_KERNEL_(name, W)
/* The pointer for an address of a table's entry: its object and the offset in it. */
#define FA_OBJECT(k) ((int)plan->n[FA_PLAN_OBJECTS_AT + k] == object)
static inline __global char *fa_behind(PLAN_SPACE const fa_plan *plan, fa_i64 address, __global char *q0, __global char *q1, __global char *q2,
                                       __global char *q3, __global char *q4, __global char *q5, __global char *q6, __global char *q7) {
    const int object = (int)(address >> FA_OBJECT_SHIFT);
    __global char *begin = FA_OBJECT(0) ? q0 : FA_OBJECT(1) ? q1 : FA_OBJECT(2) ? q2 : FA_OBJECT(3) ? q3 : FA_OBJECT(4) ? q4 : FA_OBJECT(5) ? q5 : FA_OBJECT(6) ? q6 : q7;
    return begin + (address & (((fa_i64)1 << FA_OBJECT_SHIFT) - 1));
}
#define FA_BEHIND(address) fa_behind(&P, address, fa_q0, fa_q1, fa_q2, fa_q3, fa_q4, fa_q5, fa_q6, fa_q7)
#else /* nobody launches a kernel with a table */
#define FA_BEHIND(address) 0
#endif
#define ARG(type, k) ((__global type *)(fa_p##k + FA_OFFSET(k)))
#define GROUP ((fa_i64)get_group_id(0))
#define item ((int)get_local_id(0))
#define ITEMS(W)
#define GRID(H, W)
#define GRID_Y(W) (item / (W))
#define GRID_X(W) (item % (W))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define LOCAL(type, name, n) __local type name[n]
#define PRIVATE(type, name, W) type name
#define MINE(name) name
#define PRIVATES(type, name, n, W) type name[n]
#define MINE_OF(name, i) name[i]
#ifdef FA_NOT_UNROLLED /* CPUs: their arrays need no registers, and compiling the large kernels takes minutes otherwise */
#define UNROLLED
#else
#define UNROLLED __attribute__((opencl_unroll_hint))
#endif
#define fa_bits_f32(u) as_float(u)
#define fa_f32_bits(f) as_uint(f)
#define fa_bits_f64(u) as_double(u)
#define fa_f64_bits(f) as_ulong(f)
#define fa_fma_f32(a, b, c) fma((float)(a), (float)(b), (float)(c))
#define fa_fma_f64(a, b, c) fma((double)(a), (double)(b), (double)(c))
#define fa_sqrt_f32(a) sqrt((float)(a))
#define fa_sqrt_f64(a) sqrt((double)(a))
#define fa_div_f32(a, b) ((a) / (b))
#define fa_atomic_or_u32(p, v) atomic_or((p), (v))
#define fa_atomic_cas_u32(p, old, v) atomic_cmpxchg((p), (old), (v))

#else
#define FA_IS_C 1
#include <stdint.h>
#include <string.h>
#include <math.h>
typedef int8_t fa_i8; typedef uint8_t fa_u8; typedef int16_t fa_i16; typedef uint16_t fa_u16;
typedef int32_t fa_i32; typedef uint32_t fa_u32; typedef uint64_t fa_u64; typedef float fa_f32; typedef double fa_f64;
#define GLOBAL
#define LOCAL_POINTER
#define PLAN_SPACE
#define FN static inline __attribute__((unused))
#define CONSTANT static const
/* In C every kernel is void name(plan, pointers, group); the generated table (kernels_gen) loops over groups. The pointers are
 * taken out of their array at once: in a branch no compiler would dare to. */
#ifndef FA_KERNEL_LINKAGE
#define FA_KERNEL_LINKAGE
#endif
#define FA_P(k) char *fa_p##k __attribute__((unused))
#define FA_BODY(name)                                                                                               \
    static inline __attribute__((always_inline)) void name##_body(const fa_plan *fa_plan_, FA_P(0), FA_P(1), FA_P(2), \
        FA_P(3), FA_P(4), FA_P(5), FA_P(6), FA_P(7), fa_i64 fa_group_ __attribute__((unused)))
#define KERNEL_(name, W)                                                                                            \
    FA_BODY(name);                                                                                                  \
    FA_KERNEL_LINKAGE void name(const fa_plan *plan, char *const *p, fa_i64 group) {                                \
        name##_body(plan, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], group);                                   \
    }                                                                                                               \
    FA_BODY(name)
#define KERNEL(name, W) KERNEL_(name, W)
#define P (*fa_plan_)
#define ARG(type, k) ((type *)(void *)fa_p##k)
#define GROUP fa_group_
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* what it can't do at once it does one by one */
#define FA_SIDE_BY_SIDE _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#else
#define FA_SIDE_BY_SIDE _Pragma("GCC ivdep") _Pragma("GCC unroll 1") /* a short loop would be unrolled first, and then be none */
#endif
#define ITEMS(W) FA_SIDE_BY_SIDE for (int item = 0; item < (W); ++item)
#define GRID(H, W)                              \
    for (int fa_y = 0; fa_y < (H); ++fa_y)      \
        FA_SIDE_BY_SIDE for (int fa_x = 0, item = fa_y * (W); fa_x < (W); ++fa_x, ++item)
#define GRID_Y(W) fa_y
#define GRID_X(W) fa_x
#define BARRIER() ((void)0)
#define LOCAL(type, name, n) type name[n]
#define PRIVATE(type, name, W) type name[W]
#define MINE(name) name[item]
#define PRIVATES(type, name, n, W) type name[n][W] /* item by item in memory, so that ITEMS inside a loop over n is a vector loop */
#define MINE_OF(name, i) name[i][item]
#define UNROLLED
FN float fa_bits_f32(fa_u32 u) { float f; memcpy(&f, &u, 4); return f; }
FN fa_u32 fa_f32_bits(float f) { fa_u32 u; memcpy(&u, &f, 4); return u; }
FN double fa_bits_f64(fa_u64 u) { double f; memcpy(&f, &u, 8); return f; }
FN fa_u64 fa_f64_bits(double f) { fa_u64 u; memcpy(&u, &f, 8); return u; }
#define fa_fma_f32(a, b, c) __builtin_fmaf(a, b, c)
#define fa_fma_f64(a, b, c) __builtin_fma(a, b, c)
#define fa_sqrt_f32(a) __builtin_sqrtf(a)
#define fa_sqrt_f64(a) __builtin_sqrt(a)
#define fa_div_f32(a, b) ((a) / (b))
#define fa_atomic_or_u32(p, v) __atomic_fetch_or((p), (v), __ATOMIC_RELAXED)
FN fa_u32 fa_atomic_cas_u32(fa_u32 *p, fa_u32 old, fa_u32 v) { __atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED); return old; }
#endif

/* ---- float16 and bfloat16 are storage; arithmetic is in float ---- */
FN float fa_half_to_f32(fa_u16 h) {
    fa_u32 sign = (fa_u32)(h & 0x8000u) << 16, rest = (fa_u32)(h & 0x7fffu) << 13;
    fa_u32 exponent = rest & 0x0f800000u;
    float normal = fa_bits_f32(rest + 0x38000000u), subnormal = fa_bits_f32(rest + 0x38800000u) - fa_bits_f32(0x38800000u);
    fa_u32 u = exponent == 0x0f800000u ? (rest | 0x7f800000u) : exponent == 0 ? fa_f32_bits(subnormal) : fa_f32_bits(normal);
    return fa_bits_f32(u | sign);
}
FN fa_u16 fa_f32_to_half(float f) {
    fa_u32 u = fa_f32_bits(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu, h;
    if (a >= 0x47800000u) h = a > 0x7f800000u ? 0x7e00u : 0x7c00u;                       /* NaN; infinity and too large */
    else if (a < 0x38800000u) h = fa_f32_bits(fa_bits_f32(a) + 0.5f) - 0x3f000000u;     /* subnormal: the adder rounds */
    else h = (a + 0xc8000fffu + ((a >> 13) & 1u)) >> 13;                                 /* to nearest even */
    return (fa_u16)(h | sign);
}
FN float fa_bf16_to_f32(fa_u16 h) { return fa_bits_f32((fa_u32)h << 16); }
FN fa_u16 fa_f32_to_bf16(float f) {
    fa_u32 u = fa_f32_bits(f);
    return (fa_u16)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* ---- Any element type, loaded as or stored from a compute type. Conversions are torch's on x86: out of range and NaN to an
 * integer give the smallest int64 (int32 for types of 32 bits: the low bits of it). ---- */
FN fa_i64 fa_f64_to_i64(double v) { return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? (fa_i64)v : (fa_i64)(-9223372036854775807 - 1); }
FN fa_i32 fa_f64_to_i32(double v) { return v > -2147483649.0 && v < 2147483648.0 ? (fa_i32)v : (fa_i32)(-2147483647 - 1); }

#define FA_LOAD_BODY(type)                                                                     \
    switch (dtype) {                                                                           \
    case FA_T_BOOL: return (type)(((GLOBAL const fa_u8 *)p)[i] != 0);                          \
    case FA_T_UINT8: return (type)((GLOBAL const fa_u8 *)p)[i];                                \
    case FA_T_INT8: return (type)((GLOBAL const fa_i8 *)p)[i];                                 \
    case FA_T_INT16: return (type)((GLOBAL const fa_i16 *)p)[i];                               \
    case FA_T_INT32: return (type)((GLOBAL const fa_i32 *)p)[i];                               \
    case FA_T_INT64: return (type)((GLOBAL const fa_i64 *)p)[i];                               \
    case FA_T_FLOAT16: return (type)fa_half_to_f32(((GLOBAL const fa_u16 *)p)[i]);             \
    case FA_T_BFLOAT16: return (type)fa_bf16_to_f32(((GLOBAL const fa_u16 *)p)[i]);            \
    case FA_T_FLOAT32: return (type)((GLOBAL const float *)p)[i];                              \
    default: return (type)((GLOBAL const double *)p)[i];                                       \
    }
FN float fa_load_f32(GLOBAL const char *p, int dtype, fa_i64 i) { FA_LOAD_BODY(float) }
FN double fa_load_f64(GLOBAL const char *p, int dtype, fa_i64 i) { FA_LOAD_BODY(double) }
FN fa_i64 fa_load_i64(GLOBAL const char *p, int dtype, fa_i64 i) {
    if (dtype >= FA_T_FLOAT16) return fa_f64_to_i64(fa_load_f64(p, dtype, i));
    FA_LOAD_BODY(fa_i64)
}
#define FA_STORE_BODY(to_i64, to_i32)                                                          \
    switch (dtype) {                                                                           \
    case FA_T_BOOL: ((GLOBAL fa_u8 *)p)[i] = (fa_u8)(v != 0); break;                           \
    case FA_T_UINT8: ((GLOBAL fa_u8 *)p)[i] = (fa_u8)to_i32; break;                            \
    case FA_T_INT8: ((GLOBAL fa_i8 *)p)[i] = (fa_i8)to_i32; break;                             \
    case FA_T_INT16: ((GLOBAL fa_i16 *)p)[i] = (fa_i16)to_i32; break;                          \
    case FA_T_INT32: ((GLOBAL fa_i32 *)p)[i] = (fa_i32)to_i32; break;                          \
    case FA_T_INT64: ((GLOBAL fa_i64 *)p)[i] = to_i64; break;                                  \
    case FA_T_FLOAT16: ((GLOBAL fa_u16 *)p)[i] = fa_f32_to_half((float)v); break;              \
    case FA_T_BFLOAT16: ((GLOBAL fa_u16 *)p)[i] = fa_f32_to_bf16((float)v); break;             \
    case FA_T_FLOAT32: ((GLOBAL float *)p)[i] = (float)v; break;                               \
    default: ((GLOBAL double *)p)[i] = (double)v; break;                                       \
    }
FN void fa_store_f32(GLOBAL char *p, int dtype, fa_i64 i, float v) { FA_STORE_BODY(fa_f64_to_i64(v), fa_f64_to_i32(v)) }
FN void fa_store_f64(GLOBAL char *p, int dtype, fa_i64 i, double v) { FA_STORE_BODY(fa_f64_to_i64(v), fa_f64_to_i32(v)) }
FN void fa_store_i64(GLOBAL char *p, int dtype, fa_i64 i, fa_i64 v) { FA_STORE_BODY(v, v) }

/* The compute type: LOAD(p, dtype, i), STORE(p, dtype, i, v); k-th operand at element offset i: LOAD_ARG, STORE_ARG. */
#define FA_PASTE_(a, b) a##b
#define FA_PASTE(a, b) FA_PASTE_(a, b)
#define N(name) FA_PASTE(name, FA_SUFFIX)
#ifdef FA_OWN /* everything has the compute type */
#define LOAD(p, dtype, i) (((GLOBAL const REAL *)(GLOBAL const void *)(p))[i])
#define STORE(p, dtype, i, v) (((GLOBAL REAL *)(GLOBAL void *)(p))[i] = (v))
#else
#define LOAD(p, dtype, i) N(fa_load)(p, dtype, i)
#define STORE(p, dtype, i, v) N(fa_store)(p, dtype, i, v)
#endif
#define LOAD_ARG(k, i) LOAD(ARG(const char, k), P.view[k].dtype, (i))
#define STORE_ARG(k, i, v) STORE(ARG(char, k), P.view[k].dtype, (i), (v))
/* Operand k is a table (FA_VIEW_TABLE of fa_plan.h): how many entries, the i-th entry's pointer and bytes. */
#define TABLE_COUNT(k) (P.view[k].size[0])
#ifndef FA_BEHIND
#define FA_BEHIND(address) (address)
#endif
#define TABLE(type, k, i) ((GLOBAL type *)FA_BEHIND(ARG(const fa_table_entry, k)[i].address))
#ifndef TABLES_KERNEL
#define TABLES_KERNEL(name, W) KERNEL(name, W)
#endif
#define TABLE_BYTES(k, i) (ARG(const fa_table_entry, k)[i].bytes)
/* Before each instance of a family the build writes: #define FA_SUFFIX _f32, #define REAL float, #define FA_F32 1 (or _f64,
 * double, FA_F64; or _i64, fa_i64, FA_I64). Families without instances see none of them. */

#endif
