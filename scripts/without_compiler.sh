#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From nothing to a verified prediction where there is no compiler: builds the wheel, fills pip's
# cache, then times two commands with a PATH that has the programs of their own environment and the
# shell's alone: `pip install 'aotc[zig]'`, and compile, build and verify the digits.
#
#     scripts/without_compiler.sh [PYTHON [SECONDS]]
#
# Exit status 1 if the two take more than SECONDS (180).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${1:-python3}
"$python" -m venv "$work/tools"
"$work/tools/bin/pip" install -q --disable-pip-version-check build
"$work/tools/bin/python" -m build -q --wheel -o "$work/dist" "$root" >/dev/null
wheel=$(echo "$work"/dist/aotc-*.whl)
"$work/tools/bin/pip" install -q --disable-pip-version-check "$wheel[zig]"
mkdir "$work/programs"
for program in sh rm mkdir cat; do
    ln -s "$(command -v $program)" "$work/programs/$program"
done
"$python" -m venv "$work/venv"
cd "$work"
export PATH="$work/venv/bin:$work/programs" ZIG_GLOBAL_CACHE_DIR="$work/cache"
unset CC
if command -v cc gcc clang cmake; then
    echo "a compiler is in sight"
    exit 1
fi
now() { python -c 'import time; print(int(time.monotonic()))'; }
began=$(now)
pip install -q --disable-pip-version-check "$wheel[zig]"
installed=$(now)
aotc "$root/examples/digits/digits.onnx" -o out && cmake --build out >log && aotc verify out --reference onnx
ended=$(now)
echo "pip install $((installed - began)) s, compile, build and verify $((ended - installed)) s"
[ $((ended - began)) -le "${2:-180}" ]
