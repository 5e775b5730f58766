#!/usr/bin/env bash
# Checks a GPU in at most nine minutes and prints one table. scripts/gpu_check.sh --help shows the options.
exec python3 "$(dirname "${BASH_SOURCE[0]}")/gpu_check.py" "$@"
