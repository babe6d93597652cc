/* Elementwise rows with derivatives: the node keeps what the derivative's text reads and nothing else. */
#include "autocast.h"
#include "generated.h"
#include <string.h>

enum { X = 1, R = 4, NOT_KEPT = 0xff };

/* What a row's node needs beside the tensors: its numbers, and where each of x, y, z, r is kept. */
typedef struct row_params {
    double numbers[3];
    fa_scalar scalar[3];   /* operands that were numbers */
    uint8_t kept_at[5];    /* by the digit of fai_row_grad.reads */
    double divisor;        /* the result is all elements' sum divided by this; 0: it is not reduced */
} row_params;

fai_types fai_row_types(int row, bool *bool_result, bool *checks_zero)
{
    const fai_row_api *api = &fai_row_apis[row];
    *bool_result = api->bool_result;
    *checks_zero = api->checks_zero;
    return api->name ? api->types : FAI_TYPES_ANY;
}

/* Which of x, y, z, r the derivatives towards the operands that want one read, as bits. */
static unsigned reads_of(const fai_row_api *api, int n, const fai_operand *operands)
{
    unsigned reads = 0;
    for (int i = 0; i < n; i++)
        if (fai_wants_grad(operands[i].tensor))
            for (int k = 0; k < api->d[i].nreads; k++) reads |= 1u << api->d[i].reads[k];
    return reads;
}

/* A comparison that is written into a floating tensor is recorded too: what it overwrites and compares gets zeros. */
static bool has_derivative(const fai_row_api *api, int i) { return api->d[i].graph != NULL || api->bool_result; }

static bool wants_record(const fai_row_api *api, int n, const fai_operand *operands)
{
    if (!fai_recording()) return false;
    for (int i = 0; i < n; i++)
        if (has_derivative(api, i) && fai_wants_grad(operands[i].tensor)) return true;
    return false;
}

/* The node with its inputs and the operands it keeps; the result is kept by keep_result once it is there. first: what is kept for
 * operand 0. */
static fai_node *new_node(const fai_row_api *api, int n, const fai_operand *operands, fa_tensor *first, const double *params)
{
    const unsigned reads = reads_of(api, n, operands);
    fai_node *node = fai_node_new(&api->node, n, __builtin_popcount(reads), sizeof(row_params));
    if (!node) return NULL;
    row_params *p = node->params;
    bool ok = true;
    int at = 0;
    memset(p->kept_at, NOT_KEPT, sizeof p->kept_at);
    for (int i = 0; i < api->nparams; i++) p->numbers[i] = params[i];
    for (int i = 0; i < n; i++) {
        ok = ok && fai_node_input(node, i, operands[i].tensor, has_derivative(api, i));
        if (!operands[i].tensor) p->scalar[i] = operands[i].scalar;
    }
    for (int which = X; which <= R; which++) {
        if (!(reads >> which & 1)) continue;
        if (which == R || operands[which - 1].tensor) {
            ok = ok && (which == R || fai_node_keep(node, at, which == X ? first : operands[which - 1].tensor, false));
            p->kept_at[which] = (uint8_t)at++;
        }
    }
    if (!ok) return fai_node_unref(node), NULL;
    return node;
}

static bool keep_result(fai_node *node, fa_tensor *result)
{
    const row_params *p = node->params;
    return p->kept_at[R] == NOT_KEPT || fai_node_keep(node, p->kept_at[R], result, true);
}

/* Before t is written: what reads the result will find the version that it is about to get, and t itself, which the node will be
 * the maker of, is kept as an alias: else node and tensor would hold each other. */
static bool keep_written(fai_node *node, fa_tensor *t)
{
    const row_params *p = node->params;
    for (int i = 0; i < node->nkept; i++)
        if (node->kept[i].tensor == t && !fai_node_keep_alias(node, i)) return false;
    if (!keep_result(node, t)) return false;
    if (p->kept_at[R] != NOT_KEPT) node->kept[p->kept_at[R]].version++;
    return true;
}

/* Conditions are bools: a tensor of numbers in their place is more likely a mistake than meant. */
static bool mask_is_bool(int row, const fai_operand *operands)
{
    const int at = row == FAI_ROW_masked_fill;
    const fa_tensor *mask = operands[at].tensor, *x = operands[0].tensor;
    if (at && x && !operands[2].tensor && !fai_number_fits("masked_fill", operands[2].scalar, (fa_dtype)x->dtype)) return false;
    if ((row != FAI_ROW_where && row != FAI_ROW_masked_fill) || !mask || mask->dtype == FA_BOOL || (row == FAI_ROW_where && mask->dtype == FA_UINT8)) return true;
    if (at) fai_fail(FA_ERR_RUNTIME, "masked_fill", "masked_fill_ only supports boolean masks, but got mask with dtype %s. Compare first: fa_ne_scalar(mask, 0).",
                     fa_dtype_name((fa_dtype)mask->dtype));
    else fai_fail(FA_ERR_RUNTIME, "where", "where expected condition to be a boolean tensor, but got a tensor with dtype %s. Compare first: fa_ne_scalar(condition, 0).",
                  fai_dtype_title((fa_dtype)mask->dtype));
    return false;
}

static bool operands_there(const fai_row_api *api, int n, const fai_operand *operands)
{
    static const char *const names[] = {"x", "y", "z"};
    for (int i = 0; i < n; i++)
        if (!operands[i].tensor && !operands[i].scalar.kind) return fai_check(api->name, names[i], NULL);
    return mask_is_bool(api->row, operands);
}

/* Numbers alone, as in y - 1 of the derivative of pow(x, 0.1): in float64, where the default type would round them. */
static fa_tensor *row_of_numbers(int row, int n, const fai_operand *operands, const double *params)
{
    fai_operand wide[3];
    for (int i = 0; i < n; i++) wide[i] = operands[i];
    wide[0] = fai_of(fa_full_with(FA_SHAPE_0D, operands[0].scalar, FA_TENSOR_OPTIONS(.dtype = FA_FLOAT64, .device = FA_CPU)));
    return wide[0].tensor ? fai_row(row, n, wide, params) : NULL;
}

/* With autocast on: the tensors among the operands cast as the table says. */
static fa_tensor *cast_row(int row, int n, const fai_operand *operands, const double *params)
{
    fai_operand cast[3];
    fa_tensor *tensors[3];
    fai_casting c;
    for (int i = 0; i < n; i++) tensors[i] = operands[i].tensor;
    fa_tensor *r = NULL;
    if (fai_cast_begin(&c, fai_row_apis[row].name, fai_row_casts[row], tensors, n)) {
        fai_tls.autocast = 0;
        for (int i = 0; i < n; i++) cast[i] = (fai_operand){.tensor = tensors[i], .scalar = operands[i].scalar};
        r = fai_row(row, n, cast, params);
    }
    return fai_cast_end(&c, r);
}

fa_tensor *fai_row(int row, int noperands, const fai_operand *operands, const double *params)
{
    const fai_row_api *api = &fai_row_apis[row];
    bool any = false;
    if (FAI_UNLIKELY(fai_tls.autocast) && fai_row_casts[row]) return cast_row(row, noperands, operands, params);
    if (!params) params = api->defaults;
    if (FAI_UNLIKELY(!operands_there(api, noperands, operands))) return NULL;
    for (int i = 0; i < noperands; i++) any |= operands[i].tensor != NULL;
    if (FAI_UNLIKELY(!any)) return row_of_numbers(row, noperands, operands, params);
    fa_tensor *r = fai_row_raw(api->name, row, noperands, operands, params, FA_DTYPE_DEFAULT);
    if (!r || !fai_is_float(r->dtype) || !wants_record(api, noperands, operands)) return r;
    fai_node *node = new_node(api, noperands, operands, operands[0].tensor, params);
    if (!node) return NULL;
    if (!keep_result(node, r)) return fai_node_unref(node), NULL;
    fai_node_finish(node, r);
    return r;
}

/* Row and reduction as one node: the derivative is the row's own, over g / divisor in the place of a g for each element. */
fa_tensor *fai_row_reduced(int row, int noperands, const fai_operand *operands, const double *params, bool mean)
{
    const fai_row_api *api = &fai_row_apis[row];
    if (!params) params = api->defaults;
    fa_tensor *each = fai_row_raw(api->name, row, noperands, operands, params, FA_DTYPE_DEFAULT);
    fa_tensor *r = each ? fai_reduction_forward(mean ? "mean" : "sum", mean ? FAI_REDUCE_mean : FAI_REDUCE_sum, each, (fa_shape){0, {0}}, false) : NULL;
    if (!r || !fai_is_float(r->dtype) || !wants_record(api, noperands, operands)) return r;
    fai_node *node = new_node(api, noperands, operands, operands[0].tensor, params);
    if (!node) return NULL;
    ((row_params *)node->params)->divisor = mean ? (double)each->numel : 1;
    fai_node_finish(node, r);
    return r;
}

static bool check_in_place(const fai_row_api *api, int n, const fai_operand *operands)
{
    const fa_tensor *tensors[3] = {NULL};
    fa_tensor *t = operands[0].tensor;
    for (int i = 1; i < n; i++) tensors[i - 1] = operands[i].tensor;
    if (!fai_in_place_check(api->in_place, t) || !fai_fits(api->in_place, t, n - 1, tensors)) return false;
    if (api->bool_result) return true; /* 0 and 1 are in every type */
    fa_dtype result = fai_result_type(n, operands);
    if (api->types == FAI_TYPES_FLOAT && !fai_is_float(result)) result = fa_default_dtype();
    bool fits = (!fai_is_float(result) || fai_is_float(t->dtype)) && (result == FA_BOOL || t->dtype != FA_BOOL);
    if (!fits && api->row != FAI_ROW_masked_fill && api->row != FAI_ROW_where)
        fai_fail(FA_ERR_RUNTIME, api->in_place, "result type %s can't be cast to the desired output type %s", fai_dtype_title(result), fai_dtype_title((fa_dtype)t->dtype));
    return fits || api->row == FAI_ROW_masked_fill || api->row == FAI_ROW_where;
}

/* A derivative that reads the value before the write gets a copy of it, as in torch. */
static fai_node *node_of_write(const fai_row_api *api, int n, const fai_operand *operands, const double *params)
{
    FA_SCOPE;
    fa_tensor *t = operands[0].tensor;
    if (reads_of(api, n, operands) >> X & 1 && !(t = fa_clone(t))) return NULL;
    return new_node(api, n, operands, t, params);
}

fa_tensor *fai_row_in_place(int row, int noperands, const fai_operand *operands, const double *params)
{
    const fai_row_api *api = &fai_row_apis[row];
    fa_tensor *t = operands[0].tensor;
    FAI_CALLED(api->in_place);
    if (!params) params = api->defaults;
    if (!operands_there(api, noperands, operands) || fai_refuse_pending(api->in_place) || !check_in_place(api, noperands, operands)) return NULL;
    fai_write write = {NULL, NULL, NULL};
    if (fai_is_float(t->dtype) && wants_record(api, noperands, operands)) {
        fai_node *node = node_of_write(api, noperands, operands, params);
        if (!node || !keep_written(node, t) || !fai_in_place_begin(t, node, &write)) return fai_node_unref(node), NULL;
    }
    FA_SCOPE;
    fai_operand apart[3];
    bool ok = true;
    for (int i = 0; i < noperands; i++) {
        apart[i] = operands[i];
        ok = ok && (i == 0 || fai_separate(api->in_place, t, &apart[i].tensor));
    }
    if (!ok || !fai_row_into(api->in_place, row, t, noperands, apart, params)) return fai_in_place_cancel(&write), NULL;
    fai_in_place_done(t, &write);
    return t;
}

/* ---- backward ---- */

static fa_tensor *fused(const fai_node *node, const fai_row_grad *d, const fai_operand *v)
{
    const row_params *p = node->params;
    fai_operand operands[4] = {v[0]};
    for (int k = 0; k < d->nreads; k++) operands[k + 1] = v[d->reads[k]];
    return d->identity ? v[0].tensor : fai_row_raw(node->op->name, d->loop, d->nreads + 1, operands, p->numbers, (fa_dtype)v[0].tensor->dtype);
}

/* The derivative has the broadcast shape: summed to the input's. */
static fa_tensor *to_input(const fai_node *node, int i, fa_tensor *grad)
{
    const fai_meta *meta = &node->metas[i];
    if (!grad || fai_has_shape(grad, meta->ndim, meta->size)) return grad;
    if (fai_recording()) return fa_sum_to(grad, fa_shape_of(meta->ndim, meta->size));
    return fai_sum_to(node->op->name, grad, meta->ndim, meta->size);
}

/* A derivative whose text does not mention g's full shape can come out smaller (g is never broadcast in a recorded row). */
bool fai_row_backward(fai_node *node, fa_tensor *g, fa_tensor **grads)
{
    const fai_row_api *api = node->op->row;
    const row_params *p = node->params;
    fai_operand v[5] = {{.tensor = g}};
    for (int i = 0; i < node->ninputs; i++) v[i + 1].scalar = p->scalar[i];
    for (int which = X; which <= R; which++) {
        if (p->kept_at[which] == NOT_KEPT) continue;
        v[which].tensor = fai_node_kept(node, p->kept_at[which]);
        if (!v[which].tensor) return false;
    }
    if (p->divisor != 0 && p->divisor != 1 && !(v[0].tensor = fai_row2(FAI_ROW_div, v[0], fai_number(p->divisor)))) return false;
    for (int i = 0; i < node->ninputs; i++) {
        if (!fai_node_needs(node, i)) continue;
        fa_tensor *grad = api->bool_result ? fai_zeros_of(g, fai_meta_shape(&node->metas[i]))
                          : fai_recording() ? api->d[i].graph(v, p->numbers)
                                            : fused(node, &api->d[i], v);
        grads[i] = to_input(node, i, grad);
        if (!grads[i]) return false;
    }
    return true;
}
