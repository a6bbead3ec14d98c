# For the preset aarch64: Debian's cross compiler, the libraries that scripts/aarch64-sysroot unpacks, tests under qemu-user.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

get_filename_component(HEED_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot ABSOLUTE)
if(NOT EXISTS ${HEED_SYSROOT})
  message(FATAL_ERROR "There is no ${HEED_SYSROOT}; scripts/aarch64-sysroot makes it")
endif()

# Libraries from there and from nowhere else, but programs such as ccache from here. The compiler keeps its own C and C++ libraries, so
# this is no CMAKE_SYSROOT.
set(CMAKE_FIND_ROOT_PATH ${HEED_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${HEED_SYSROOT})
