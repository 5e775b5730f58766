# Every library the project uses, found here and nowhere else. docs/dependencies.md says why each is there.
macro(toy_require package debian)  # a macro: FindPkgConfig leaves variables behind that its functions need
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "toy needs ${package}, which CMake did not find. On Debian: "
                        "apt-get install ${debian}   (bash scripts/setup.sh installs everything)")
  endif()
endmacro()

toy_require(Threads libc6-dev)
toy_require(fmt libfmt-dev)
toy_require(nlohmann_json nlohmann-json3-dev)
toy_require(CLI11 libcli11-dev)
toy_require(Boost libboost-dev 1.74)
find_package(PkgConfig QUIET)  # not inside a function: its variables must outlive the call
if(NOT PkgConfig_FOUND)
  message(FATAL_ERROR "toy needs pkg-config. On Debian: apt-get install pkg-config")
endif()

function(toy_require_pkg target module debian)
  pkg_check_modules(${target} QUIET IMPORTED_TARGET ${module})
  if(NOT ${target}_FOUND)
    message(FATAL_ERROR "toy needs ${module}, which pkg-config did not find. On Debian: "
                        "apt-get install ${debian}   (bash scripts/setup.sh installs everything)")
  endif()
endfunction()

toy_require_pkg(HWY libhwy libhwy-dev)
toy_require_pkg(EIGEN eigen3 libeigen3-dev)
toy_require_pkg(SENTENCEPIECE sentencepiece libsentencepiece-dev)
toy_require_pkg(UTF8PROC libutf8proc libutf8proc-dev)
toy_require_pkg(PNG libpng libpng-dev)
toy_require_pkg(JPEG libjpeg libjpeg62-turbo-dev)
toy_require_pkg(CURL libcurl libcurl4-openssl-dev)
toy_require_pkg(CRYPTO libcrypto libssl-dev)
toy_require_pkg(SSL libssl libssl-dev)
toy_require_pkg(EDIT libedit libedit-dev)
# Headers alone: linking them makes every start of the program longer (src/base/simd_targets.cpp, src/fetch/curl.h).
set_property(TARGET PkgConfig::HWY PkgConfig::CURL PROPERTY INTERFACE_LINK_LIBRARIES)

if(TOY_BUILD_TESTS)
  toy_require(GTest libgtest-dev)
endif()
