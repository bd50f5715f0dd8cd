#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel, installs it in a fresh environment, and compiles, builds and verifies the digits:
#
#     scripts/fresh.sh [PYTHON [highest|lowest-direct]]
#
# PYTHON (python3) is a version or a program; lowest-direct takes the oldest dependencies that
# pyproject.toml allows, highest the newest.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install -q --disable-pip-version-check uv
uv=$work/tools/bin/uv
"$uv" build -q --wheel -o "$work/dist" "$root"
"$uv" venv -q -p "${1:-python3}" "$work/venv"
"$uv" pip install -q -p "$work/venv" --resolution "${2:-highest}" -r "$root/pyproject.toml"
"$uv" pip install -q -p "$work/venv" --no-deps "$work"/dist/aotc-*.whl
"$uv" pip install -q -p "$work/venv" cmake ninja
cd "$work"
PATH=$work/venv/bin:$PATH
"$uv" pip freeze -q -p "$work/venv" | grep -iE '^(numpy|onnx|onnx.ir)=='
python --version
aotc "$root/examples/digits/digits.onnx" -o out
cmake --build out --parallel >/dev/null
aotc verify out --reference onnx
