#!/bin/sh
# Runs the tests: every program made from tests/test_*.c, every tests/test_*.sh, tests/test_*.py and, in release mode, those of the
# Python package in tests/python/, JOBS at a time, each under a time limit, and ends with "N passed, N failed, N skipped". A test says how it wants to be run in its first 40 lines:
#
#   test-env: FACULA_SIM=cuda:2     run it with these variables; several such lines are several runs, "-" is the plain one
#   test-env-opencl: FACULA_OPENCL=cpu   a run of `make check-opencl` only, which makes all runs with FACULA_OPENCL=cpu and no others
#   test-limit: 300                 seconds (120 unless given; sanitizers get five times as many)
#   test-tags: threads              `make check-tsan` runs those tagged threads, `make soak` those tagged soak, with FACULA_SOAK=1
#   test-modes: release debug       only built and run in these modes
#
# What counts: a last line "N passed, N failed[, N skipped]" if there is one, else cmocka's totals, else the exit code (77:
# skipped). A program that ends badly without a failure counted is one failure.
#
#   run.sh              all; variables: BUILD MODE JOBS ONLY (patterns of names, without test_) TAG OPENCL
#   run.sh one SOURCE   one; exit code 0 if nothing failed
set -u
BUILD=${BUILD:-build/release} MODE=${MODE:-release} JOBS=${JOBS:-2} ONLY=${ONLY:-*} TAG=${TAG:-} OPENCL=${OPENCL:-}
export BUILD MODE OPENCL TESTS=${TESTS:-$BUILD/tests}
results=$BUILD/results

# wish WHAT SOURCE: what a test's head says about it
wish() { sed -n "1,40s/^.*$1: *\(.*[^ *\/]\)[ *\/]*\$/\1/p" "$2"; }

count() { # count LOG EXIT_CODE -> "passed failed skipped"
    awk -v code="$2" '
        /^[0-9]+ passed, [0-9]+ failed/ { own = 1; gsub(/,/, ""); p = $1; f = $3; s = $5 + 0; next }
        /^\[  PASSED  \] [0-9]+ test/ { if (!own) p += $4 }
        /^\[  SKIPPED \] [0-9]+ test/ { if (!own) s += $4 }
        /^\[  FAILED  \] [^0-9]*[0-9]+ test/ { if (!own) { sub(/^\[  FAILED  \] [^0-9]*/, ""); f += $1 } }
        END { if (code == 77 && !own && p + f == 0) s = s ? s : 1
              else if (code != 0 && f == 0) f = 1
              else if (p + f + s == 0) p = 1
              print p + 0, f + 0, s + 0 }' "$1"
}

run_once() { # run_once SOURCE NAME LIMIT ENVIRONMENT
    source=$1 name=$2 limit=$3 environment=$4
    label=$name
    [ "$environment" = - ] && environment="" || label="$name [$environment]"
    log=$results/$(printf '%s' "$label" | tr -c 'A-Za-z0-9_\n' _).log
    case $source in
    *.c) program=$TESTS/$name ;;
    *.sh) program="sh $source" ;;
    tests/python/*.py) program="$PYTHON_FOR_TESTS -B $source" environment="$environment PYTHONPATH=$PWD/$BUILD/python" ;;
    *.py) program="python3 -B $source" ;;
    esac
    wrap=""
    [ "$MODE" = tsan ] && setarch -R true 2>/dev/null && wrap="setarch -R"
    started=$(date +%s)
    # shellcheck disable=SC2086
    env $environment timeout -k 5 "$limit" $wrap $program >"$log" 2>&1 </dev/null
    code=$?
    [ $code -eq 124 ] && echo "stopped after the limit of $limit s" >>"$log"
    set -- $(count "$log" $code)
    echo "$1 $2 $3" >"${log%.log}.count"
    word=ok
    [ "$3" -gt 0 ] && word="ok ($3 skipped)"
    [ "$1" -eq 0 ] && [ "$2" -eq 0 ] && word="skipped: $(tail -n 1 "$log")"
    [ "$2" -gt 0 ] && word="FAILED (exit code $code)"
    printf '%-44s %5d tests %4d s  %s\n' "$label" $(($1 + $2 + $3)) $(($(date +%s) - started)) "$word"
    [ "$2" -eq 0 ] || { grep -v -E '^\[ RUN|^\[       OK' "$log" | tail -n 60 | sed 's/^/    /'; return 1; }
}

# OpenCL's tests run on PoCL, one driver that has everything; not under the sanitizers, which it and LLVM behind it do not pass.
opencl_runs() {
    case $MODE in asan | tsan) return 1 ;; esac
    grep -qs pocl /etc/OpenCL/vendors/*.icd && return 0
    printf '%-44s skipped: no PoCL here (apt-get install pocl-opencl-icd ocl-icd-libopencl1)\n' "$name [$environment]"
    echo "0 0 1" >"$results/$name.opencl.count"
    return 1
}

environments() { # environments SOURCE: one run a line
    if [ -n "$OPENCL" ]; then { wish test-env "$1"; wish test-env-opencl "$1"; } | grep FACULA_OPENCL=cpu
    else wish test-env "$1"; fi
}

run_one() {
    name=$(basename "$1" | sed 's/\.c$//')
    limit=$(wish test-limit "$1")
    limit=${limit:-120}
    case $MODE in asan | tsan) limit=$((limit * 5)) ;; esac
    [ -z "${FACULA_SOAK:-}" ] || limit=$((limit * 20))
    mkdir -p "$results"
    environments "$1" | grep . >/dev/null || { run_once "$1" "$name" "$limit" -; return; }
    bad=0
    while read -r environment; do
        case $environment in *FACULA_OPENCL=cpu*) opencl_runs || continue ;; esac
        run_once "$1" "$name" "$limit" "$environment" || bad=1
    done <<EOF
$(environments "$1")
EOF
    return $bad
}

wanted() { # wanted SOURCE: by name, tag and mode
    name=$(basename "$1" | sed -e 's/^test_//' -e 's/\.[a-z]*$//')
    [ -z "$TAG" ] || wish test-tags "$1" | grep -qw "$TAG" || return 1
    if [ -n "$OPENCL" ] || wish test-env-opencl "$1" | grep . >/dev/null; then # nothing to run here, not even without an environment
        environments "$1" | grep . >/dev/null || return 1
    fi
    case $1 in tests/python/*) [ "$MODE" = release ] || return 1 ;; esac
    modes=$(wish test-modes "$1")
    [ -z "$modes" ] || printf '%s\n' "$modes" | grep -qw "$MODE" || return 1
    for pattern in $ONLY; do
        # shellcheck disable=SC2254
        case $name in $pattern) return 0 ;; esac
    done
    return 1
}

# The Python of the extension, with NumPy if one is to be had: Debian's own, where it is of the same version, may have it.
find_python() {
    suffix='import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))'
    wanted=$("${PYTHON:-python3}" -c "$suffix" 2>/dev/null)
    for candidate in "${PYTHON:-python3}" /usr/bin/python3; do
        [ "$("$candidate" -c "import numpy; $suffix" 2>/dev/null)" = "$wanted" ] && { echo "$candidate"; return; }
    done
    echo "${PYTHON:-python3}"
}
export PYTHON_FOR_TESTS="${PYTHON_FOR_TESTS:-$(find_python)}"

# One cache of what PoCL compiled serves all tests of a run and the next one; no test meets an OpenCL device that it did not ask for.
export FACULA_OPENCL="${FACULA_OPENCL:-off}" POCL_DEVICES="${POCL_DEVICES:-basic basic}" POCL_CACHE_DIR="${POCL_CACHE_DIR:-$PWD/$BUILD/pocl}"
mkdir -p "$POCL_CACHE_DIR"

# Findings of the sanitizers end the program with a failure.
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1:strict_string_checks=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=0:second_deadlock_stack=1}"

if [ "${1:-}" = one ]; then
    run_one "$2"
    exit
fi

rm -rf "$results"
mkdir -p "$results"
set -- tests/test_*.c tests/test_*.sh tests/test_*.py tests/python/test_*.py
set -f # from here on patterns are for names of tests
list=""
for source; do
    [ -e "$source" ] && wanted "$source" && list="$list $source"
done
[ -n "$list" ] || { echo "no test matches ONLY='$ONLY' TAG='$TAG'" >&2; exit 1; }
# shellcheck disable=SC2086
printf '%s\n' $list | xargs -P "$JOBS" -n 1 sh "$0" one
set +f
cat "$results"/*.count | awk '{ p += $1; f += $2; s += $3 }
    END { printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 || p + s == 0 }'
