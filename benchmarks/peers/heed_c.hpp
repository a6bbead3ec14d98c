// What the functions under a C ABI share.
#pragma once

#include <exception>
#include <string>

namespace heed::bench {

// Runs `body`; returns null, or what it threw, valid until the thread's next call.
template <class Body>
const char* error_of(const Body& body) noexcept {
  thread_local std::string message;
  try {
    body();
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
    return message.c_str();
  }
}

}  // namespace heed::bench
