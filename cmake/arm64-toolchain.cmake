# Cross-compiling for 64-bit Arm with Debian's compiler, and running the result under qemu-user. The libraries for Arm lie
# in build/arm64-sysroot, where scripts/portability.sh unpacks them; nothing is installed into the system.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(toy_sysroot ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot)
get_filename_component(toy_sysroot ${toy_sysroot} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${toy_sysroot}/usr)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)  # headers alone (CLI11, JSON) are the same for every processor
set(ENV{PKG_CONFIG_LIBDIR} ${toy_sysroot}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${toy_sysroot})

# The C library is the cross compiler's; the others are the sysroot's.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${toy_sysroot}/usr/lib/aarch64-linux-gnu")
set(CMAKE_CROSSCOMPILING_EMULATOR
    qemu-aarch64;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=${toy_sysroot}/usr/lib/aarch64-linux-gnu)
