#!/bin/sh
# What a user gets from `make install`: pkg-config and find_package work, headers are clean C11 and C++, only fa_ symbols are
# exported, the libraries are small, and a tarball of `make dist` needs no Python.
# test-modes: release
# test-limit: 300
set -u
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
export MAKEFLAGS=
passed=0 failed=0 skipped=0

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
skip() { skipped=$((skipped + 1)); echo "skipped: $1"; }

prefix=$root/usr
check "make install" make install PREFIX="$prefix"
check "make install with DESTDIR" make install PREFIX=/opt/facula DESTDIR="$root/stage"
check "DESTDIR is not in the files" sh -c "! grep -r stage '$root/stage/opt/facula/lib/pkgconfig' '$root/stage/opt/facula/lib/cmake'"

cat >"$root/prog.c" <<'EOF'
#include <facula.h>
int main(void) {
    fa_tensor *x = fa_floats(1, 2, 3);
    fa_requires_grad(x, true);
    fa_backward(fa_sum(fa_mul(x, x)));
    fa_print(fa_grad(x));
    return fa_finish("prog");
}
EOF
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" LD_LIBRARY_PATH="$prefix/lib"
cc=${CC:-cc}
with_pkg_config() { # with_pkg_config COMPILER STANDARD
    # shellcheck disable=SC2046
    "$1" "-std=$2" -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror "$root/prog.c" $(pkg-config --cflags --libs facula) \
        -o "$root/prog" &&
        [ "$("$root/prog")" = "tensor([2., 4., 6.])" ]
}
check "a program by pkg-config, C11" with_pkg_config "$cc" c11
check "a program by pkg-config, GNU C17" with_pkg_config "$cc" gnu17
if command -v clang >/dev/null; then check "a program by clang" with_pkg_config clang c11; else skip "no clang"; fi
cplusplus() {
    cat >"$root/prog.cc" <<'EOF'
#include <facula.h>
int main() {
    fa_tensor *x = fa_zeros_with(fa_shape_of(0, nullptr), nullptr);
    return fa_numel(x) != 1 || fa_finish("cpp");
}
EOF
    # shellcheck disable=SC2046
    g++ -std=c++17 -Wall -Wextra -Werror "$root/prog.cc" $(pkg-config --cflags --libs facula) -o "$root/cpp" && "$root/cpp"
}
if command -v g++ >/dev/null; then check "a C++ program" cplusplus; else skip "no g++"; fi

find_package() {
    cat >"$root/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(Facula 0.1 REQUIRED)
add_executable(shared prog.c)
target_link_libraries(shared Facula::facula)
add_executable(static prog.c)
target_link_libraries(static Facula::facula_static)
EOF
    cmake -S "$root" -B "$root/cmake" -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$root/cmake" &&
        [ "$("$root/cmake/shared")" = "tensor([2., 4., 6.])" ] &&
        [ "$("$root/cmake/static")" = "tensor([2., 4., 6.])" ]
}
if command -v cmake >/dev/null; then check "find_package" find_package; else skip "no cmake"; fi

check "the command runs where it was installed" env -u LD_LIBRARY_PATH "$prefix/bin/facula" --version
check "the simulator lies beside the library" env -u LD_LIBRARY_PATH FACULA_SIM=cuda:1 "$prefix/bin/facula" info
only() { # only FILE PATTERN: no dynamic symbol but those
    ! nm -D --defined-only "$1" | awk '{ print $NF }' | grep -v -E "$2"
}
check "only fa_ symbols are exported" only "$prefix/lib/libfacula.so.0" '^fa_'
check "only the driver's symbols are exported" only "$prefix/lib/libfacula_sim.so" '^(cu|nvrtc|nvml|facula_sim_)'
small() { # small BYTES FILE...
    limit=$1 sum=0
    shift
    for f; do
        strip -o "$root/stripped" "$f" && sum=$((sum + $(wc -c <"$root/stripped")))
    done
    echo "$sum bytes, at most $limit"
    [ "$sum" -le "$limit" ]
}
check "libfacula.so is at most 4 MB" small 4000000 "$prefix/lib/libfacula.so.0"
check "with the simulator at most 5.5 MB" small 5500000 "$prefix/lib/libfacula.so.0" "$prefix/lib/libfacula_sim.so"

tarball() { # unpacked where there is no Python, make plans to compile and not to generate
    make dist && mkdir "$root/dist" "$root/bin" && tar -xzf build/facula-*.tar.gz -C "$root/dist" || return 1
    for tool in sh gcc cc make mkdir cp ln rm ar as ld sed echo cat cmp find dirname grep uname; do
        ln -sf "$(command -v "$tool")" "$root/bin/$tool"
    done
    (cd "$root"/dist/facula-* && PATH="$root/bin" make CC=gcc build/release/libfacula_sim.so &&
        PATH="$root/bin" make CC=gcc -n all)
}
if git rev-parse HEAD >/dev/null 2>&1; then check "a tarball builds without Python" tarball; else skip "no git checkout"; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
