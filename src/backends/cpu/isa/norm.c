/* Layer and batch normalisation on the CPU and their derivatives, for float32 and float64 (kernels/norm.k.h describes the plans).
 * Everything is elementwise loops over blocks that stay in the first cache, and sums in the order of ordered.h. */
#define FA_SUFFIX _f32
#define REAL float
#define FA_F32 1
#include "vector.h"
#include "ordered.h"
#include "layer_norm_real.h"
#include "batch_norm_real.h"
#include "forget.h"

#define FA_SUFFIX _f64
#define REAL double
#define FA_F64 1
#include "vector.h"
#include "ordered.h"
#include "layer_norm_real.h"
#include "batch_norm_real.h"
#include "forget.h"
