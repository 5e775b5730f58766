# check_headers: compiles each public header alone, so that whoever includes it need not know what else it wants.
# An object library of one generated source a header; built with the tests.
function(toy_check_headers)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/include/*.h)
  set(sources)
  foreach(header IN LISTS headers)
    string(REPLACE "/" "_" name ${header})
    set(source ${PROJECT_BINARY_DIR}/check_headers/${name}.cpp)
    # Twice, because a header without an include guard compiles once.
    file(GENERATE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
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
