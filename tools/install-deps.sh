#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# install-deps.sh SET...: installs the Debian packages of these sets that are missing.
#
# It asks dpkg each time (a few milliseconds) instead of keeping a stamp, so the answer is never
# stale, and with everything in place it needs neither root nor a network.  On a system without dpkg
# it installs nothing, says what is needed, and lets the build find out.
set -eu

packages_of() {
    case $1 in
    build)
        echo gcc libc6-dev meson ninja-build pkg-config libssl-dev libhwloc-dev python3 python3-dev \
            cython3
        ;;
    test) echo g++ iproute2 ucx-utils clang python3-numpy ;;
    lint) echo clang clang-tidy clang-format g++ ;;
    sanitize) echo clang libclang-rt-dev llvm ;;
    bench) echo ucx-utils python3-venv ;;
    *)
        echo "install-deps.sh: unknown set '$1' (build, test, lint, sanitize, bench)" >&2
        exit 2
        ;;
    esac
}

packages=
for set in "$@"; do
    packages="$packages $(packages_of "$set")"
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "install-deps: not Debian; these packages or their like are needed:$packages" >&2
    exit 0
fi

missing=
for package in $packages; do
    # A package counts when it, or another that provides it (pkgconf for pkg-config), is installed.
    status=$(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null) || status=
    case " $missing $status" in
    *" installed "* | *" $package "*) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "install-deps: as root: apt-get install$missing" >&2
        exit 1
    fi
    as_root="sudo"
fi

echo "install-deps: installing$missing (apt-get)"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" \
        </dev/null >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        echo "install-deps: apt-get $1 failed" >&2
        return 1
    }
}
# An update that fails may still leave lists that are good enough: only the install decides.
apt update || true
# shellcheck disable=SC2086 # one word per package
apt install --no-install-recommends $missing
