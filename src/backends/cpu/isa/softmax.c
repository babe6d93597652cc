/* Softmax and log-softmax on the CPU and their derivatives, for float32 and float64 (kernels/softmax.k.h describes the plan).
 * Rows side by side in memory (inner = 1) are done one after the other by blocks; else 64 neighbouring rows at once. */
#define FA_SUFFIX _f32
#define REAL      float
#define FA_F32    1
#include "vector.h"
#include "../../../../kernels/math.h"
#include "ordered.h"
#include "softmax_real.h"
#include "forget.h"

#define FA_SUFFIX _f64
#define REAL      double
#define FA_F64    1
#include "vector.h"
#include "ordered.h"
#include "softmax_real.h"
#include "forget.h"
