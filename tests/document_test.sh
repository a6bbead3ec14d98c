#!/usr/bin/env bash
# Block N of a document is examples/NAME.cpp, and block N + 1 is what that program prints.
#   document_test.sh SOURCE_DIR DOCUMENT N NAME EXAMPLE_COMMAND...
set -euo pipefail
source_dir=$1 document=$2 first=$3 name=$4 program=("${@:5}")

block() { # N: the N-th fenced block
  awk -v wanted="$1" '/^```/ { if (inside) inside = 0; else { inside = 1; ++n; next } } inside && n == wanted' "$source_dir/$document"
}

diff <(block "$first") "$source_dir/examples/$name.cpp" || { echo "block $first of $document is not examples/$name.cpp"; exit 1; }
diff <(block $((first + 1))) <("${program[@]}") || { echo "block $((first + 1)) of $document is not what $name prints"; exit 1; }
[ "$(block "$first" | wc -l)" -gt 10 ] || { echo "$document shows no program"; exit 1; }
