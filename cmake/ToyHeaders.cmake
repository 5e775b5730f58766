# check_headers: compiles public headers alone, so that whoever includes one need not know what else it wants.
# An object library of one generated source a header; built with the tests. A header that is the first include of its own
# source is compiled alone there, unless that folder has precompiled headers. That each has its `#pragma once` is
# scripts/check_includes.py's to see.
function(toy_check_headers)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/include/*.h)
  set(sources)
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "^toy/([^/]+)/(.+)\\.h$" "\\1" folder ${header})
    string(REGEX REPLACE "^toy/(.+)\\.h$" "${PROJECT_SOURCE_DIR}/src/\\1.cpp" own ${header})
    set(precompiled)
    if(TARGET toy_${folder})
      get_target_property(precompiled toy_${folder} PRECOMPILE_HEADERS)
    endif()
    if(EXISTS ${own} AND NOT precompiled)
      file(STRINGS ${own} first REGEX "^#include" LIMIT_COUNT 1)
      if(first STREQUAL "#include \"${header}\"")
        continue()
      endif()
    endif()
    string(REPLACE "/" "_" name ${header})
    set(source ${PROJECT_BINARY_DIR}/check_headers/${name}.cpp)
    file(GENERATE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  add_library(check_headers OBJECT ${sources})
  target_link_libraries(check_headers PRIVATE toy_flags fmt::fmt nlohmann_json::nlohmann_json)
  target_compile_options(check_headers PRIVATE -O0)  # the objects are thrown away
endfunction()

# Sanitizers make no difference to whether a header compiles.
if(NOT TOY_SANITIZE)
  toy_check_headers()
endif()
