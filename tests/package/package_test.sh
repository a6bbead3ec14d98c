#!/usr/bin/env bash
# Uses Heed as a stranger's project would.
#   package_test.sh find_package CMAKE SOURCE BUILD       installs what BUILD holds into a new prefix and finds it there
#   package_test.sh add_subdirectory CMAKE SOURCE BUILD   builds SOURCE as part of another project, as a shared library,
#                                                         then installs that and finds it too
set -euo pipefail
way=$1 cmake=$2 source=$3 build=$4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "package: $way: $1" >&2; exit 1; }

configure() { # FROM INTO OPTIONS...
  "$cmake" -S "$source/tests/package/$1" -B "$work/$2" -G Ninja -DCMAKE_BUILD_TYPE=Release "${@:3}"
}

find_installed() { # PREFIX
  configure find_package found -DCMAKE_PREFIX_PATH="$1" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror"
  grep -q "^heed_DIR:PATH=$1/" "$work/found/CMakeCache.txt" || fail "found another heed than the one in $1"
  "$cmake" --build "$work/found"
  "$work/found/consumer"
}

case $way in
  find_package)
    "$cmake" --install "$build" --prefix "$work/prefix" >/dev/null
    stray=$(cd "$work/prefix/include" && find . -type f ! -path './heed/*.hpp')
    [ -z "$stray" ] || fail "installed beside the headers of heed: $stray"
    "$work/prefix/bin/heed" info >/dev/null || fail "the installed command does not run"
    find_installed "$work/prefix"
    ;;
  add_subdirectory)
    # -O0: what is tested is that it compiles and links, and kernels take long to optimise.
    configure add_subdirectory built -DHEED_SOURCE_DIR="$source" -DHEED_INSTALL=ON -DBUILD_SHARED_LIBS=ON \
      -DCMAKE_CXX_FLAGS_RELEASE=-O0
    "$cmake" --build "$work/built" --target consumer
    "$work/built/consumer"
    linked=$(ldd "$work/built/consumer")  # kept: a pipe that grep leaves early would fail
    [[ $linked == *libheed.so* ]] || fail "BUILD_SHARED_LIBS=ON gave no shared library"
    "$cmake" --install "$work/built" --prefix "$work/prefix" >/dev/null
    find_installed "$work/prefix"
    ;;
  *) fail "unknown way" ;;
esac
