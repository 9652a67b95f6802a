#!/usr/bin/env bash
# The device tier on a machine with a GPU: no network, no compiled vLLM, about 8 minutes at most.
#
#   benchmarks/gpu/run.sh FOLDER REPORTS
#
# FOLDER comes from prepare.sh. The interpreter (PYTHON, by default python3) must have PyTorch that sees
# the GPU; vLLM's other Python dependencies come from it or from FOLDER/wheels. Combiners and norms run in
# eager mode on real tensors, quantised layers on PyTorch's own float8 kernels, and lora_shrink as the
# compiled Triton kernel. REPORTS gets validation.json and validation.txt. The exit status is validate's.
set -euo pipefail

folder=$(cd "${1:?name the folder that prepare.sh filled}" && pwd)
reports=${2:?name the folder for the reports}
python=$(command -v "${PYTHON:-python3}")
mkdir -p "$reports"
reports=$(cd "$reports" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
"$python" -m venv --system-site-packages "$environment"
if [ -d "$folder/wheels" ]; then
    "$environment/bin/python" -m pip install --quiet --no-index --no-deps "$folder"/wheels/*.whl
fi
# A virtual environment does not see the packages of the one that python itself lives in.
"$python" -c 'import site; print("\n".join(site.getsitepackages()))' \
    > "$("$environment/bin/python" -c 'import site; print(site.getsitepackages()[0])')/parent.pth"
python=$environment/bin/python

"$python" - <<'PY'
import sys, torch

if not torch.cuda.is_available():
    sys.exit(f"torch {torch.__version__} sees no GPU: nothing was run and nothing is claimed")
print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
PY

places=()
while read -r place; do places+=(--place "$place"); done < "$folder/places.txt"
export XDG_CACHE_HOME=$environment/cache DTYPEFIX_RUNTIMES=$environment/none PYTHONPATH=$PWD
status=0
timeout 480 "$python" -m dtypefix validate "$folder/patched" --base "$folder/base" --python "$python" \
    --tier device --time-limit 200 --memory-limit 32 --format json "${places[@]}" \
    > "$reports/validation.json" || status=$?
"$python" - "$reports/validation.json" <<'PY' | tee "$reports/validation.txt"
import json, sys

said = json.load(open(sys.argv[1]))
for row in said["rows"]:
    print(f"{row['path']}:{row['line']} {row['platform']} {row['tier']}: {row['verdict']}")
    for key in ("case", "reason", "detail", "before", "after"):
        if row[key]:
            print(f"    {key}: {row[key]}")
for name, facts in said["facts"].items():
    print(name, facts)
print("seconds:", said["seconds"])
PY
exit "$status"
