# Flags shared by all targets, and toy_library(): one static library per folder of src/.
get_filename_component(toy_root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
add_library(toy_flags INTERFACE)
set(toy_options -Wall -Wextra -Wshadow -Wno-unused-parameter -fno-math-errno
                $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi -Wno-restrict -Wno-missing-field-initializers>
                # GCC collects garbage from 128 MB on, a sixth of its time; which no compilation here reaches
                $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=2097152>
                # clang takes an enumerator of a class for a shadow of the op that it is named after
                $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-field-initializers -Wno-missing-braces -Wno-shadow>
                -ffp-contract=off)  # one rounding rule everywhere: fma only where the source says so
# What a consumer of the installed library gets is the language level and the headers; warnings are our own affair.
target_compile_features(toy_flags INTERFACE cxx_std_20)
target_compile_options(toy_flags INTERFACE "$<BUILD_INTERFACE:${toy_options}>")
target_include_directories(toy_flags INTERFACE "$<BUILD_INTERFACE:${toy_root}/include;${toy_root}/src>")
set(toy_quick $<$<NOT:$<CONFIG:Debug>>:-Og>)  # for code that takes no time when it runs
if(TOY_SANITIZE)
  # Findings are fatal. Checks of each pointer for null and alignment take a quarter of the compile time: a null pointer
  # ends the program without them, too, and every build checks the alignment in kernels of GPUs (src/CMakeLists.txt).
  set(toy_sanitizer -fsanitize=${TOY_SANITIZE} -fno-sanitize=null,alignment -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # AddressSanitizer triples a kernel's compile time. Guard pages find accesses out of bounds without it:
  # tests/testing/guarded.h. What takes no time is compiled without optimization, in half the time.
  set(toy_kernel_sanitizer ${toy_sanitizer})
  if(TOY_SANITIZE STREQUAL "address,undefined")
    set(toy_kernel_sanitizer -O2 -fsanitize=shift,signed-integer-overflow,integer-divide-by-zero -fno-sanitize-recover=all)
    set(toy_quick -O0)
    set(toy_asan ON)
  endif()
  set(toy_is_kernels $<OR:$<STREQUAL:$<TARGET_PROPERTY:NAME>,toy_cpu>,$<STREQUAL:$<TARGET_PROPERTY:NAME>,toy_gpu>>)
  target_compile_options(toy_flags INTERFACE $<${toy_is_kernels}:${toy_kernel_sanitizer}>
                                             $<$<NOT:${toy_is_kernels}>:${toy_sanitizer}>)
  target_link_options(toy_flags INTERFACE -fsanitize=${TOY_SANITIZE})
endif()

# Headers that many files include are parsed once: fmt, JSON and the standard library for all libraries, and a folder's
# own. OFF shows whether every file includes what it uses.
option(TOY_PCH "Precompile headers that many files include; compile small files of a folder together" ON)
# A shared library can be made of the static ones, and shows of them what it wants to show.
set(toy_shareable POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

# toy_precompile(toy_cpu backend/cpu/kernels.h <cmath>): headers of a folder's own; paths from the folder of the
# CMakeLists.txt. A file of a few dozen lines, as an op's, takes a third of the time. Without headers: the common ones.
function(toy_precompile target)
  if(NOT TOY_PCH)
    return()
  endif()
  if(ARGN)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM toy_headers)
  endif()
endfunction()

# Used with any level of optimization, which GCC and clang allow, but for -O0 of clang.
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/headers.cpp CONTENT "")
add_library(toy_headers OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/headers.cpp)
target_link_libraries(toy_headers PRIVATE toy_flags fmt::fmt nlohmann_json::nlohmann_json)
set_target_properties(toy_headers PROPERTIES ${toy_shareable})
if(toy_asan)
  target_compile_options(toy_headers PRIVATE ${toy_quick})
endif()
toy_precompile(toy_headers <algorithm> <chrono> <cmath> <filesystem> <functional> <map> <memory> <optional> <string>
                           <thread> <vector> <fmt/format.h> <nlohmann/json.hpp>)

# The names that a source file defines for itself: functions, types and constants of its anonymous namespaces. Of a
# test in a namespace that is named after its file there are none: its names meet no others.
function(toy_own_names out source)
  file(READ ${source} text)
  get_filename_component(stem ${source} NAME_WE)
  string(FIND "${text}" "::${stem} {\nnamespace {\n" apart)
  if(stem MATCHES "_test$" AND NOT apart EQUAL -1)
    set(${out} "" PARENT_SCOPE)
    return()
  endif()
  string(REGEX REPLACE "[][;]" " " text "${text}")
  set(names "")
  while(TRUE)
    string(FIND "${text}" "\nnamespace {\n" begin)
    if(begin EQUAL -1)
      break()
    endif()
    string(SUBSTRING "${text}" ${begin} -1 text)
    string(FIND "${text}" "\n}  // namespace\n" end)
    string(SUBSTRING "${text}" 0 ${end} own)
    string(REGEX MATCHALL "\n[a-zA-Z][^\n(={]*[ *&][a-zA-Z_0-9]+ *[({=]|, k[A-Z][a-zA-Z0-9]* =" lines "${own}")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^\n(struct|class|enum class|enum) ([a-zA-Z_0-9]+).*" "\\2" name "${line}")
      string(REGEX REPLACE ".*[ *&]([a-zA-Z_0-9]+) *[({=]$" "\\1" name "${name}")
      list(APPEND names ${name})
    endforeach()
    string(SUBSTRING "${text}" 12 -1 text)
  endwhile()
  list(REMOVE_DUPLICATES names)
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# toy_compile_together(toy_cli 10): up to ten files at a time, for folders whose includes cost more than their own lines. A
# JSON header or CLI11 makes every file that includes it compile the same templates, also where it is precompiled. Files
# that define the same name for themselves are compiled apart.
function(toy_compile_together target most)
  if(NOT TOY_PCH)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  set(groups 0)
  list(FILTER sources INCLUDE REGEX "^${toy_root}/(src|tests)/")  # not what the build writes
  foreach(source IN LISTS sources)
    toy_own_names(own ${source})
    set(group 0)
    while(group LESS groups)
      set(names ${names_${group}} ${own})
      list(LENGTH names all)
      list(REMOVE_DUPLICATES names)
      list(LENGTH names distinct)
      list(LENGTH files_${group} count)
      if(all EQUAL distinct AND count LESS ${most})
        break()
      endif()
      math(EXPR group "${group} + 1")
    endwhile()
    if(group EQUAL groups)
      math(EXPR groups "${groups} + 1")
      set(names_${group} "")
      set(files_${group} "")
    endif()
    list(APPEND names_${group} ${own})
    list(APPEND files_${group} ${source})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# Targets of the installed library, in the order in which toy_library() was called: a library stands behind what it uses.
set_property(GLOBAL PROPERTY TOY_LIBRARIES toy_flags)

# toy_library(base DEPENDS tensor fmt::fmt): src/base/*.cpp -> toy_base. New files are picked up by themselves.
# NOT_INSTALLED: a part of the program, not of the library. src/CMakeLists.txt says what the other keywords mean.
function(toy_library name)
  cmake_parse_arguments(ARG "NOT_INSTALLED;NESTED" "DIR" "DEPENDS;LINKS;SEES;PRIVATE" ${ARGN})
  if(NOT ARG_DIR)
    set(ARG_DIR ${name})
  endif()
  set(glob GLOB)
  if(ARG_NESTED)
    set(glob GLOB_RECURSE)
  endif()
  file(${glob} sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_DIR}/*.cpp)
  set(public PUBLIC)
  if(sources)
    add_library(toy_${name} STATIC ${sources})
    set_target_properties(toy_${name} PROPERTIES ${toy_shareable})
  else()  # headers alone
    add_library(toy_${name} INTERFACE)
    set(public INTERFACE)
  endif()
  target_link_libraries(toy_${name} ${public} toy_flags)
  foreach(dep IN LISTS ARG_DEPENDS ARG_LINKS)
    if(TARGET toy_${dep} OR dep MATCHES "^[a-z_]+$")
      target_link_libraries(toy_${name} ${public} toy_${dep})
    else()
      target_link_libraries(toy_${name} ${public} ${dep})
    endif()
  endforeach()
  if(ARG_PRIVATE)
    target_link_libraries(toy_${name} PRIVATE ${ARG_PRIVATE})
  endif()
  set_property(GLOBAL APPEND PROPERTY TOY_ALL_LIBRARIES toy_${name})
  if(NOT ARG_NOT_INSTALLED)
    set_property(GLOBAL APPEND PROPERTY TOY_LIBRARIES toy_${name})
  endif()
endfunction()
