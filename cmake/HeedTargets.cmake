# What every target of the project is compiled with.

option(HEED_INSTALL "Make install rules, see HeedInstall.cmake" ${PROJECT_IS_TOP_LEVEL})

add_library(heed_options INTERFACE)
# Fusions are written out in the kernels, so that the bits do not depend on what a compiler finds to fuse.
target_compile_options(heed_options INTERFACE -ffp-contract=off)
if(HEED_DEVELOP)
  target_compile_options(heed_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 sees an overlap in every "literal" + std::string (GCC bug 105329).
    target_compile_options(heed_options INTERFACE -Wno-restrict)
  endif()
endif()
if(HEED_SANITIZE)
  target_compile_options(heed_options INTERFACE -fsanitize=${HEED_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(heed_options INTERFACE -fsanitize=${HEED_SANITIZE})
endif()

# ccache makes a second build of the same sources quick, where it is installed.
if(HEED_DEVELOP AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(HEED_CCACHE ccache)
  if(HEED_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${HEED_CCACHE})
  endif()
endif()
