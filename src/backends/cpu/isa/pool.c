/* Pooling on the CPU, for float32 and float64. The plan is described in kernels/pool.k.h, whose C build also serves where there
 * is no memory for converted planes. */
#define FA_SUFFIX _f32
#define REAL float
#define FA_F32 1
#include "vector.h"
#include "convert.h"
#undef FA_KERNEL_LINKAGE
#define FA_KERNEL_LINKAGE static
#include "../../../../kernels/pool.k.h"
#include "tile.h"
#include "pool_real.h"
#include "forget.h"

#define FA_SUFFIX _f64
#define REAL double
#define FA_F64 1
#include "vector.h"
#include "../../../../kernels/pool.k.h"
#include "tile.h"
#include "pool_real.h"
#include "forget.h"
