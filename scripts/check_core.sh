#!/bin/sh
# Checks the C++ core without Python: every program of cpp/tests under ASan and UBSan, four threads under TSan, the NEON
# loops under an emulated ARM. As root on Debian or Ubuntu it installs what is missing. It says what it skips, and why.
set -eu
cd "$(dirname "$0")/.."
mutations=${1:-20000}
build=build/check-core
mkdir -p "$build"

install() { # install PACKAGE...
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    echo "installing $*"
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; } \
        >"$build/apt.log" 2>&1
}

have() { # have COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || install "$2"
}

skip() { # skip WHAT WHY
    echo "skipped: $1: $2" >&2
}

# A sanitizer's shadow memory may collide with what a kernel randomises widely.
fixed_addresses=""
setarch -R true >/dev/null 2>&1 && fixed_addresses="setarch -R"

links() { # links SANITIZER: whether a program with it builds, starts and ends here
    printf 'int main() { return 0; }' >"$build/probe.cpp"
    ${CXX:-c++} -fsanitize="$1" "$build/probe.cpp" -o "$build/probe" >"$build/probe.log" 2>&1 &&
        $fixed_addresses "$build/probe" >>"$build/probe.log" 2>&1
}

compiled() { # compiled NAME SANITIZER
    cmake -S cpp/tests -B "$build/$1" -DSANITIZE="$2" >"$build/$1.log" 2>&1 &&
        cmake --build "$build/$1" --parallel "$(getconf _NPROCESSORS_ONLN)" >>"$build/$1.log" 2>&1 ||
        { cat "$build/$1.log" >&2; exit 1; }
}

check_memory() {
    if ! links address,undefined; then
        export ASAN_OPTIONS=detect_leaks=0 # needs ptrace, which some containers forbid
        links address,undefined || { skip "ASan and UBSan" "$(tail -1 "$build/probe.log")"; return; }
        skip "leaks" "LeakSanitizer does not run here"
    fi
    echo "ASan and UBSan"
    compiled memory address,undefined
    $fixed_addresses "$build/memory/compare_kernels"
    $fixed_addresses "$build/memory/decode_on_threads"
    $fixed_addresses "$build/memory/fuzz_decode" "$mutations"
}

check_threads() {
    links thread || { skip "TSan" "$(tail -1 "$build/probe.log")"; return; }
    echo "TSan"
    compiled threads thread
    $fixed_addresses "$build/threads/decode_on_threads"
}

check_neon() {
    [ "$(uname -m)" = aarch64 ] || [ "$(uname -m)" = arm64 ] && return # compare_kernels above had them
    compiler=aarch64-linux-gnu-g++
    if ! have "$compiler" g++-aarch64-linux-gnu || ! have qemu-aarch64-static qemu-user-static; then
        skip "NEON" "needs $compiler and qemu-aarch64-static, which cannot be installed here"
        return
    fi
    echo "NEON, emulated"
    "$compiler" -std=c++20 -O2 -ffp-contract=off -static -Icpp cpp/core/kernels*.cpp cpp/core/resample.cpp \
        cpp/tests/compare_kernels.cpp -o "$build/compare_kernels.arm"
    qemu-aarch64-static "$build/compare_kernels.arm"
}

sh scripts/toolchain.sh
if have cmake cmake; then
    check_memory
    check_threads
else
    skip "ASan, UBSan and TSan" "needs cmake, which cannot be installed here"
fi
check_neon
