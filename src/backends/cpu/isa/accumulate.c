/* Adding by index on the CPU (kernels/accumulate.k.h describes the plan): positions in their order, each a row of columns, so
 * keys need no sorting. Threads share the columns, never a column. With sorted keys a run of equal ones is summed in one go. */
#define FA_SUFFIX _f32
#define REAL      float
#define FA_F32    1
#include "vector.h"
#include "../../../../kernels/math.h"
#include "accumulate_real.h"
#include "forget.h"

#define FA_SUFFIX _f64
#define REAL      double
#define FA_F64    1
#include "vector.h"
#include "accumulate_real.h"
#include "forget.h"

#define FA_SUFFIX _i64
#define REAL      fa_i64
#define FA_I64    1
#include "vector.h"
#include "accumulate_real.h"
#include "forget.h"
