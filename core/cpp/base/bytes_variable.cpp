// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/bytes_variable.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "core/cpp/base/error.hpp"

namespace hugectr {

std::size_t bytes_variable(const char* name, std::size_t usual) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return usual;
  std::size_t bytes = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, bytes);
  HCTR_CHECK(error == std::errc{} && stop == end && bytes > 0, name, "=", text,
             ": give a number of bytes from 1 on");
  return bytes;
}

}  // namespace hugectr
