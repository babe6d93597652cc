/* Negative log likelihood on the CPU, for float32 and float64 (kernels/loss.k.h describes the plans). */
#include "../cpu.h"
#include "../../../../kernels/dialect.h"
#include "../../../../kernels/status.h"

#define FA_SUFFIX _f32
#define REAL float
#define FA_F32 1
#include "vector.h"
#include "ordered.h"
#include "loss_real.h"
#include "forget.h"

#define FA_SUFFIX _f64
#define REAL double
#define FA_F64 1
#include "vector.h"
#include "ordered.h"
#include "loss_real.h"
#include "forget.h"
