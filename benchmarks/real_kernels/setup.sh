#!/usr/bin/env bash
# Fetches the packages whose kernels `python -m benchmarks.real_kernels` calls into a folder of their own:
#   benchmarks/real_kernels/setup.sh FOLDER
# Pure Python as far as it goes: no torch, no CUDA libraries, and nothing that JAX's own installation has.
set -euo pipefail

folder="${1:?usage: setup.sh FOLDER}"
python="${PYTHON:-.venv/bin/python}"

packages=(tokamax==0.0.17 maxtext==0.2.5 qwix==0.1.8 recurrentgemma==1.0.1)
# What the imports on the way to the kernels ask for.
needed=(
  absl-py aiofiles annotated-types aqtp chex einops einshape etils flax fsspec humanize immutabledict
  importlib_resources jaxtyping jinja2 markdown-it-py markupsafe mdurl msgpack nest_asyncio optax orbax-checkpoint
  protobuf psutil pydantic pydantic-core pygments pyyaml rich simplejson tensorstore toolz tqdm treescope
  "typeguard<3" typing-inspection uvloop wadler-lindig zipp
)

"$python" -m pip install --quiet --no-deps --target "$folder" "${packages[@]}" "${needed[@]}"
echo "Now: $python -m benchmarks.real_kernels --packages $folder"
