// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz_case.hpp"

/// What libFuzzer calls; HUGECTR_FUZZ_TARGET is the target of this binary.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hugectr::fuzzing::HUGECTR_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
