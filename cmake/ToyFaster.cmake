# Faster rebuilds and links, where the tools for them are installed.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/ccache.sh)
endif()

include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=mold TOY_MOLD)
if(TOY_MOLD)
  add_link_options(-fuse-ld=mold)  # two dozen test programs with the same libraries
endif()
