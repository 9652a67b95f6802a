#!/usr/bin/env bash
# On a machine with a network: gather what run.sh needs on a GPU machine that has none.
#
#   benchmarks/gpu/prepare.sh FOLDER [RELEASE]
#
# FOLDER gets the release's Python files and operator bindings (base/), the same after `dtypefix rewrite`
# (patched/), and the places that changed (places.txt). With GPU_PYTHON=3.12 (the GPU machine's Python)
# it also gets the wheels of requirements.txt. PyTorch is not among them: the GPU machine has its own.
set -euo pipefail

folder=${1:?name the folder to fill}
release=${2:-0.20.2}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$here/../.."

"$python" - "$release" "$folder/base" <<'PY'
import shutil, sys
from dtypefix.sources.releases import Release, release_root

source, target = release_root(Release("vllm", sys.argv[1])), sys.argv[2]
for name in ("vllm", "csrc"):
    shutil.copytree(source / name, f"{target}/{name}", ignore=shutil.ignore_patterns("__pycache__", "*.cu"))
PY
rules=unguarded-combiner,ambient-out-dtype
cp -r "$folder/base" "$folder/patched"
"$python" -m dtypefix rewrite --isolated --select "$rules" "$folder/patched" || test $? -eq 1
"$python" - "$folder" <<'PY' > "$folder/places.txt"
import sys
from pathlib import Path
from dtypefix.validate.choosing import choose_places
from dtypefix.validate.trees import find_trees

folder = Path(sys.argv[1])
for place in choose_places(find_trees(folder / "patched", str(folder / "base"), folder), []):
    print(f"{place.path}:{place.line}:{place.rule}")
PY
if [ -n "${GPU_PYTHON:-}" ]; then
    "$python" -m pip download --quiet --no-deps --only-binary=:all: --python-version "$GPU_PYTHON" \
        --implementation cp --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
        --platform manylinux2014_x86_64 --dest "$folder/wheels" --requirement "$here/requirements.txt"
fi
du -sh "$folder"
wc -l < "$folder/places.txt" | xargs echo "places:"
