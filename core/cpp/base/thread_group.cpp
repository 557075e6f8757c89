// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/thread_group.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"
#include "core/cpp/base/log.hpp"
#include "core/cpp/base/thread_memory.hpp"

namespace hugectr {
namespace {

// Initial-exec: there from the thread's start.
[[gnu::tls_model("initial-exec")]] thread_local bool in_group = false;

enum class Begun : int { NotYet, Runs, HasNoMemory };

HCTR_MAY_BE_UNWOUND void run(const std::string& name, const std::function<void()>& body) {
  in_group = true;
  try {
    body();
  }
  HCTR_CATCH_FORCED_UNWIND()
  catch (const std::exception& error) {
    try {
      log(LogLevel::Error, concat("the thread '", name, "' has ended: ", cause_of(error)));
    } catch (...) {  // no memory for the text
      std::fputs("hugectr: a thread has ended for want of memory\n", stderr);
    }
  }
  catch (...) {
    std::fputs("hugectr: a thread has ended with an unknown error\n", stderr);
  }
}

/// The value of a line "Name:   value" of /proc/self/status, or nothing.
std::string status_of_process(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) == 0) {
      const std::size_t begin = line.find_first_not_of(" \t", name.size() + 1);
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  }
  return "";
}

std::string first_word(const char* path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/// "<what> <limit>" of a limit that there is.
std::string limit_text(int resource, std::size_t unit, const char* what) {
  rlimit limit{};
  // NOLINTNEXTLINE: the type of the first argument is glibc's own
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return "";
  if (limit.rlim_cur == RLIM_INFINITY) return "";
  return concat("; ", what, " ", limit.rlim_cur / unit);
}

}  // namespace

ThreadGroup::ThreadGroup(std::function<void()> stop) : stop_(std::move(stop)) {}

ThreadGroup::~ThreadGroup() { join(); }

void ThreadGroup::start(const std::string& name, std::function<void()> body) {
  threads_.reserve(threads_.size() + 1);  // a thread that runs must find its place
  const auto begun = std::make_shared<std::atomic<Begun>>(Begun::NotYet);
  try {
    threads_.emplace_back([name, begun, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
      const bool may_throw = thread_may_throw();
      begun->store(may_throw ? Begun::Runs : Begun::HasNoMemory);
      begun->notify_one();
      if (may_throw) run(name, body);
    });
  } catch (const std::system_error& error) {
    throw OutOfMemory(thread_shortage(concat("the thread '", name, "'"), error.code().message()));
  }
  begun->wait(Begun::NotYet);
  if (begun->load() == Begun::Runs) return;
  threads_.back().join();
  threads_.pop_back();
  throw OutOfMemory(thread_shortage(concat("the thread '", name, "'"), "it got no memory"));
}

void ThreadGroup::join() {
  if (!made_in_.this_process()) {
    // Not even their handles may be let go of: they name stacks that other threads may have now.
    new std::vector<std::thread>(std::move(threads_));
    threads_.clear();
    return;
  }
  stop_();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void run_outside_of_groups(std::function<void()> end) noexcept {
  if (!in_group) return end();
  try {
    std::thread(std::move(end)).detach();
  } catch (const std::exception& error) {  // it stays in memory, which harms nobody else
    std::fprintf(stderr, "hugectr: what a thread let go of stays: %s\n", error.what());
  }
}

std::string thread_shortage(const std::string& what, const std::string& cause) {
  std::string text = concat(what, " could not be started: ", cause, "; this process has ",
                            status_of_process("Threads"), " threads and ",
                            status_of_process("VmSize"), " of address space");
  text += limit_text(RLIMIT_NPROC, 1, "threads its user may have (ulimit -u):");
  text += limit_text(RLIMIT_AS, 1024, "kB of address space it may have (ulimit -v):");
  for (const char* file : {"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"}) {
    const std::string most = first_word(file);
    if (!most.empty() && most != "max")
      text += concat("; threads of its cgroup (pids.max): ", most);
  }
  return text +
         "; raise what is short, or use fewer threads (HUGECTR_NUM_THREADS, num_workers, devices)";
}

std::string memory_shortage(const std::string& what) {
  return concat(what, ": out of host memory; this process has ", status_of_process("VmRSS"),
                " in memory and ", status_of_process("VmSize"), " of address space",
                limit_text(RLIMIT_AS, 1024, "kB of address space it may have (ulimit -v):"),
                "; raise the limit, or use a smaller batch, table budget or number of workers");
}

}  // namespace hugectr
