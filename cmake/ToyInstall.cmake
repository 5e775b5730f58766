# cmake --install: the program, the schema of its logs, the public headers, one static library a folder, and what a
# consumer finds them by: find_package(toy) with the target toy::toy, which brings everything, or pkg-config --static toy.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(toy_libraries GLOBAL PROPERTY TOY_LIBRARIES)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/toy)

add_library(toy_all INTERFACE)
target_link_libraries(toy_all INTERFACE ${toy_libraries})
set_target_properties(toy_all PROPERTIES EXPORT_NAME toy)
add_library(toy::toy ALIAS toy_all)  # the same name inside a project that adds this one as a subdirectory
foreach(library IN LISTS toy_libraries)
  string(REGEX REPLACE "^toy_" "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})  # toy::base, toy::tensor, ...
endforeach()

# Components are the packages of cmake/ToyPackage.cmake.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME libtoy-dev)

install(TARGETS ${toy_libraries} toy_all EXPORT toyTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS toy RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT toy)
if(TARGET toy_mpi)
  install(TARGETS toy_mpi LIBRARY DESTINATION lib/toy COMPONENT toy-mpi)
endif()
install(TARGETS toy_c LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libtoy0 NAMELINK_COMPONENT libtoy-dev)
install(FILES ${PROJECT_BINARY_DIR}/events.schema.json DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT toy)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT toy
        FILES_MATCHING PATTERN "*.md" PATTERN pictures EXCLUDE PATTERN learning-curves EXCLUDE)
install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT toy)
install(FILES ${PROJECT_BINARY_DIR}/manual/toy.bash RENAME toy COMPONENT toy
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${PROJECT_BINARY_DIR}/manual/_toy COMPONENT toy DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${PROJECT_BINARY_DIR}/manual/toy.fish COMPONENT toy
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/toy DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT toyTargets NAMESPACE toy:: DESTINATION ${package_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/toyConfig.cmake.in ${PROJECT_BINARY_DIR}/toyConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 interfaces may change with any minor version.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/toyConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/toyConfig.cmake ${PROJECT_BINARY_DIR}/toyConfigVersion.cmake
        DESTINATION ${package_dir})

# A linker reads static libraries from left to right, so users stand before what they use.
set(pkgconfig_libs)
foreach(library IN LISTS toy_libraries)
  get_target_property(type ${library} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    string(PREPEND pkgconfig_libs "-l${library} ")
  endif()
endforeach()
string(STRIP "${pkgconfig_libs}" pkgconfig_libs)
# The prefix is chosen when installing (cmake --install --prefix), so the file says it relative to its own place.
file(RELATIVE_PATH pkgconfig_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/toy.pc.in ${PROJECT_BINARY_DIR}/toy.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/toy.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# All that is installed of the library.
add_custom_target(toy_libraries DEPENDS ${toy_libraries})

# What a binding links that is built by itself, as python/ is: this build's own libraries, with those of the program.
get_property(toy_all_libraries GLOBAL PROPERTY TOY_ALL_LIBRARIES)
export(TARGETS ${toy_all_libraries} toy_flags toy NAMESPACE toy_build:: FILE ${PROJECT_BINARY_DIR}/toyBuild.cmake)
