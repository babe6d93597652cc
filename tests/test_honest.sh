#!/bin/sh
# The simulated device is honest: none of the CPU's code is in it, it runs the texts of kernels/ (one that is changed makes the
# tests of its operators fail, and only those), and it refuses a text that is not one of its own.
# test-modes: release
# test-limit: 300
set -u
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
passed=0 failed=0
flags="-std=gnu11 -fPIC -pthread -ffp-contract=off -fno-math-errno -fno-trapping-math -fvisibility=hidden -O1 -w"

check() { # check NAME COMMAND...
    name=$1
    shift
    if "$@" >"$out/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        tail -n 4 "$out/log" | cut -c1-300 | sed 's/^/    /'
    fi
}
fails() { ! "$@"; }

program=${TESTS:-$BUILD/tests}/test_golden
MAKEFLAGS='' make -s MODE="${MODE:-release}" B="$BUILD" "$program" "$BUILD/libfacula_sim.so" >/dev/null || exit 1

# ---- no code of the CPU's ----
symbols() { nm --defined-only "$1" | awk '{ print $3 }' | grep -E "$2"; }
check "the archive has the CPU's kernels (else the next line proves nothing)" symbols "$BUILD/libfacula.a" '^fai_cpu_'
check "the simulator has no symbol of backends/cpu" fails symbols "$BUILD/libfacula_sim.so" '^fai_|^row_|^text_'
check "nor does it need one" fails sh -c "nm -u '$BUILD/libfacula_sim.so' | grep -E ' fai?_'"
check "its sources include nothing of the CPU's" fails \
    grep -n -E '#include.*"[^"]*(cpu|base/|device/|tensor/|ops/)' src/backends/sim/*.c src/backends/sim/*.h

# ---- changed texts ----
mutate() { # mutate FILE FROM TO: in the copy; FROM stands there
    check "kernels/$1 still has '$2' (else choose another change)" grep -F -q "$2" "kernels/$1"
    awk -v from="$2" -v to="$3" '{
        while ((i = index($0, from)) > 0) $0 = substr($0, 1, i - 1) to substr($0, i + length(from))
        print }' "kernels/$1" >"$out/tree/kernels/$1"
}
mkdir -p "$out/tree" "$out/true" "$out/changed"
cp -R kernels "$out/tree/"
mutate softmax.k.h 'N(fa_exp)(x) * factor' 'N(fa_exp)(x) * (factor + 0.001f)'
mutate norm.k.h 'return d * d;' 'return d * d + 1;'
mutate gemm.k.h 'return x * y + sum;' 'return x * y - sum;'
mutate math.h 'return fa_exp_shifted_f32(x, 0.0f);' 'return fa_exp_shifted_f32(x, 1.0f);'
for source in src/backends/sim/*.c; do
    cp "$BUILD/obj/${source%.c}.o" "$out/$(basename "$source" .c).o"
done
for source in kernels_gen any own; do
    # shellcheck disable=SC2086
    check "the changed texts compile" "${CC:-cc}" $flags -DFA_ONE_BUILD -DFAI_ISA=generic -I"$out/tree" -Iinclude -I"$BUILD/include" \
        -I"$BUILD/gen" -Isrc -I. -c "$BUILD/gen/sim_$source.c" -o "$out/sim_$source.o"
done
# shellcheck disable=SC2086
check "and link" "${CC:-cc}" $flags -shared -Wl,-soname,libfacula_sim.so -o "$out/changed/libfacula_sim.so" "$out"/*.o -ldl -lm

# The simulator is looked for beside the program.
cp "$BUILD/libfacula_sim.so" "$out/true/"
cp "$program" "$out/true/"
cp "$program" "$out/changed/"
for op in softmax layer_norm matmul exp add cat sum; do
    check "$op on the true simulator" env FACULA_SIM=cuda:1 "$out/true/test_golden" $op
done
for op in softmax layer_norm matmul exp; do
    check "a changed text fails the test of $op" fails env FACULA_SIM=cuda:1 "$out/changed/test_golden" $op
done
for op in add cat sum; do
    check "$op does not mind" env FACULA_SIM=cuda:1 "$out/changed/test_golden" $op
done

# ---- texts that are not the simulator's ----
cat >"$out/foreign.c" <<'EOF'
#include "backends/cuda/cuda.h"
#include <stdio.h>
#include <string.h>
int main(void) {
    char why[512], log[512] = "";
    int count = 0;
    fa_program_handle program;
    const fa_backend *gpu = fai_backend_cuda();
    if (gpu->open(&count, why, sizeof why) || count != 1) return printf("%s\n", why), 1;
    static const char other[] = "extern \"C\" __global__ void softmax_f32() {}";
    if (!gpu->build(0, "softmax", other, "", &program, log, sizeof log)) return puts("built"), 1;
    return strstr(log, "not one of them") ? 0 : (puts(log), 1);
}
EOF
# shellcheck disable=SC2086
check "a program that gives it another text" "${CC:-cc}" $flags -Iinclude -I"$BUILD/include" -Isrc -I. "$out/foreign.c" \
    -o "$out/true/foreign" "$BUILD/libfacula.a" -lcjson -lz -ldl -lm
check "is told so" env FACULA_SIM=cuda:1 "$out/true/foreign"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
