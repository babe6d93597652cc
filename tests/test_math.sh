#!/bin/sh
# The float32 functions: their errors stay within bounds, and every compiler and instruction set that is here gives one hash.
# test-modes: release
# test-limit: 240
set -u
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
flags="-std=gnu11 -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -I. -Iinclude"
passed=0 failed=0 first=""

try() { # try NAME COMPILER FLAGS...
    name=$1
    shift
    command -v "$1" >/dev/null || return 0
    # shellcheck disable=SC2086
    if ! "$@" $flags -o "$out/ulp" tests/math_ulp.c -lm 2>"$out/log"; then
        failed=$((failed + 1))
        cat "$out/log"
        return 0
    fi
    "$out/ulp" "$stride" >"$out/log"
    code=$?
    hash=$(sed -n 's/^hash //p' "$out/log")
    [ $code -eq 132 ] && return 0 # the processor lacks the instructions
    : "${first:=$hash}"
    if [ $code -eq 0 ] && [ "$hash" = "$first" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name: exit code $code, hash $hash, expected $first"
        grep 'TOO FAR' "$out/log"
    fi
}

stride=16411
try "gcc, no FMA" gcc
case $(uname -m) in
x86_64)
    try "gcc, AVX2" gcc -mavx2 -mfma -mf16c
    try "gcc, AVX-512" gcc -march=skylake-avx512 -mprefer-vector-width=512
    try "clang, AVX2" clang -mavx2 -mfma
    try "gcc, AVX2, not vectorised" gcc -mavx2 -mfma -fno-tree-vectorize
    ;;
esac
try "clang" clang
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
