#!/usr/bin/env bash
# Makes .venv with everything that requirements.lock pins, checked by the hashes of requirements.hashes; `make setup`
# runs it. Once done, it is done again only when these, pyproject.toml or the C file change, the checkout moves, or
# PYTHON asks for another version.
#
# GPU=1 takes requirements.gpu.hashes too, in the place of the CPU's packages, and TensorRT. It is remembered: a later
# run without GPU keeps it, and GPU=0 goes back. GPU=tensorflow makes an environment beside it, .venv-tensorflow: the
# CUDA 12 that TensorFlow brings would overwrite files of torch's CUDA 13.
set -euo pipefail
cd "$(dirname "$0")"

VENV=.venv
[ "${GPU:-}" != tensorflow ] || VENV=.venv-tensorflow
STAMP=$VENV/setup.stamp
FOR_GPU=$VENV/setup.gpu # is there: the packages for a GPU
NEEDED_GB=12            # the environment takes 8, its largest wheels pass through the same disk
TENSORRT=tensorrt==10.16.1.11 # 10, which ONNX Runtime's TensorRT provider asks for
TORCH='torch|torchvision|torchmetrics|triton|tensorrt-[a-z0-9-]+|onnxruntime|tensorflow_cpu|cuda-[a-z]+|nvidia-(cu[a-z]+|nccl|nvjitlink|nvshmem|nvtx)[a-z0-9-]*'

fail() {
    printf 'setup: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '  fix: %s\n' "$2" >&2
    exit 3
}

version() { # of an interpreter, nothing where it is none of 3.11 to 3.13 (or a pyenv shim of a version that is not on)
    "$1" -c 'import sys
v = sys.version_info[:2]
print("%d.%d" % v if (3, 11) <= v <= (3, 13) else "")' 2>/dev/null || true
}

choose_python() {
    local candidate
    for candidate in ${PYTHON:-$VENV/bin/python python3.11 python3.12 python3.13 python3}; do
        if [ -n "$(version "$candidate")" ]; then
            echo "$candidate"
            return
        fi
    done
    fail "no Python 3.11, 3.12 or 3.13 among: ${PYTHON:-python3.11 python3.12 python3.13 python3}" \
        "install one (Debian, Ubuntu: sudo apt-get install python3 python3-venv), or make setup PYTHON=/path/to/python3.12"
}

make_venv() {
    if [ "$(version $VENV/bin/python)" = "$2" ] && $VENV/bin/python -m pip --version >/dev/null 2>&1; then
        return
    fi
    "$1" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$1 cannot make virtual environments" "sudo apt-get install python$2-venv"
    "$1" -m venv --clear $VENV
}

progress() { # of pip in the background, as one line that is renewed on a terminal
    local all got
    all=$(grep -c == $VENV/requirements.txt)
    while [ -n "$(jobs -rp)" ]; do
        got=$(grep -c '^Collecting' $VENV/setup.log || true)
        [ ! -t 1 ] || printf '\rsetup: %s of %s packages ' "$got" "$all"
        sleep 1
    done
    [ ! -t 1 ] || printf '\n'
}

requirements() { # what is installed, with hashes: of the packages for a GPU none of the CPU's beside them
    case $GPU in
    tensorflow) grep -vE "^($TORCH)==" requirements.hashes ;;
    1) grep -v '^onnxruntime==' requirements.hashes; cat requirements.gpu.hashes ;;
    *) cat requirements.hashes ;;
    esac
}

install_tensorrt() { # its wheels come from NVIDIA's own index, which has no hashes here
    $VENV/bin/python -m pip install --no-build-isolation --quiet $TENSORRT >>$VENV/setup.log 2>&1 || {
        echo "setup: $TENSORRT could not be installed; all but the engine tensorrt works" >&2
        echo "  fix: see $PWD/$VENV/setup.log; does the network reach NVIDIA's index?" >&2
    }
}

install_tensorflow() {
    $VENV/bin/python -m pip install --no-deps --only-binary=:all: --progress-bar off --require-hashes \
        -r requirements.tensorflow.hashes >>$VENV/setup.log 2>&1 ||
        fail "pip could not install requirements.tensorflow.hashes" "see $PWD/$VENV/setup.log"
}

install_packages() {
    local free_gb part pid pids=()
    free_gb=$(df --output=avail -BG . | tail -1 | tr -dc 0-9)
    if [ ! -d $VENV/lib/python"$1"/site-packages/torch ] && [ "$free_gb" -lt $NEEDED_GB ]; then
        fail "$free_gb GB are free on the disk of $PWD, the environment needs $NEEDED_GB" "free some space"
    fi
    requirements >$VENV/requirements.txt
    echo "setup: installing $(grep -c == $VENV/requirements.txt) pinned packages for Python $1 (some minutes, 8 GB on disk)"
    # Both variants of ONNX Runtime have the same files: the other one goes first.
    $VENV/bin/python -m pip uninstall --quiet --yes "$([ "$GPU" = 1 ] && echo onnxruntime || echo onnxruntime-gpu)" \
        >/dev/null 2>&1 || true
    # Two at once, because pip unpacks on one core. No package asks for another: all are pinned.
    split -n r/2 $VENV/requirements.txt $VENV/requirements.part.
    # bash has jobs in the background ignore Ctrl-C; they end with this script, also where one of them fails.
    trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
    trap 'exit 130' INT # bash forgets one that comes while it runs a command within a command
    : >$VENV/setup.log
    for part in $VENV/requirements.part.*; do
        $VENV/bin/python -m pip install --no-deps --only-binary=:all: --no-compile --progress-bar off --require-hashes \
            -r "$part" >>$VENV/setup.log 2>&1 &
        pids+=($!)
    done
    progress
    for pid in "${pids[@]}"; do
        wait "$pid" || { tail -n 20 $VENV/setup.log >&2; fail "pip could not install the packages" "see $PWD/$VENV/setup.log, then make setup"; }
    done
    # On all cores, where pip takes one for a minute and more; some packages bring files of other Python versions.
    # What hardly anything imports is left to its first import: packages' own tests, Transformers' 300 models, and what
    # runs as a program before this or as C.
    local seldom='/tests/|/testing/|/transformers/models/|/pip/|/mypyc?/|/pygments/lexers/|/sympy/physics/|/_vendor/|/numpy/(distutils|f2py)/'
    $VENV/bin/python -m compileall -q -j 0 -x "$seldom" $VENV/lib/python"$1"/site-packages >>$VENV/setup.log 2>&1 || true
    $VENV/bin/python -m pip install --no-deps --no-build-isolation --quiet -e .
    case $GPU in
    1) install_tensorrt ;;
    tensorflow) install_tensorflow ;;
    esac
}

missing_libpython() { # the shared libpython that Triton's Python stub asks for and the linker does not find
    local site=$VENV/lib/python$1/site-packages libdir
    libdir=$($VENV/bin/python -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR") or "")')
    # The path that servers/modes.py gives Triton; the wheel brings the library of Python 3.13 itself.
    LD_LIBRARY_PATH=$site/nvidia_pytriton.libs:$libdir \
        ldd "$site/pytriton/tritonserver/python_backend_stubs/$1/triton_python_backend_stub" |
        awk '/libpython.*not found/ {print $1}'
}

require_libpython() {
    local missing
    missing=$(missing_libpython "$1")
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "setup: $missing is missing: apt-get install libpython$1"
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -yq "libpython$1" || true
        missing=$(missing_libpython "$1")
        [ -n "$missing" ] || return 0
    fi
    fail "Triton's Python backend needs $missing" \
        "sudo apt-get install libpython$1 (where there is no such package: another Python, make setup PYTHON=...)"
}

[ "$(uname -sm)" = "Linux x86_64" ] ||
    fail "$(uname -sm): the pinned wheels exist for Linux x86_64 only" "use such a machine, or a container of one"

GPU=${GPU:-$([ ! -e $FOR_GPU ] || echo 1)}
case $GPU in
0 | 1 | '' | tensorflow) ;;
*) fail "GPU=$GPU is unknown" "make setup GPU=1, GPU=0 or GPU=tensorflow" ;;
esac
[ "$GPU" != 0 ] || GPU=
python=$(choose_python)
python_version=$(version "$python")
wanted="$({ requirements; cat pyproject.toml loadgen/sut/_stamped.c $([ "$GPU" != tensorflow ] || echo requirements.tensorflow.hashes); } | sha256sum | cut -d ' ' -f 1) $python_version $PWD"
if [ -e $STAMP ] && [ "$(cat $STAMP)" = "$wanted" ]; then
    exit 0
fi
make_venv "$python" "$python_version"
rm -f $STAMP $FOR_GPU
[ "$GPU" != 1 ] || touch $FOR_GPU
install_packages "$python_version"
require_libpython "$python_version"
printf '%s\n' "$wanted" >$STAMP
[ "${SETUP_FOR:-}" = demo ] || echo "setup: done; next: make demo, or: . .venv/bin/activate && servemark doctor"
