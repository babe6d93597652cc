/* Attention on the CPU, for float32 and float64 (kernels/attention.k.h describes the plans), in tiles of 64 rows by 64
 * columns of the scores: small matrix products around a loop of exponentials. Threads share out tiles of rows; in the
 * derivative, heads. */
#define FA_SUFFIX _f32
#define REAL      float
#define FA_F32    1
#include "vector.h"
#include "../../../../kernels/math.h"
#include "ordered.h"
#include "attention_real.h"
#include "forget.h"

#define FA_SUFFIX _f64
#define REAL      double
#define FA_F64    1
#include "vector.h"
#include "ordered.h"
#include "attention_real.h"
#include "forget.h"
