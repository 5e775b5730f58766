# cpack -G DEB: the packages toy, libtoy0, libtoy-dev, where MPI is toy-mpi, and python3-toy, which scripts/package.sh builds.
# What is in them is said by the COMPONENT of each install() in ToyInstall.cmake.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME toy)
set(CPACK_PACKAGE_VENDOR toy)
set(TOY_MAINTAINER "The toy authors <toy@example.org>" CACHE STRING "Maintainer of Debian packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_CONTACT ${TOY_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_COMPONENTS_ALL toy libtoy0 libtoy-dev)
if(TARGET toy_mpi)
  list(APPEND CPACK_COMPONENTS_ALL toy-mpi)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
    WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_TOY_PACKAGE_NAME toy)
set(CPACK_DEBIAN_TOY_PACKAGE_RECOMMENDS libcurl4)  # loaded by the first request of `toy fetch`
set(CPACK_COMPONENT_TOY_DESCRIPTION "One program trains language models from a text, fine-tunes them, generates,
scores, quantizes, serves them over HTTP and shows what is inside. Models are
GGUF files, as llama.cpp and Ollama use them.")
set(CPACK_DEBIAN_TOY_PACKAGE_SUGGESTS toy-mpi)
set(CPACK_DEBIAN_TOY-MPI_PACKAGE_NAME toy-mpi)
set(CPACK_DEBIAN_TOY-MPI_PACKAGE_DEPENDS "toy (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_TOY-MPI_DESCRIPTION "What toy loads where a launcher such as mpirun started it, so that several
processes, on one machine or on many, train one model together.")
set(CPACK_DEBIAN_LIBTOY0_PACKAGE_NAME libtoy0)
set(CPACK_DEBIAN_LIBTOY0_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBTOY0_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/shlibs ${PROJECT_BINARY_DIR}/debian/triggers)
set(CPACK_COMPONENT_LIBTOY0_DESCRIPTION "The shared library with the C interface of toy, for programs in any language:
load language models, generate, score and train.")
set(CPACK_DEBIAN_LIBTOY-DEV_PACKAGE_NAME libtoy-dev)
set(CPACK_DEBIAN_LIBTOY-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBTOY-DEV_PACKAGE_DEPENDS
    "libtoy0 (= ${PROJECT_VERSION}), libfmt-dev, nlohmann-json3-dev, libsentencepiece-dev, libutf8proc-dev, libpng-dev, libjpeg62-turbo-dev")
set(CPACK_COMPONENT_LIBTOY-DEV_DESCRIPTION "Headers, static C++ libraries and what CMake and pkg-config find them by. The
C++ interface may change with any minor version before 1.0.")

# scripts/package.sh puts the module of Debian's Python there, and then asks for the component.
set(python_package ${PROJECT_BINARY_DIR}/python3-toy)
set(CPACK_DEBIAN_PYTHON3-TOY_PACKAGE_NAME python3-toy)
set(CPACK_DEBIAN_PYTHON3-TOY_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON3-TOY_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/cmake/python3-toy/postinst ${PROJECT_SOURCE_DIR}/cmake/python3-toy/prerm)
set(CPACK_COMPONENT_PYTHON3-TOY_DESCRIPTION "The module toy for Python 3: train, run, evaluate and inspect language
models, with the bytes of the program and with arrays of NumPy.")
install(DIRECTORY ${python_package}/ DESTINATION lib/python3/dist-packages COMPONENT python3-toy EXCLUDE_FROM_ALL OPTIONAL)

# What Debian's policy asks for in /usr/share/doc/PACKAGE: the license, and a changelog in its form.
find_program(GZIP gzip)
file(STRINGS ${PROJECT_SOURCE_DIR}/LICENSE license)
list(JOIN license "\n " license)
string(REPLACE "\n \n" "\n .\n" license "${license}")
file(WRITE ${PROJECT_BINARY_DIR}/debian/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: toy

Files: *
Copyright: 2026 The toy authors
License: Expat
 ${license}
Comment: These headers are compiled into the program and the library: Highway
 (Apache-2.0), Eigen (MPL-2.0), Boost (BSL-1.0), CLI11 (BSD-3-Clause), and
 nlohmann/json (Expat).
")
file(WRITE ${PROJECT_BINARY_DIR}/debian/changelog "toy (${PROJECT_VERSION}) unstable; urgency=medium

  * CHANGELOG.md says what is new.

 -- ${TOY_MAINTAINER}  Thu, 01 Jan 2026 00:00:00 +0000
")
execute_process(COMMAND ${GZIP} -9nc ${PROJECT_BINARY_DIR}/debian/changelog
                OUTPUT_FILE ${PROJECT_BINARY_DIR}/debian/changelog.gz COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs "libtoy 0 libtoy0 (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
foreach(package IN LISTS CPACK_COMPONENTS_ALL ITEMS python3-toy)
  install(FILES ${PROJECT_BINARY_DIR}/debian/copyright ${PROJECT_BINARY_DIR}/debian/changelog.gz
          DESTINATION share/doc/${package} COMPONENT ${package} EXCLUDE_FROM_ALL)
endforeach()
include(CPack)
