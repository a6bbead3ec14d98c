#!/usr/bin/env bash
# The first program in README.md is examples/attention.cpp, and prints what README.md says it prints.
#   readme_test.sh SOURCE_DIR EXAMPLE_COMMAND...
set -euo pipefail
source_dir=$1 program=("${@:2}")

block() { # N: the N-th fenced block of README.md
  awk -v wanted="$1" '/^```/ { if (inside) inside = 0; else { inside = 1; ++n; next } } inside && n == wanted' "$source_dir/README.md"
}

diff <(block 1) "$source_dir/examples/attention.cpp" || { echo "the program in README.md is not examples/attention.cpp"; exit 1; }
diff <(block 2) <("${program[@]}") || { echo "the output in README.md is not what the program prints"; exit 1; }
[ "$(block 1 | wc -l)" -gt 10 ] || { echo "README.md shows no program"; exit 1; }
