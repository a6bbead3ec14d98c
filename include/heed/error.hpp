// The one exception of the library.
#pragma once

#include <stdexcept>
#include <string>

namespace heed {

// Thrown for every wrong argument or file. what() reads "function: argument: what came, the rule", for example
// "attention: k: kv_heads 3 does not divide q_heads 8". When it is thrown nothing has been changed.
class Error : public std::invalid_argument {
 public:
  Error(std::string function, std::string argument, const std::string& message)
      : std::invalid_argument(function + ": " + argument + ": " + message),
        function_(std::move(function)),
        argument_(std::move(argument)) {}

  const std::string& function() const noexcept { return function_; }
  const std::string& argument() const noexcept { return argument_; }

 private:
  std::string function_;
  std::string argument_;
};

}  // namespace heed
