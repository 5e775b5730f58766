#!/bin/sh
# ccache in front of a compiler: ccache.sh COMPILER ARGUMENTS.
#
# Without this setting ccache keeps nothing that was compiled with a precompiled header.
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros}"
# To make a precompiled header, ccache preprocesses its text, where the compiler takes an older NAME.gch for the header
# NAME: the result would be the older one. So that goes first, and what ccache remembers of the header's own headers is
# not asked.
for argument; do
  case $argument in *.gch) rm -f "$argument"; export CCACHE_NODIRECT=1 ;; esac
done
exec ccache "$@"
