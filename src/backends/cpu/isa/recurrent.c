/* The steps of LSTM, GRU and RNN on the CPU, for float32 and float64 (kernels/recurrent.k.h describes the plans). A row's
 * hidden units are one vector loop; sequences of a batch are spread over threads. */
#define FA_SUFFIX _f32
#define REAL      float
#define FA_F32    1
#include "vector.h"
#include "../../../../kernels/math.h"
#include "ordered.h"
#include "recurrent_real.h"
#include "forget.h"

#define FA_SUFFIX _f64
#define REAL      double
#define FA_F64    1
#include "vector.h"
#include "ordered.h"
#include "recurrent_real.h"
#include "forget.h"
