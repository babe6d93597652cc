#!/bin/sh
# The CMake presets: each one configures, with its own flags, and the release preset builds: the simulator, which is a target of its
# own and needs what the generators make.
# test-modes: release
# test-limit: 300
set -u
command -v cmake >/dev/null || { echo "cmake is not installed: the presets were not tried"; exit 77; }
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
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

# A copy, so that the source tree gets no build folders; the working tree's own files, committed or not.
mkdir "$root/source"
for item in CMakeLists.txt CMakePresets.json facula.pc.in cmake include src kernels tools python cli tests data docs; do
    cp -R "$item" "$root/source/"
done
cd "$root/source" || exit 1
for preset in release debug asan tsan; do
    check "configure preset $preset" cmake --preset "$preset"
    flag=$(sed -n "s/^FLAGS_$preset := \(-O[0-9]\).*/\1/p" tools/flags.mk)
    check "the flags of $preset" grep -q -e "$flag" "build/cmake-$preset/compile_commands.json"
done
check "asan's flags are asan's" grep -q fsanitize=address build/cmake-asan/compile_commands.json
check "release has no sanitizer" sh -c "! grep -q fsanitize build/cmake-release/compile_commands.json"
check "an unknown mode is refused" sh -c "! cmake -B build/none -DFACULA_MODE=fast . && cmake -B build/none -DFACULA_MODE=fast . 2>&1 | grep -q 'choose release, debug, asan or tsan'"
check "build preset release" cmake --build --preset release --target facula_sim
check "its simulator has the driver's functions" sh -c "nm -D build/cmake-release/libfacula_sim.so | grep -q cuLaunchKernel"
echo "$passed passed, $failed failed"
exit $failed
