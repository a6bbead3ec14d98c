# Writes a file as a C++ source, so that the binary that uses it needs nothing beside it.
#   cmake -DINPUT=FILE -DOUTPUT=FILE.cpp -DHEADER=INCLUDE -DFUNCTION=NAME -P embed.cmake
# FUNCTION is declared in HEADER as: std::span<const std::byte> FUNCTION();
file(READ "${INPUT}" bytes HEX)
# One string: compilers take megabytes of it in a moment, unlike a list of numbers.
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include \"${HEADER}\"

namespace heed::cli {
namespace {
#ifdef __clang__
#pragma clang diagnostic ignored \"-Woverlength-strings\"
#endif
constexpr char kBytes[] = \"${bytes}\";
}  // namespace

std::span<const std::byte> ${FUNCTION}() { return std::as_bytes(std::span(kBytes)).first(sizeof kBytes - 1); }
}  // namespace heed::cli
")
