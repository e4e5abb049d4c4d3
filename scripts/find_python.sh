#!/usr/bin/env bash
# Prints the path of a Python 3.12 or newer: $PYTHON; else pyenv's for .python-version; else one on the PATH.
set -euo pipefail
shopt -s nullglob

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null
}

if [[ -n "${PYTHON:-}" ]]; then
    if path="$(command -v "$PYTHON")" && new_enough "$path"; then
        echo "$path"
        exit
    fi
    echo "PYTHON=$PYTHON is not a Python 3.12 or newer." >&2
    exit 1
fi

wanted="$(cat "$(dirname "${BASH_SOURCE[0]}")/../.python-version")"
for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$wanted"*/bin/python "python$wanted" python3 python3.1{3,4} python; do
    if path="$(command -v "$candidate" 2>/dev/null)" && new_enough "$path"; then
        echo "$path"
        exit
    fi
done

cat >&2 <<'MESSAGE'
typedpallas needs Python 3.12 or newer, and none was found.
On Debian and Ubuntu: sudo apt install python3.12 python3.12-venv
Elsewhere: pyenv install 3.12, or name the one you have: make setup PYTHON=/path/to/python3.12
MESSAGE
exit 1
