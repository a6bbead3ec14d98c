#!/usr/bin/env bash
# The house rules that a machine can check: architecture_test.sh ROOT
# Prints "file:line: code  <- the rule it breaks" for each breach and exits 1 when there is one.
# architecture_selftest.sh plants a breach of each rule and sees it found.
set -euo pipefail
cd "${1:?the root of the project}"

readonly long_lines=400    # longer files are mentioned
readonly refused_lines=800 # longer ones are refused
readonly file_bytes=$((4 * 1024 * 1024)) all_bytes=$((12 * 1024 * 1024))

# Tests that look inside src/: of what decides too much to be seen only from outside.
readonly white_box='tests/(attention_chunks|attention_plan|linear|math|parallel|softmax_plan|weighted_draw)_test\.cpp'
# Definitions that plan, kernels and trace share, so that they cannot disagree: plain inline code.
readonly shared='"src/(philox|visibility)\.hpp"'
# The table of kernels: where src/ reaches them. Not compiled per instruction set, so it may hold a vector.
readonly table='src/kernels/kernels\.[ch]pp'

# A room may still be empty, and git keeps no empty directory.
sources() { find "$@" -type f \( -name '*.cpp' -o -name '*.hpp' \) 2>/dev/null | sort; }

kernels() { sources src/kernels | grep -vE "^$table\$"; }

# The code of the files named on standard input as "file:line: code": no // comments, no empty lines.
code() { xargs -r awk '{ sub(/\/\/.*/, "") } /[^ \t]/ { print FILENAME ":" FNR ": " $0 }'; }

# Names the rule beside each breach.
breaks() { sed "s|\$|  <- $1|"; }

# --- Rooms: who may include what ---

readonly std='<[a-z_0-9]+>' posix='<(sys/[a-z]+|unistd|fcntl|sched|cpuid|langinfo)\.h>'
readonly promise='<heed/[a-z_]+\.hpp>' judge='"verify/[a-z_]+\.hpp"' json='<nlohmann/json(_fwd)?\.hpp>'
readonly decide='"src/[a-z_]+\.hpp"' compute='"src/kernels/[a-z_0-9]+(-inl)?\.hpp"' tbb='<(oneapi/)?tbb/[a-z_]+\.h>'
readonly pure_std='<(algorithm|array|bit|cmath|cstddef|cstdint|cstring|limits|span|type_traits|utility)>'

may_include() { # FILES... -- ALLOWED...
  local files=() allowed
  while [ "$1" != -- ]; do
    [ ! -e "$1" ] || files+=("$1")
    shift
  done
  shift
  allowed=$(IFS='|'; echo "$*")
  printf '%s\n' "${files[@]}" | code | grep -E ': *# *include' | grep -vE "# *include +($allowed) *\$" |
    breaks "may not be included here"
}

rooms() {
  local room
  may_include $(sources include) -- "$std" "$promise"
  may_include $(sources src -maxdepth 1 | grep -vE '/(parallel_tbb|plan_config|safetensors|runtime)\.cpp$') -- \
    "$std" "$posix" "$promise" "$decide" "$compute"
  may_include src/parallel_tbb.cpp -- "$std" "$promise" "$decide" "$tbb"
  may_include src/plan_config.cpp src/safetensors.cpp -- "$std" "$posix" "$promise" "$decide" "$json"
  may_include src/runtime.cpp -- "$std" "$posix" "$promise" "$decide" "$compute" '<hwy/targets\.h>'
  may_include $(kernels) -- "$pure_std" "$compute" "$shared" '<hwy/[a-z_/-]+\.h>'
  may_include $(sources src/kernels | grep -E "^$table\$") -- "$std" "$promise" "$compute" '<hwy/[a-z_/-]+\.h>'
  may_include $(sources verify) -- "$std" "$promise" "$judge"
  may_include $(sources cli) -- "$std" "$posix" "$promise" "$judge" "$json" '"cli/[a-z_]+\.hpp"' '<CLI/CLI\.hpp>'
  may_include $(sources benchmarks) -- "$std" "$promise" "$judge" '"benchmarks/([a-z_]+/)?[a-z_]+\.hpp"' '<benchmark/benchmark\.h>'
  may_include $(sources examples) -- "$std" "$promise"
  sources tests | grep -vE "^$white_box\$" | code | grep -E '# *include +"(\.\./)?src/' | breaks "only white-box tests see src/"
}

# --- What code may not say ---

says() { # WHAT RULE, files on standard input
  code | grep -P -- "$1" | breaks "$2"
}

words() {
  sources include src | grep -vFx src/check.hpp | says '\bthrow\b' "only src/check.hpp throws"
  sources include src | says '\b(f?printf|f?puts|putchar|perror|cout|cerr|clog|iostream)\b' "the library never prints"
  sources include src | says '\b(abort|_?exit|_Exit|quick_exit|terminate|assert|HWY_D?ASSERT|HWY_ABORT)\b *\(' \
    "the library never ends its host"
  sources include | says '\b(_mm\d*_|__m\d|HWY_|hwy::)' "no instruction set in a contract"
  kernels | says '\b(new|delete|malloc|calloc|make_unique|make_shared|vector<|string\b|push_back|resize)' \
    "kernels do not allocate"
  kernels | says '\b(fail|try|catch)\b *[({]' "kernels do not throw"
  kernels | says '\b(thread|mutex|atomic|tbb)\b' "kernels know no threads"
}

# --- Files ---

lengths() {
  find include src verify cli tests benchmarks examples scripts cmake -type f \
    \( -name '*.?pp' -o -name '*.sh' -o -name '*.py' -o -name '*.cmake' -o -path 'scripts/*' \) -exec wc -l {} + 2>/dev/null |
    awk -v refused=$refused_lines '$2 != "total" && $1 > refused { print $2 ": " $1 " lines" }' |
    breaks "more than $refused_lines lines"
}

sizes() {
  git ls-files -z 2>/dev/null | xargs -0 -r stat -c '%s %n' 2>/dev/null |
    awk -v most=$file_bytes -v all=$all_bytes '
      { sum += $1 } $1 > most { print $2 ": " $1 " bytes" } END { if (sum > all) print ".: " sum " bytes in all" }' |
    breaks "too large: $file_bytes bytes a file, $all_bytes in all"
}

# A source that no list names is never built, a test that no list names never fails.
listed() {
  local room file name
  for room in src verify cli benchmarks tests; do
    while IFS= read -r file; do
      name=${file#"$room/"}
      grep -qE "(^|[( ])(${name//./\\.}|${name%.cpp})([ )]|\$)" "$room/CMakeLists.txt" || echo "$file"
    done < <(sources "$room" | grep '\.cpp$' | grep -vE '^tests/(package|fuzz)/') | breaks "not in $room/CMakeLists.txt"
  done
  while IFS= read -r file; do
    grep -qF "#include <${file#include/}>" include/heed/heed.hpp || echo "$file"
  done < <(sources include | grep -v '/heed\.hpp$') | breaks "not in heed.hpp"
}

breaches=$(
  set +e # a grep that finds nothing is good news
  rooms; words; lengths; sizes; listed
)

sources include src verify cli tests benchmarks | xargs -r wc -l |
  awk -v long=$long_lines '$2 != "total" && $1 > long { print "long: " $2 ": " $1 " lines" }'
if [ -n "$breaches" ]; then
  echo "$breaches"
  exit 1
fi
echo "the house is in order: $(sources include src verify cli tests benchmarks | wc -l) files"
