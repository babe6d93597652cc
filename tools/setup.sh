#!/bin/sh
# Checks for what Facula is built and tested with, and installs what is missing where that can be done: on Debian and its
# kin by apt-get. Needs no network when everything is there. On other systems it says what to install.
set -eu

for=${1:-build} # "tests": what tests need, too
missing=""
need() { missing="$missing $1"; }
has_header() { printf '#include <stdarg.h>\n#include <stddef.h>\n#include <setjmp.h>\n#include <stdint.h>\n#include <%s>\n' "$1" |
    "${CC:-cc}" -E -x c - >/dev/null 2>&1; }

has_python_headers() { [ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])' 2>/dev/null)/Python.h" ]; }
has_numpy() { "$1" -c 'import numpy' >/dev/null 2>&1; }

look() {
    missing=""
    command -v "${CC:-cc}" >/dev/null 2>&1 || need gcc
    has_header stdio.h || need libc6-dev
    command -v make >/dev/null 2>&1 || need make
    # A release brings its generated files along and can do without Python.
    [ -d generated ] || command -v python3 >/dev/null 2>&1 || need python3
    has_header zlib.h || need zlib1g-dev
    [ "$for" = tests ] || return 0
    has_header cmocka.h || need libcmocka-dev
    command -v pkg-config >/dev/null 2>&1 || need pkg-config
    # The Python package: its headers; NumPy for the tests of sharing memory with it.
    has_python_headers || need python3-dev
    has_numpy python3 || has_numpy /usr/bin/python3 || need python3-numpy
    # An OpenCL driver for the CPU, on which the OpenCL backend is tested.
    grep -qs pocl /etc/OpenCL/vendors/*.icd || need "pocl-opencl-icd ocl-icd-libopencl1"
}

look
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: missing (by their Debian names):$missing" >&2
    echo "setup: install them with your system's tool and run this again, e.g." >&2
    echo "setup:   Fedora: dnf install gcc make python3-devel python3-numpy zlib-devel libcmocka-devel pkgconf" >&2
    echo "setup:   Arch:   pacman -S gcc make python python-numpy zlib cmocka pkgconf" >&2
    echo "setup:   macOS:  brew install cmocka pkg-config" >&2
    exit 1
fi

as_root=""
[ "$(id -u)" -eq 0 ] || as_root="sudo"
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
look
[ -z "$missing" ] || { echo "setup: still missing after the installation:$missing" >&2; exit 1; }
