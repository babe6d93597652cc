/* Running extremes and logarithms of sums on the CPU (kernels/running.k.h describes the plan). An extreme does not depend on the
 * order in which it is found, so a row is one loop; sums of exponentials are joined in the text's order, chunks of 16 apart. */
#define FA_SUFFIX _f32
#define REAL      float
#define FA_F32    1
#include "vector.h"
#include "../../../../kernels/math.h"
#include "running_real.h"
#include "forget.h"

#define FA_SUFFIX _f64
#define REAL      double
#define FA_F64    1
#include "vector.h"
#include "running_real.h"
#include "forget.h"

#define FA_SUFFIX _i64
#define REAL      fa_i64
#define FA_I64    1
#include "vector.h"
#include "running_real.h"
#include "forget.h"
