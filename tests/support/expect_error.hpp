// The exact kind of an error: function, argument, and what its message must name.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <heed/error.hpp>
#include <string>
#include <vector>

namespace heed::test {

// `call` throws Error of this function and argument; what() begins with both and the message after them contains every
// one of `parts` (upper and lower case being equal): what came and the rule.
template <class F>
void expect_error(F call, const std::string& function, const std::string& argument,
                  const std::vector<std::string>& parts) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.function(), function) << error.what();
    EXPECT_EQ(error.argument(), argument) << error.what();
    const std::string what = error.what();
    const std::string begin = error.function() + ": " + error.argument() + ": ";
    ASSERT_EQ(what.substr(0, begin.size()), begin);
    const auto lower = [](std::string text) {
      std::transform(text.begin(), text.end(), text.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      return text;
    };
    const std::string message = lower(what.substr(begin.size()));
    EXPECT_FALSE(message.empty());
    for (const std::string& part : parts)
      EXPECT_NE(message.find(lower(part)), std::string::npos) << "'" << what << "' does not say '" << part << "'";
    return;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "threw something else: " << other.what();
    return;
  }
  ADD_FAILURE() << "accepted; expected an error of " << function << ", " << argument;
}

}  // namespace heed::test
