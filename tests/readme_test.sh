#!/usr/bin/env bash
# Block N of README.md is examples/NAME.cpp, and block N + 1 is what that program prints.
#   readme_test.sh SOURCE_DIR N NAME EXAMPLE_COMMAND...
set -euo pipefail
source_dir=$1 first=$2 name=$3 program=("${@:4}")

block() { # N: the N-th fenced block of README.md
  awk -v wanted="$1" '/^```/ { if (inside) inside = 0; else { inside = 1; ++n; next } } inside && n == wanted' "$source_dir/README.md"
}

diff <(block "$first") "$source_dir/examples/$name.cpp" || { echo "block $first of README.md is not examples/$name.cpp"; exit 1; }
diff <(block $((first + 1))) <("${program[@]}") || { echo "block $((first + 1)) of README.md is not what $name prints"; exit 1; }
[ "$(block "$first" | wc -l)" -gt 10 ] || { echo "README.md shows no program"; exit 1; }
