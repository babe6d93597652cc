#!/bin/sh
# A new operator is one row: adds one to a copy of the tables, touches no other file, and uses it in C: forward, in place, with a
# number, with its derivatives of first and second order, on the CPU and on a simulated device. Its documentation and its entry
# in the golden test come along.
# test-modes: release
# test-limit: 600
set -u
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
export MAKEFLAGS=
passed=0 failed=0

check() { # check NAME COMMAND...
    name=$1
    shift
    if "$@" >"$root/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        tail -n 20 "$root/log" | sed 's/^/    /'
    fi
}

# The copy keeps dates, so that only what the row touches is built again.
tar -cf - --exclude=./build --exclude=./.git . | tar -xf - -C "$root"
mkdir -p "$root/build" && cp -a build/release "$root/build/"
cat >>"$root/src/ops/elementwise.tab" <<'EOF'
softsquare      | x, y; scale=2 | real | x * x / (scale + abs(x)) + y | x: g * (x * (2 * scale + x) / square(scale + x)); y: g | [0.5, 3] | 4 | x^2 / (scale + |x|) + y, for positive x.
EOF
cat >"$root/prog.c" <<'EOF'
#include <facula.h>
#include <math.h>
#include <string.h>

static const double X[4] = {0.5, 1, 2, 3}, S = 1.5;
static int bad;

static void same(const char *what, fa_tensor *t, double (*f)(double)) {
    double got[4] = {0};
    if (!fa_to_data(t, got, FA_FLOAT64)) bad++;
    for (int i = 0; i < 4; i++) {
        if (fabs(got[i] - f(X[i])) > 1e-6) printf("%s: %g, expected %g\n", what, got[i], f(X[i])), bad++;
    }
}
static double forward(double x) { return x * x / (S + x) + 1; }
static double first(double x) { return x * (2 * S + x) / ((S + x) * (S + x)); }
static double second(double x) { return 2 * S * S / ((S + x) * (S + x) * (S + x)); }

int main(int argc, char **argv) {
    const fa_device dev = argc > 1 ? fa_device_parse(argv[1]) : FA_CPU;
    fa_tensor *x = fa_from_data(X, FA_FLOAT64, FA_SHAPE(4), .dtype = FA_FLOAT32, .device = dev);
    fa_tensor *y = fa_ones(FA_SHAPE(1), .device = dev);
    same("forward", fa_softsquare(x, y, S), forward);
    same("with a number", fa_softsquare_scalar(x, 1, S), forward);
    fa_tensor *copy = fa_clone(x);
    same("in place", fa_softsquare_(copy, y, S), forward);
    same("in place", copy, forward);
    fa_requires_grad(x, true);
    fa_tensor *r = fa_sum(fa_softsquare(x, y, S)), *g = NULL, *h = NULL;
    fa_grad_of(&r, 1, &x, 1, &g, .create_graph = true);
    same("first derivative", g, first);
    fa_tensor *s = fa_sum(g);
    fa_grad_of(&s, 1, &x, 1, &h);
    same("second derivative", h, second);
    return fa_finish("prog") || bad;
}
EOF
cd "$root" || exit 1
check "make with the new row" make -j2
check "a program that uses it compiles" "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -Iinclude -Ibuild/release/include prog.c \
    -Lbuild/release -lfacula -lm -Wl,-rpath,"$root/build/release" -o prog
check "on the CPU" ./prog
check "on a simulated device" env FACULA_SIM=cuda:1 ./prog cuda:0
check "documented" grep -q fa_softsquare build/release/docs/ops.md
check "known to the golden test" grep -q '"softsquare_scalar_"' build/release/include/golden_calls.h
check "declared" grep -q 'fa_softsquare(fa_tensor \*x, fa_tensor \*y, double scale)' build/release/include/fa_ops.h
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
