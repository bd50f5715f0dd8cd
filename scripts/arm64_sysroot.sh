#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks Debian packages for arm64 into a folder, for programs that run under qemu-aarch64:
#
#     scripts/arm64_sysroot.sh FOLDER PACKAGE...
#
# apt keeps the lists of arm64 in FOLDER/apt, so that the system learns of no other architecture and
# no root is needed. A second call with the same packages does nothing.
set -eu
folder=$1
shift
if [ "$(cat "$folder/packages" 2>/dev/null || true)" = "$*" ]; then
    exit 0
fi
echo "unpacking for arm64: $*"
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
folder=$(cd "$folder" && pwd)
log=$folder/apt/log

# Runs apt-get for arm64; its output is shown only if it fails.
apt() {
    LC_ALL=C apt-get -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= \
        -o Dir::State::Lists="$folder/apt/lists" -o Dir::State::status=/dev/null \
        -o Dir::Cache="$folder/apt" "$@" >"$log" 2>&1
}

apt update || true # a list that somebody added may have no arm64: the next command tells
(cd "$folder/apt" && apt download "$@") || {
    cat "$log" >&2
    exit 1
}
for package in "$folder"/apt/*.deb; do
    dpkg -x "$package" "$folder"
done
rm -rf "$folder/apt"
echo "$*" >"$folder/packages"
