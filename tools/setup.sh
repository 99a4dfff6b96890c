#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what a target needs from Debian's packages, the explorer page's parts from npm and, for tests, the pinned Python
# peers into .venv.
# usage: tools/setup.sh build|explorer|test|dev
# As root or with sudo it installs (asking first when a person is at the terminal); otherwise it prints the exact line to
# run and exits with 1.
set -euo pipefail
cd "$(dirname "$0")/.."

# libdnnl-dev only recommends ocl-icd-opencl-dev, but its CMake package looks for OpenCL.
build=(g++ cmake ninja-build pkg-config libdnnl-dev ocl-icd-opencl-dev nlohmann-json3-dev libfmt-dev libxxhash-dev libzip-dev libre2-dev libstb-dev libturbojpeg0-dev libwebp-dev zlib1g-dev
  python3 python3-venv)  # npm, where the machine has none (setup-web.sh)
explorer=(python3-dev graphviz)  # the Python package is a C++ module; dot draws its graphs
# The browser opens the explorer's page; without a font its texts have no width. Clang builds what runs under sanitizers: in
# two thirds of GCC's time, and a second compiler sees the code. (Clang before 16 has no std::source_location.)
test=(libgtest-dev chromium fonts-liberation clang-16 libclang-rt-16-dev llvm-16 "${explorer[@]}")
dev=(clang-format-14 clang-tidy-16 ccache)
slow=(qemu-user iproute2)  # an AVX2-only CPU under emulation; a network with loopback alone

case "${1:-build}" in
  build) wanted=("${build[@]}") ;;
  explorer) wanted=("${build[@]}" "${explorer[@]}") ;;
  test) wanted=("${build[@]}" "${test[@]}") ;;
  test-all) wanted=("${build[@]}" "${test[@]}" "${slow[@]}") ;;
  dev) wanted=("${build[@]}" "${test[@]}" "${slow[@]}" "${dev[@]}") ;;
  *) sed -n '4,8p' "$0"; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "This script knows Debian 12 and its relatives. On another system install the counterparts of: ${wanted[*]}" >&2
  exit 1
fi

missing=()
for package in "${wanted[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  line="apt-get install -y --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" = 0 ]; then
    as_root=()
  elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root=(sudo)
  else
    echo "These packages are missing: ${missing[*]}" >&2
    echo "Run this as root, then call make again:" >&2
    echo "    apt-get update && $line" >&2
    exit 1
  fi
  echo "Lathe needs these Debian packages: ${missing[*]}"
  if [ -t 0 ] && [ -t 1 ]; then
    read -r -p "Install them now? [Y/n] " answer
    case "$answer" in [nN]*) echo "Nothing was installed. The line is: ${as_root[*]} $line" >&2; exit 1 ;; esac
  fi
  if ! "${as_root[@]}" true; then
    echo "sudo did not let us. Run this as root, then call make again:" >&2
    echo "    apt-get update && $line" >&2
    exit 1
  fi
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $line >/tmp/lathe-apt.$$ 2>&1; then
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $line >/tmp/lathe-apt.$$ 2>&1 ||
      { cat /tmp/lathe-apt.$$; rm -f /tmp/lathe-apt.$$; exit 1; }
  fi
  rm -f /tmp/lathe-apt.$$
fi

case "${1:-build}" in
  build | explorer) tools/setup-web.sh page ;;
  *)
    # Side by side: much of it is waiting for the network.
    tools/setup-python.sh & parts=($!)
    # After one another: the second needs the npm that the first may have to fetch.
    { tools/setup-web.sh test && tools/setup-onnxruntime.sh test; } & parts+=($!)
    tools/setup-cuda.sh & parts+=($!)  # the CUDA backend is compiled and tested without a GPU
    failed=0
    for part in "${parts[@]}"; do wait "$part" || failed=1; done
    exit $failed
    ;;
esac
