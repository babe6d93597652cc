/* The C build of one device text in every compute type that it has: float, double and, unless FLOATS_ONLY is defined, 64-bit
 * whole numbers. Include it once for each text: #define TEXT "kernels/ew.k.h" before. The names end in _f32, _f64 and _i64. */
#define FA_SUFFIX _f32
#define REAL      float
#define FA_F32    1
#include TEXT
#undef FA_SUFFIX
#undef REAL
#undef FA_F32

#define FA_SUFFIX _f64
#define REAL      double
#define FA_F64    1
#include TEXT
#undef FA_SUFFIX
#undef REAL
#undef FA_F64

#ifndef FLOATS_ONLY
#define FA_SUFFIX _i64
#define REAL      fa_i64
#define FA_I64    1
#include TEXT
#undef FA_SUFFIX
#undef REAL
#undef FA_I64
#endif
#undef TEXT
