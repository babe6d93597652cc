/* Initial values: torch's formulas and draws. */
#include "module.h"
#include "../ops/random.h"
#include <math.h>
#include <string.h>

static bool ready(const char *op, fa_tensor *t) { return fai_check(op, "t", t) && !fai_refuse_pending(op); }

static fa_tensor *written(fa_tensor *t, bool ok)
{
    if (!ok) return NULL;
    ++*fai_version(t);
    return t;
}

fa_tensor *fa_init_uniform(fa_tensor *t, double low, double high)
{
    return ready("init_uniform", t) ? written(t, fai_fill_uniform("init_uniform", t, low, high, NULL)) : NULL;
}

fa_tensor *fa_init_normal(fa_tensor *t, double mean, double std)
{
    return ready("init_normal", t) ? written(t, fai_fill_normal("init_normal", t, mean, std, NULL)) : NULL;
}

fa_tensor *fa_init_constant(fa_tensor *t, double value)
{
    return ready("init_constant", t) ? written(t, fai_fill_scalar("init_constant", t, fa_scalar_of_float(value))) : NULL;
}

/* What reaches one output, and what one input reaches: sizes 1 and 0 times the size of a filter. */
static bool fans(const char *op, const fa_tensor *t, double *fan_in, double *fan_out)
{
    if (t->ndim < 2) return fai_fail(FA_ERR_VALUE, op, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"), false;
    double filter = 1;
    for (int i = 2; i < t->ndim; i++) filter *= (double)t->size[i];
    *fan_in = (double)t->size[1] * filter;
    *fan_out = (double)t->size[0] * filter;
    return true;
}

fa_tensor *fa_init_xavier_uniform(fa_tensor *t, double gain)
{
    double in, out;
    if (!ready("init_xavier_uniform", t) || !fans("init_xavier_uniform", t, &in, &out)) return NULL;
    double bound = sqrt(3.0) * (gain * sqrt(2.0 / (in + out)));
    return fa_init_uniform(t, -bound, bound);
}

fa_tensor *fa_init_xavier_normal(fa_tensor *t, double gain)
{
    double in, out;
    if (!ready("init_xavier_normal", t) || !fans("init_xavier_normal", t, &in, &out)) return NULL;
    return fa_init_normal(t, 0, gain * sqrt(2.0 / (in + out)));
}

double fa_init_gain(const char *nonlinearity, double a)
{
    static const struct { const char *name; double gain; } gains[] = {{"linear", 1}, {"conv1d", 1}, {"conv2d", 1}, {"conv3d", 1}, {"sigmoid", 1}, {"tanh", 5.0 / 3}, {"selu", 0.75}};
    if (nonlinearity && strcmp(nonlinearity, "relu") == 0) return sqrt(2.0);
    if (nonlinearity && strcmp(nonlinearity, "leaky_relu") == 0) return sqrt(2.0 / (1 + a * a));
    for (size_t i = 0; nonlinearity && i < sizeof gains / sizeof *gains; i++)
        if (strcmp(nonlinearity, gains[i].name) == 0) return gains[i].gain;
    fai_fail(FA_ERR_VALUE, "init_gain", "Unsupported nonlinearity %s: use linear, conv2d, sigmoid, tanh, relu, leaky_relu or selu", nonlinearity ? nonlinearity : "NULL");
    return 0;
}

static bool kaiming(const char *op, fa_tensor *t, double a, const char *mode, const char *nonlinearity, double *std)
{
    double in, out, gain = fa_init_gain(nonlinearity, a);
    if (!ready(op, t) || !fans(op, t, &in, &out)) return false;
    if (!mode || (strcmp(mode, "fan_in") && strcmp(mode, "fan_out")))
        return fai_fail(FA_ERR_VALUE, op, "Mode %s not supported, please use one of ['fan_in', 'fan_out']", mode ? mode : "NULL"), false;
    *std = gain / sqrt(strcmp(mode, "fan_in") == 0 ? in : out);
    return true;
}

fa_tensor *fa_init_kaiming_uniform(fa_tensor *t, double a, const char *mode, const char *nonlinearity)
{
    double std;
    if (!kaiming("init_kaiming_uniform", t, a, mode, nonlinearity, &std)) return NULL;
    if (t->numel == 0) return t;
    return fa_init_uniform(t, -sqrt(3.0) * std, sqrt(3.0) * std);
}

fa_tensor *fa_init_kaiming_normal(fa_tensor *t, double a, const char *mode, const char *nonlinearity)
{
    double std;
    return kaiming("init_kaiming_normal", t, a, mode, nonlinearity, &std) ? fa_init_normal(t, 0, std) : NULL;
}
