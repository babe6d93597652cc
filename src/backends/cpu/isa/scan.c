/* Running sums and products on the CPU, for float32, float64 and int64 (kernels/scan.k.h describes the plan and the order:
 * chunks of 16 are run through alone, then what came before them is joined). Four chunks run side by side, since each waits for
 * itself. */
#define FA_SUFFIX _f32
#define REAL float
#define FA_F32 1
#include "vector.h"
#include "ordered.h"
#include "scan_real.h"
#include "forget.h"

#define FA_SUFFIX _f64
#define REAL double
#define FA_F64 1
#include "vector.h"
#include "ordered.h"
#include "scan_real.h"
#include "forget.h"

#define FA_SUFFIX _i64
#define REAL fa_i64
#define FA_I64 1
#include "vector.h"
#include "ordered.h"
#include "scan_real.h"
#include "forget.h"
