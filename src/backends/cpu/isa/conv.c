/* Convolution on the CPU, for float32 and float64. The plan is described in kernels/conv.k.h; conv_real.h holds the forward
 * direction and the derivative towards the input, conv_weight.h the derivative towards the weight. */
#define FA_SUFFIX _f32
#define REAL float
#define FA_F32 1
#include "vector.h"
#include "convert.h"
#include "field.h"
#undef FA_KERNEL_LINKAGE
#define FA_KERNEL_LINKAGE static
#include "../../../../kernels/conv.k.h"
#include "tile.h"
#include "conv_real.h"
#include "conv_weight.h"
#include "conv_run.h"
#include "forget.h"

#define FA_SUFFIX _f64
#define REAL double
#define FA_F64 1
#include "vector.h"
#include "../../../../kernels/conv.k.h"
#include "tile.h"
#include "conv_real.h"
#include "conv_weight.h"
#include "conv_run.h"
#include "forget.h"
