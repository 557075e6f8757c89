// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/log.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <new>
#include <string_view>

namespace hugectr {
namespace {

constexpr std::array<const char*, 5> kNames{"DEBUG", "INFO", "WARNING", "ERROR", "SILENT"};

/// HUGECTR_LOG_LEVEL as a number (0..4) or a name in capitals; anything else means INFO.
int level_from_environment() {
  const char* text = std::getenv("HUGECTR_LOG_LEVEL");
  if (text == nullptr) return static_cast<int>(LogLevel::Info);
  const std::string_view value(text);
  for (int i = 0; i < static_cast<int>(kNames.size()); ++i) {
    if (value == kNames[i] || (value.size() == 1 && value[0] == '0' + i)) return i;
  }
  return static_cast<int>(LogLevel::Info);
}

struct LogState {
  std::atomic<int> level{level_from_environment()};
  std::atomic<int> rank{0};
  std::mutex mutex;
};

LogState& state() {
  static LogState* const object = [] {
    // A thread that the child of a fork does not have may have held the lock.
    pthread_atfork(nullptr, nullptr, [] { new (&state().mutex) std::mutex; });
    return new LogState;  // outlives every static that may still log
  }();
  return *object;
}

std::string thread_name() {
  if (syscall(SYS_gettid) == getpid()) return "main";
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

}  // namespace

void log(LogLevel level, const std::string& message) {
  LogState& s = state();
  const int number = static_cast<int>(level);
  if (level >= LogLevel::Silent || number < s.level.load(std::memory_order_relaxed)) return;
  // What all processes of a job would say is said by the first.
  if (level == LogLevel::Info && s.rank.load(std::memory_order_relaxed) > 0) return;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char clock[16];
  std::strftime(clock, sizeof(clock), "%H:%M:%S", &local);
  const std::string line = std::string("[HCTR][") + clock + "][" + kNames[number] + "][RK" +
                           std::to_string(s.rank.load(std::memory_order_relaxed)) + "][" +
                           thread_name() + "]: " + message + "\n";
  std::FILE* const out = level >= LogLevel::Warning ? stderr : stdout;
  const std::lock_guard lock(s.mutex);
  std::fwrite(line.data(), 1, line.size(), out);
  std::fflush(out);
}

void set_log_level(LogLevel level) {
  state().level.store(static_cast<int>(level), std::memory_order_relaxed);
}

void set_log_rank(int rank) { state().rank.store(rank, std::memory_order_relaxed); }

}  // namespace hugectr
