#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs those Debian packages that are missing, so that a second call needs no root:
#
#     scripts/apt_install.sh PACKAGE...
#
# While another apt or dpkg holds a lock (machines that were just started update themselves), it says
# so and tries again, for AOT_APT_WAIT seconds at most (1800). Output is shown only if apt fails.
set -eu
dpkg -s "$@" >/dev/null 2>&1 && exit 0
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
limit=${AOT_APT_WAIT:-1800}
pause=5
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Runs apt-get until no lock is in its way; its exit status.
apt() {
    waited=0
    while :; do
        code=0
        $sudo env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get "$@" >"$log" 2>&1 || code=$?
        [ "$code" != 0 ] || return 0
        held=$(grep -m 1 -i -e 'could not get lock' -e 'locked by another process' "$log") || break
        if [ "$waited" -ge "$limit" ]; then
            echo "gave up after $waited s: end the other apt, or set AOT_APT_WAIT to more seconds" >&2
            break
        fi
        if [ "$waited" = 0 ]; then
            echo "waiting for another apt, at most $limit s: ${held#E: }" >&2
        fi
        sleep "$pause"
        waited=$((waited + pause))
    done
    cat "$log" >&2
    return "$code"
}

echo "installing $*"
apt update -qq
apt install -y -qq --no-install-recommends "$@"
