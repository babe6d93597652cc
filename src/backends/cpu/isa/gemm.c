/* Matrix product on the CPU, for float32, float64 and int64. The plan is described in kernels/gemm.k.h; tile.h holds the inner
 * loop, gemm_real.h the ways through a matrix, gemm_run.h batches, storage types and threads. */
#define FA_SUFFIX _f32
#define REAL float
#define FA_F32 1
#include "vector.h"
#include "convert.h"
#include "tile.h"
#include "gemm_real.h"
#include "gemm_run.h"
#include "forget.h"

#define FA_SUFFIX _f64
#define REAL double
#define FA_F64 1
#include "vector.h"
#include "tile.h"
#include "gemm_real.h"
#include "gemm_run.h"
#include "forget.h"

#define FA_SUFFIX _i64
#define REAL fa_i64
#define FA_I64 1
#include "vector.h"
#include "tile.h"
#include "gemm_real.h"
#include "gemm_run.h"
#include "forget.h"
