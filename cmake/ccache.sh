#!/bin/sh
# ccache in front of a compiler: ccache.sh COMPILER ARGUMENTS.
#
# Without this setting ccache keeps nothing that was compiled with a precompiled header.
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros}"
# A precompiled header itself is made anew: it holds the times of its headers, by which `#pragma once` knows them again,
# and one from the cache has the times of another day.
for argument; do
  case $argument in *.gch) exec "$@" ;; esac
done
exec ccache "$@"
