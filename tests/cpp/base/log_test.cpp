// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/log.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>
#include <vector>

namespace hugectr {
namespace {

class Log : public testing::Test {
 protected:
  void TearDown() override {
    set_log_level(LogLevel::Info);
    set_log_rank(0);
  }
};

TEST_F(Log, LineHasTheKnownForm) {
  set_log_rank(3);
  testing::internal::CaptureStdout();
  log(LogLevel::Info, "what process 0 says too");
  log(LogLevel::Debug, "not at this level");
  set_log_rank(0);
  log(LogLevel::Info, "model compiled");
  const std::string out = testing::internal::GetCapturedStdout();
  std::string form = out;
  for (char& c : form) {
    if (c >= '0' && c <= '9' && &c < &form[16]) c = 'd';
  }
  EXPECT_EQ(form, "[HCTR][dd:dd:dd][INFO][RK0][main]: model compiled\n");
}

TEST_F(Log, WarningsGoToStandardErrorAndLevelsFilter) {
  testing::internal::CaptureStderr();
  log(LogLevel::Warning, "first");
  set_log_level(LogLevel::Error);
  log(LogLevel::Warning, "second");
  log(LogLevel::Error, "third");
  set_log_level(LogLevel::Silent);
  log(LogLevel::Error, "fourth");
  const std::string out = testing::internal::GetCapturedStderr();
  EXPECT_NE(out.find("[WARNING]"), std::string::npos);
  EXPECT_NE(out.find("first"), std::string::npos);
  EXPECT_EQ(out.find("second"), std::string::npos);
  EXPECT_NE(out.find("third"), std::string::npos);
  EXPECT_EQ(out.find("fourth"), std::string::npos);
}

TEST_F(Log, LinesOfThreadsNeverMix) {
  testing::internal::CaptureStdout();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 100; ++i)
        log(LogLevel::Info, std::string(50, static_cast<char>('a' + t)));
    });
  }
  for (auto& thread : threads) thread.join();
  std::istringstream out(testing::internal::GetCapturedStdout());
  std::string line;
  int lines = 0;
  while (std::getline(out, line)) {
    ++lines;
    const std::size_t text = line.find("]: ");
    ASSERT_EQ(line.find("[HCTR]"), 0u) << line;
    ASSERT_NE(text, std::string::npos) << line;
    ASSERT_EQ(line.substr(text + 3), std::string(50, line.back())) << line;
  }
  EXPECT_EQ(lines, 800);
}

}  // namespace
}  // namespace hugectr
