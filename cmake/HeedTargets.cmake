# What every target of the project is compiled with.

add_library(heed_options INTERFACE)
# Fusions are written out in the kernels, so that the bits do not depend on what a compiler finds to fuse.
target_compile_options(heed_options INTERFACE -ffp-contract=off)
if(HEED_DEVELOP)
  target_compile_options(heed_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
endif()
if(HEED_SANITIZE)
  target_compile_options(heed_options INTERFACE -fsanitize=${HEED_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(heed_options INTERFACE -fsanitize=${HEED_SANITIZE})
endif()
