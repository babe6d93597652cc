#!/bin/sh
# The Python package on every Python that is here beside the one it was built for: the extension is compiled for it, linked with the
# library's objects, and tests of the package run. Pythons: 3.9 to 3.14 on PATH and those of pyenv; PYTHONS="/a/python3.9 ..." instead.
#
# test-limit: 600
# test-modes: release
set -u
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build/release} CC=${CC:-cc}
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

candidates() {
    for minor in 9 10 11 12 13 14; do command -v "python3.$minor"; done
    if command -v pyenv >/dev/null; then ls "$(pyenv root)"/versions/3.*/bin/python 2>/dev/null; fi
}

ask() { "$1" -c "import sys, sysconfig; print($2)" 2>/dev/null; }

usable() { # usable PYTHON: of a version that counts, with headers
    ask "$1" "sys.version_info >= (3, 9)" | grep -q True && [ -e "$(ask "$1" "sysconfig.get_paths()['include']")/Python.h" ]
}

build() { # build PYTHON FOLDER
    mkdir -p "$2/facula" && cp -R "$BUILD"/python/facula/. "$2/facula/" && rm -f "$2"/facula/_C.*.so
    suffix=$(ask "$1" "sysconfig.get_config_var('EXT_SUFFIX')") include=$(ask "$1" "sysconfig.get_paths()['include']")
    for source in python/ext/*.c "$BUILD"/gen/py/*.c; do
        $CC -std=gnu11 -O1 -fPIC -fvisibility=hidden -ffp-contract=off -pthread -Wall -Werror -Iinclude -I"$BUILD/include" -I"$BUILD/gen" -Isrc -I. \
            -I"$include" -c -o "$2/$(basename "$source").o" "$source" || return 1
    done
    $CC -shared -pthread -o "$2/facula/_C$suffix" "$2"/*.o -Wl,--whole-archive "$BUILD/libfacula.a" -Wl,--no-whole-archive -lz -ldl -lm
}

[ -e "$BUILD/libfacula.a" ] || { echo "there is no $BUILD/libfacula.a"; exit 77; }
seen=$(ask "${PYTHON:-python3}" "sys.version_info[:2]")
for python in ${PYTHONS:-$(candidates)}; do
    usable "$python" || continue
    version=$(ask "$python" "sys.version_info[:2]")
    case "$seen" in *"$version"*) continue ;; esac
    seen="$seen $version"
    if ! build "$python" "$work/$version"; then
        echo "Python $version: the extension does not compile"
        failed=$((failed + 1))
        continue
    fi
    for test in facts kinds lifetime optim serialization help; do
        if PYTHONPATH="$work/$version" "$python" -B "tests/python/test_$test.py" >"$work/log" 2>&1; then
            passed=$((passed + 1))
        else
            echo "Python $version: test_$test.py"
            tail -n 30 "$work/log"
            failed=$((failed + 1))
        fi
    done
done
[ $((passed + failed)) -gt 0 ] || { echo "no other Python is here"; exit 77; }
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
