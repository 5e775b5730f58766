#!/usr/bin/env bash
# Texts of a random model under 200 JSON Schemas: each has to be valid for the jsonschema package.
#   json_schemas_test.sh TOY_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
if ! "$python" -c "import jsonschema" 2> /dev/null; then
  echo "no jsonschema at ${TOY_PEERS:-/opt/toy-peers}; scripts/peers.sh installs it"
  exit 77
fi
"$python" "$here/json_schemas.py" --out "$work/schemas" > /dev/null
"$python" "$here/json_schemas_valid.py" "$toy" "$work/schemas" "$work"
