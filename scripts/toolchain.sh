#!/bin/sh
# Checks for what the build needs: a C++ compiler and libjpeg-turbo's header. Says which package is missing;
# as root on Debian or Ubuntu it installs that package.
set -eu

need() { # need NAME DEBIAN-PACKAGE BREW-PACKAGE
    if command -v apt-get >/dev/null 2>&1; then
        if [ "$(id -u)" = 0 ]; then
            echo "installing $2 ($1 is missing)"
            apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$2" >/dev/null
        else
            echo "$1 is missing: sudo apt-get install $2" >&2
            exit 3
        fi
    elif command -v brew >/dev/null 2>&1; then
        echo "$1 is missing: brew install $3" >&2
        exit 3
    else
        echo "$1 is missing: install $2 (Debian's name) with this system's package manager" >&2
        exit 3
    fi
}

compiles() { # compiles SOURCE-LINE
    printf '%s\n' "$1" | ${CXX:-c++} -std=c++20 -x c++ -fsyntax-only ${2:-} - >/dev/null 2>&1
}

includes=""
for prefix in /opt/homebrew/opt/jpeg-turbo /usr/local/opt/jpeg-turbo; do
    [ -d "$prefix/include" ] && includes="-I$prefix/include"
done

compiles 'int main() { return 0; }' || need "a C++20 compiler" g++ gcc
compiles '#include <cstdio>
#include <jpeglib.h>
#ifndef LIBJPEG_TURBO_VERSION
#error this is not libjpeg-turbo
#endif' "$includes" || need "the header of libjpeg-turbo" libjpeg-dev jpeg-turbo
python3 -c 'import venv, ensurepip' 2>/dev/null || need "Python's venv module" python3-venv python3
