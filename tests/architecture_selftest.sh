#!/usr/bin/env bash
# Plants a breach of each rule in a small house and sees architecture_test.sh find it: architecture_selftest.sh
set -euo pipefail
judge=$(cd "$(dirname "$0")" && pwd)/architecture_test.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

house() { # a small house in order
  rm -rf "$work/house"
  mkdir -p "$work/house" && cd "$work/house"
  mkdir -p include/heed src/kernels verify cli tests benchmarks examples scripts cmake
  echo '#include <heed/attention.hpp>' >include/heed/heed.hpp
  echo '#include <vector>' >include/heed/attention.hpp
  echo 'throw Error();' >src/check.hpp
  printf '%s\n' '#include "src/check.hpp"  // may throw' '#include "src/kernels/kernels.hpp"' >src/attention.cpp
  echo '#include <oneapi/tbb/task_arena.h>' >src/parallel_tbb.cpp
  echo '#include <vector>' >src/kernels/kernels.hpp
  printf '%s\n' '#include <cmath>' '#include "src/visibility.hpp"' >src/kernels/softmax-inl.hpp
  printf '%s\n' '#include <heed/heed.hpp>' '#include "verify/oracle.hpp"' >verify/oracle.cpp
  printf '%s\n' '#include <CLI/CLI.hpp>' '#include "verify/oracle.hpp"' >cli/main.cpp
  echo '#include <gtest/gtest.h>' >tests/attention_test.cpp
  echo '#include "src/attention_plan.hpp"' >tests/attention_plan_test.cpp
  echo 'add_library(heed attention.cpp parallel_tbb.cpp)' >src/CMakeLists.txt
  echo 'add_library(heed_verify oracle.cpp)' >verify/CMakeLists.txt
  echo 'add_executable(heed_cli main.cpp)' >cli/CMakeLists.txt
  printf 'heed_add_test(%s)\n' attention_test attention_plan_test >tests/CMakeLists.txt
  touch benchmarks/CMakeLists.txt
}

planted=0
finds() { # RULE FILE LINE
  house
  printf '%s\n' "$3" >>"$2"
  if said=$("$judge" "$work/house"); then
    echo "not found: '$3' in $2" >&2
    exit 1
  fi
  if ! grep -qF -- "<- $1" <<<"$said" || ! grep -qF "$2" <<<"$said"; then
    printf "'%s' in %s: expected '%s', came:\n%s\n" "$3" "$2" "$1" "$said" >&2
    exit 1
  fi
  planted=$((planted + 1))
}

house
"$judge" "$work/house"

finds "may not be included here" include/heed/attention.hpp '#include <hwy/highway.h>'
finds "may not be included here" include/heed/attention.hpp '#include <immintrin.h>'
finds "may not be included here" include/heed/attention.hpp '#include "src/check.hpp"'
finds "may not be included here" src/attention.cpp '#include "verify/oracle.hpp"'
finds "may not be included here" src/attention.cpp '#include <tbb/parallel_for.h>'
finds "may not be included here" src/kernels/softmax-inl.hpp '#include <vector>'
finds "may not be included here" src/kernels/softmax-inl.hpp '#include "src/attention_plan.hpp"'
finds "may not be included here" src/kernels/kernels.hpp '#include "src/attention_plan.hpp"'
finds "may not be included here" verify/oracle.cpp '#include "src/visibility.hpp"'
finds "may not be included here" cli/main.cpp '#include "src/check.hpp"'
finds "may not be included here" benchmarks/attention_bench.cpp '#include "src/check.hpp"'
finds "may not be included here" examples/first.cpp '#include "verify/oracle.hpp"'
finds "only white-box tests see src/" tests/attention_test.cpp '#include "src/check.hpp"'
finds "only src/check.hpp throws" src/attention.cpp 'if (bad) throw 1;'
finds "only src/check.hpp throws" include/heed/attention.hpp 'if (bad) throw 1;'
finds "the library never prints" src/attention.cpp '  std::printf("here");'
finds "the library never prints" src/attention.cpp '#include <iostream>'
finds "the library never ends its host" src/attention.cpp '  std::abort();'
finds "the library never ends its host" src/kernels/softmax-inl.hpp '  HWY_ASSERT(true);'
finds "no instruction set in a contract" include/heed/attention.hpp '__m512 x;'
finds "kernels do not allocate" src/kernels/softmax-inl.hpp '  float* p = new float[3];'
finds "kernels do not throw" src/kernels/softmax-inl.hpp '  fail("a", "b", "c");'
finds "kernels know no threads" src/kernels/softmax-inl.hpp '  std::atomic<int> n;'
finds "more than 800 lines" src/attention.cpp "$(yes '// long' | head -n 801)"
finds "not in src/CMakeLists.txt" src/forgotten.cpp 'int x;'
finds "not in tests/CMakeLists.txt" tests/forgotten_test.cpp 'int x;'
finds "not in heed.hpp" include/heed/forgotten.hpp 'int x;'

house
git init -q . && head -c $((5 * 1024 * 1024)) /dev/zero >big.bin && git add big.bin
if "$judge" "$work/house" >"$work/said" || ! grep -q "big.bin.*<- too large" "$work/said"; then
  echo "not found: a file of 5 MiB" >&2
  exit 1
fi
echo "found all $((planted + 1)) planted breaches"
