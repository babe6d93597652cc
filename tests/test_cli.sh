#!/bin/sh
# The command facula: help, exit codes, what it says to mistakes, and that the demo learns: on the CPU, and in short on a
# simulated GPU.
# test-limit: 300
set -u
facula=${BUILD:-build/release}/bin/facula
passed=0 failed=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
unset FACULA_SIM FACULA_SIM_MEMORY
export CUDA_VISIBLE_DEVICES=

check() { # check EXIT_CODE PATTERN ARGUMENT...: the exit code, and a line of the output (stderr too) that matches
    code=$1 pattern=$2
    shift 2
    "$facula" "$@" >"$out" 2>&1 </dev/null
    got=$?
    if [ $got -eq "$code" ] && grep -q -e "$pattern" "$out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: facula $*: exit code $got, expected $code and a line that matches '$pattern'; it printed"
        sed 's/^/    /' "$out"
    fi
}

check 0 '^facula [0-9]*\.[0-9]*\.[0-9]*$' --version
check 0 '^Usage: facula <command>' --help
check 2 '^Usage: facula <command>'
for command in info demo; do
    check 0 "^Usage: facula $command" $command --help
    check 0 "^Usage: facula $command" help $command
done
check 2 "unknown command 'inof'; did you mean info?" inof
check 2 "unknown option '--versoin'; did you mean --version?" --versoin
check 2 "unknown option '--devise'; did you mean --device?" demo --devise cpu
check 2 "option --epochs is 'many': a whole number from 1" demo --epochs many
check 2 "option --seed needs a value" demo --seed
check 2 "unexpected argument 'cpu'" demo cpu
check 0 '^  cpu .* ready$' info
for threads in abc 0 -3 2x 1.5; do
    FACULA_NUM_THREADS=$threads check 0 "warning: num_threads: FACULA_NUM_THREADS='$threads' is not a whole number from 1 to" info
done
FACULA_NUM_THREADS=3 check 0 '^  threads 3 ' info
FACULA_NUM_THREADS= OMP_NUM_THREADS=5,2 check 0 '^  threads 5 ' info
check 0 'no accelerator: Found no NVIDIA driver' info
check 0 'FACULA_SIM=cuda:2 facula info' info
FACULA_FALLBACK=cpu check 0 '^FACULA_FALLBACK=cpu is set: what a device' info
FACULA_FALLBACK=gpu check 0 '^FACULA_FALLBACK=gpu is not understood' info
check 1 '^facula demo: Found no NVIDIA driver on your system\.' demo --device cuda
check 1 '^Try: FACULA_SIM=cuda:2 facula demo --device cuda$' demo --device cuda
check 1 'Expected one of cpu, cuda' demo --device gpu
check 1 'no-such-file' demo --data no-such-file.csv
check 1 'is no number' demo --data README.md

check 0 '^device: cpu' demo --device cpu
check 0 '^held-out accuracy: \(9[789]\|100\)\.' demo --device cpu
check 0 '^time: .*forward .*backward .*step .*data ' demo --epochs=1

unset CUDA_VISIBLE_DEVICES
FACULA_SIM=cuda:2
export FACULA_SIM
FACULA_SIM_FAULTS=build:1+ FACULA_CACHE=off FACULA_FALLBACK=cpu check 0 \
    '^FACULA_FALLBACK=cpu: the CPU ran [0-9]* kernels for .* of cuda:0 (' selftest --device cuda:0 --op neg
check 0 '^  cuda:1 .*Facula simulated GPU 1.* ready$' info
check 0 '^device: cuda:1 (Facula simulated GPU 1)$' demo --device cuda:1 --epochs 1
check 1 'there are 2 devices of this type' demo --device cuda:5
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
