#!/usr/bin/env bash
# Chat templates in toy and transformers: ours, and those in the folder $TOY_CHAT_TEMPLATES, if it is set.
#   chat_templates_test.sh RENDER_CHATS_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$python" "$here/chat_templates.py" "$1" "$here/../golden/chat" ${TOY_CHAT_TEMPLATES:+"$TOY_CHAT_TEMPLATES"}
