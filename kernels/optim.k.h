/* One step of an optimizer: the update rule of a row of optim.tab, for many parameters in one launch.
 *
 *   row      FAI_UPDATE_<name> of kernels_gen.h
 *   view[0]  parameters, view[1] gradients, view[2] ... the row's states: tables (FA_VIEW_TABLE) with one entry a
 *            parameter, whose elements lie side by side, are all of the view's dtype, and are as many in each table. Or single
 *            tensors of n[1] elements, where a device can't follow addresses in memory, or (OpenCL) there is one parameter
 *   nviews   2 and the number of states
 *   f[]      the row's numbers; of a launch that a graph repeats they lie in memory, in the kernel's type: view[7] is a tensor then
 *   view[6]  there in a graph with a gradient scaler: one bool, whether the step is made at all
 *   n[0]     groups a parameter: ceil(elements of the largest / 1024), but 512 are enough
 *   groups   n[0] times the number of parameters */

#if defined(FA_ROW)
#define OPTIM_ROW FA_ROW
#else
#define OPTIM_ROW P.row
#endif
#define OPTIM_HYPER(k) (P.view[7].kind == FA_VIEW_TENSOR ? ARG(REAL, 7)[k] : (REAL)P.f[k])
#define OPTIM_CHUNK 1024
#define OPTIM_POINTER(k)                                                \
    (P.view[k].kind == FA_VIEW_TABLE ? TABLE(char, k, parameter)        \
     : P.view[k].kind == FA_VIEW_TENSOR ? ARG(char, k) : (GLOBAL char *)0)
#define OPTIM_LOAD(k, from) (k < P.nviews ? LOAD(from, P.view[k].dtype, i) : (REAL)0)
#define OPTIM_STORE(k, to, value) if (k < P.nviews) STORE(to, P.view[k].dtype, i, value)

TABLES_KERNEL(N(update), 256) {
    const int dtype = P.view[0].dtype;
    const fa_i64 parameter = GROUP / P.n[0];
    const fa_i64 elements = P.view[6].kind == FA_VIEW_TENSOR && !ARG(const fa_u8, 6)[0] ? 0
                          : P.view[0].kind != FA_VIEW_TABLE ? P.n[1]
                          : TABLE_BYTES(0, parameter) / (dtype == FA_T_FLOAT64 ? 8 : dtype == FA_T_FLOAT32 ? 4 : 2);
    GLOBAL char *at_p = OPTIM_POINTER(0);
    GLOBAL const char *at_g = OPTIM_POINTER(1);
    GLOBAL char *at_0 = OPTIM_POINTER(2);
    GLOBAL char *at_1 = OPTIM_POINTER(3);
    GLOBAL char *at_2 = OPTIM_POINTER(4);
    for (fa_i64 chunk = GROUP % P.n[0]; chunk * OPTIM_CHUNK < elements; chunk += P.n[0]) {
        ITEMS(256) {
            for (fa_i64 i = chunk * OPTIM_CHUNK + item; i < (chunk + 1) * OPTIM_CHUNK && i < elements; i += 256) {
                REAL p = OPTIM_LOAD(0, at_p), s0 = OPTIM_LOAD(2, at_0), s1 = OPTIM_LOAD(3, at_1), s2 = OPTIM_LOAD(4, at_2);
                const REAL g = OPTIM_LOAD(1, at_g);
                switch (OPTIM_ROW) {
#include "optim_rows.h"
                default: break;
                }
                OPTIM_STORE(0, at_p, p);
                OPTIM_STORE(2, at_0, s0);
                OPTIM_STORE(3, at_1, s1);
                OPTIM_STORE(4, at_2, s2);
            }
        }
    }
}
#undef OPTIM_ROW
