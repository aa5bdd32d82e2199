#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# install-deps.sh SET...: installs the Debian packages of these sets that are missing.
#
# What a package is wanted for is looked for first, wherever it came from: a tool in the PATH, a header
# or library that the compiler finds.  Then dpkg is asked.  Both take milliseconds, so there is no stamp
# that could be stale, and with everything in place this needs neither root nor a network.  Where
# nothing can be installed (no dpkg, no root) it says what it misses, and lets the build find out.
set -eu

packages_of() {
    case $1 in
    build)
        echo gcc libc6-dev meson ninja-build pkg-config libssl-dev libhwloc-dev libucx-dev \
            python3 python3-dev python3-venv python3-numpy cython3
        ;;
    test)
        echo g++ iproute2 ucx-utils clang libpmix-dev python3-uvloop python3-distributed \
            munge slurmctld slurmd slurm-client
        ;;
    lint) echo clang clang-tidy clang-format g++ abigail-tools ;;
    sanitize) echo clang libclang-rt-dev llvm ;;
    bench) echo ucx-utils ;;
    *)
        echo "install-deps.sh: unknown set '$1' (build, test, lint, sanitize, bench)" >&2
        exit 2
        ;;
    esac
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Whether what a package is for is there without it.
present() {
    case $1 in
    gcc) has "${CC:-cc}" || has gcc ;;
    libc6-dev) echo '#include <stdio.h>' | ${CC:-cc} -E - >/dev/null 2>&1 ;;
    meson)
        for tool in /usr/bin/meson meson; do
            have=$($tool --version 2>/dev/null) || continue
            [ "$(printf '%s\n' 1.0.1 "$have" | sort -V | head -n 1)" = 1.0.1 ] && return 0
        done
        return 1
        ;;
    ninja-build) has ninja || has ninja-build ;;
    libssl-dev) pkg-config --exists libcrypto 2>/dev/null ;;
    libhwloc-dev) pkg-config --exists hwloc 2>/dev/null ;;
    libucx-dev) pkg-config --exists ucx 2>/dev/null ;;
    libpmix-dev) pkg-config --exists pmix 2>/dev/null ;;
    python3-dev)
        has python3 && python3 -c 'import os, sysconfig, sys
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null
        ;;
    python3-venv) has python3 && python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    python3-numpy) has python3 && python3 -c 'import numpy' 2>/dev/null ;;
    python3-uvloop) has python3 && python3 -c 'import uvloop' 2>/dev/null ;;
    python3-distributed)
        for python in python3 /usr/bin/python3; do
            has $python && $python -c 'import distributed' 2>/dev/null && return 0
        done
        return 1
        ;;
    cython3) has cython3 || has cython ;;
    iproute2) has ip ;;
    ucx-utils) has ucx_perftest ;;
    munge) has munged ;;
    slurm-client) has srun ;;
    llvm) has llvm-symbolizer ;;
    abigail-tools) has abidw ;;
    python3 | pkg-config | slurmctld | slurmd | g++ | clang | clang-tidy | clang-format) has "$1" ;;
    *) false ;;
    esac
}

packages=
for set in "$@"; do
    packages="$packages $(packages_of "$set")"
done

missing=
for package in $packages; do
    case " $missing " in
    *" $package "*) continue ;;
    esac
    present "$package" && continue
    # A package counts when it, or another that provides it (pkgconf for pkg-config), is installed.
    status=$(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null) || status=
    case " $status" in
    *" installed "*) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

if ! has dpkg-query; then
    echo "install-deps: not Debian; these packages or their like may be needed:$missing" >&2
    exit 0
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root="sudo"
    # Without a terminal nobody can be asked for a password.
    [ -t 0 ] || as_root="sudo -n"
    if ! has sudo || ! $as_root true 2>/dev/null; then
        echo "install-deps: not root, so going on without:$missing" >&2
        echo "install-deps: as root: apt-get install$missing; else see docs/howto/install.md" >&2
        exit 0
    fi
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
