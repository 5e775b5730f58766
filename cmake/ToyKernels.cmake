# The kernels of GPUs as parts of the program: their text, which OpenCL's drivers compile, and what nvcc makes of them
# where it is found. Nothing of CUDA or OpenCL is needed to build or to start the program.
set(TOY_CUDA auto CACHE STRING "Kernels for CUDA in the program: auto (where nvcc works), on, off")
set_property(CACHE TOY_CUDA PROPERTY STRINGS auto on off)

# Sets TOY_NVCC_VERSION to "13.0", or to "" where nvcc is missing or cannot compile (an older one refuses a new GCC).
function(toy_find_nvcc)
  set(TOY_NVCC_VERSION "" PARENT_SCOPE)
  if(TOY_CUDA STREQUAL "off" OR (TOY_CUDA STREQUAL "auto" AND (TOY_SANITIZE OR CMAKE_CROSSCOMPILING)))
    return()
  endif()
  find_program(TOY_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  set(why "nvcc was not found; it comes with NVIDIA's CUDA toolkit")
  if(TOY_NVCC)
    execute_process(COMMAND ${TOY_NVCC} --version OUTPUT_VARIABLE text ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" ignored "${text}")
    set(version ${CMAKE_MATCH_1})
    if(NOT TOY_NVCC_WORKS STREQUAL "${TOY_NVCC} ${version}")
      set(probe ${PROJECT_BINARY_DIR}/kernels/probe)
      file(WRITE ${probe}.cu "extern \"C\" __global__ void probe(float* x) { *x = 1.0f; }\n")
      execute_process(COMMAND ${TOY_NVCC} -arch=sm_80 -cubin -o ${probe}.cubin ${probe}.cu RESULT_VARIABLE code
                      OUTPUT_VARIABLE text ERROR_VARIABLE text)
      if(code EQUAL 0)
        set(TOY_NVCC_WORKS "${TOY_NVCC} ${version}" CACHE INTERNAL "The nvcc that has compiled a kernel")
      else()
        set(TOY_NVCC_WORKS "" CACHE INTERNAL "")
        set(why "${TOY_NVCC} does not compile: ${text}")
      endif()
    endif()
    if(TOY_NVCC_WORKS)
      set(TOY_NVCC_VERSION ${version} PARENT_SCOPE)
      return()
    endif()
  endif()
  if(TOY_CUDA STREQUAL "on")
    message(FATAL_ERROR "TOY_CUDA is on, but ${why}")
  endif()
  message(STATUS "No kernels for CUDA: ${why}")
endfunction()

# What makes `symbol` the bytes of `path` in a C++ file, and where they end.
function(toy_embed out symbol path)
  set(${out} "asm(\".pushsection .rodata\\n.balign 64\\n${symbol}: .incbin \\\"${path}\\\"\\n${symbol}_end: .byte 0\\n.popsection\");
extern const char ${symbol}[] asm(\"${symbol}\"), ${symbol}_end[] asm(\"${symbol}_end\");\n" PARENT_SCOPE)
endfunction()

# toy_kernels(toy_gpu FOLDER): FOLDER/dialect.h and FOLDER/*.k.
function(toy_kernels target folder)
  set(built ${PROJECT_BINARY_DIR}/kernels)
  file(GLOB texts CONFIGURE_DEPENDS ${folder}/*.h ${folder}/*.k)
  set(code "// Written by cmake/ToyKernels.cmake.\n#include \"backend/gpu/cuda/images.h\"\n#include \"backend/gpu/sources.h\"\n\n")
  set(sources "")
  set(images "")
  set(number 0)
  set(embedded ${texts})
  toy_find_nvcc()
  set(nvcc_number 0)
  if(TOY_NVCC_VERSION)
    string(REPLACE "." ";" parts ${TOY_NVCC_VERSION})
    list(GET parts 0 major)
    list(GET parts 1 minor)
    math(EXPR nvcc_number "${major} * 1000 + ${minor} * 10")
    # Code for each, and of the last one also what a driver compiles for what comes later.
    set(architectures 80 90)
    if(TOY_NVCC_VERSION VERSION_GREATER_EQUAL 12.8)
      list(APPEND architectures 100)
    endif()
    set(targets "")
    foreach(a IN LISTS architectures)
      list(APPEND targets -gencode arch=compute_${a},code=sm_${a})
    endforeach()
    list(GET architectures -1 last)
    list(APPEND targets -gencode arch=compute_${last},code=compute_${last})
    message(STATUS "Kernels for CUDA: nvcc ${TOY_NVCC_VERSION}, sm_${architectures}")
  endif()
  foreach(text IN LISTS texts)
    get_filename_component(name ${text} NAME)
    get_filename_component(stem ${text} NAME_WE)
    toy_embed(lines toy_source_${number} ${text})
    string(APPEND code "${lines}")
    string(APPEND sources "    {\"${name}\", {toy_source_${number}, toy_source_${number}_end}},\n")
    if(TOY_NVCC_VERSION AND name MATCHES "\\.k$")
      set(image ${built}/${stem}.fatbin)
      # The log says how many registers each kernel takes, and whether it spills (tests/gpu/kernels_compile_test.sh).
      add_custom_command(
        OUTPUT ${image} ${built}/${stem}.log DEPFILE ${built}/${stem}.d DEPENDS ${text}
        COMMAND sh -c "\"$0\" \"$@\" > '${built}/${stem}.log' 2>&1 || { cat '${built}/${stem}.log'; exit 1; }"
                ${TOY_NVCC} -x cu -fatbin ${targets} -fmad=false -ftz=true -prec-div=true -prec-sqrt=true -Xptxas -v
                -I ${folder} -I ${PROJECT_SOURCE_DIR}/src -MD -MF ${built}/${stem}.d -MT ${image} -o ${image} ${text}
        COMMENT "nvcc ${name}" VERBATIM)
      toy_embed(lines toy_image_${number} ${image})
      string(APPEND code "${lines}")
      string(APPEND images "    {\"${stem}\", toy_image_${number}},\n")
      list(APPEND embedded ${image})
    endif()
    math(EXPR number "${number} + 1")
  endforeach()
  string(APPEND code "
std::span<const toy::gpu::Source> toy::gpu::sources() {
  static const Source all[] = {\n${sources}  };
  return all;
}
int toy::gpu::cuda::built_with() { return ${nvcc_number}; }
std::span<const toy::gpu::cuda::Image> toy::gpu::cuda::images() {\n")
  if(images)
    string(APPEND code "  static const Image all[] = {\n${images}  };\n  return all;\n}\n")
  else()
    string(APPEND code "  return {};\n}\n")
  endif()
  file(MAKE_DIRECTORY ${built})
  file(GENERATE OUTPUT ${built}/kernels.cpp CONTENT "${code}")
  set_source_files_properties(${built}/kernels.cpp PROPERTIES OBJECT_DEPENDS "${embedded}" SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${built}/kernels.cpp)
endfunction()
