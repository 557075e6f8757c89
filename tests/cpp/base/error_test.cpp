// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/error.hpp"

#include <gtest/gtest.h>

#include <new>

#include "core/cpp/base/device_id.hpp"

namespace hugectr {
namespace {

TEST(Error, CheckThrowsInvalidArgumentWithAllParts) {
  const int found = 3;
  try {
    HCTR_CHECK(found == 4, "layer '", "fc1", "' has ", found, " tops");
    FAIL();
  } catch (const InvalidArgument& e) {
    EXPECT_STREQ(e.what(), "layer 'fc1' has 3 tops");
  }
  EXPECT_NO_THROW(HCTR_CHECK(found == 3, "never"));
}

TEST(Error, EveryTypeIsAnErrorAndNoneIsAnother) {
  EXPECT_THROW(throw OutOfMemory("x"), Error);
  EXPECT_THROW(throw DeviceError("x"), Error);
  EXPECT_THROW(throw DataError("x"), std::runtime_error);
  try {
    throw CommError("x");
  } catch (const DeviceError&) {
    FAIL();
  } catch (const CommError& e) {
    EXPECT_STREQ(e.what(), "x");
  }
}

TEST(Error, TheCauseOfBadAllocIsNoNameOfAType) {
  EXPECT_STREQ(cause_of(DataError("a.bin is damaged")), "a.bin is damaged");
  EXPECT_STREQ(cause_of(std::bad_alloc()), "out of host memory");
  EXPECT_STREQ(cause_of(std::bad_array_new_length()), "out of host memory");
}

TEST(DeviceId, Names) {
  EXPECT_EQ(to_string(DeviceId{DeviceType::Cpu, 2}), "cpu:2");
  EXPECT_EQ(to_string(DeviceId{DeviceType::Cuda, 0}), "cuda:0");
  EXPECT_EQ(to_string(DeviceId::host()), "host");
  EXPECT_TRUE(DeviceId::host().is_host());
  EXPECT_FALSE((DeviceId{DeviceType::Cpu, 0}).is_host());
}

}  // namespace
}  // namespace hugectr
