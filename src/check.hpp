// Where every error of the library is thrown, and nowhere else.
#pragma once

#include <string>
#include <string_view>

#include <heed/error.hpp>

namespace heed {

// Throws Error "function: argument: message". The message says what came and the rule.
[[noreturn]] inline void fail(std::string_view function, std::string_view argument, const std::string& message) {
  throw Error(std::string(function), std::string(argument), message);
}

}  // namespace heed
