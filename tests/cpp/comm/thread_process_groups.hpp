// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/comm/process_group.hpp"

namespace hugectr {

/// Process groups whose "processes" are parts of one program: one group each, to be used from
/// different threads.
class ThreadProcessGroup final : public IProcessGroup {
 public:
  static std::vector<std::shared_ptr<IProcessGroup>> make(std::size_t size) {
    auto job = std::make_shared<Job>();
    std::vector<std::shared_ptr<IProcessGroup>> groups;
    for (std::size_t r = 0; r < size; ++r) {
      groups.push_back(std::make_shared<ThreadProcessGroup>(r, size, "", job));
    }
    return groups;
  }

  struct Job;
  ThreadProcessGroup(std::size_t rank, std::size_t size, std::string name, std::shared_ptr<Job> job)
      : rank_(rank), size_(size), name_(std::move(name)), job_(std::move(job)) {}

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  double limit_seconds() const override { return 60.0; }

  void all_to_all(const void* in, const std::vector<std::size_t>& send_bytes, void* out,
                  const std::vector<std::size_t>& receive_bytes, double) override {
    std::unique_lock lock(job_->mutex);
    const char* from = static_cast<const char*>(in);
    for (std::size_t p = 0; p < size_; ++p) {
      job_->mail[{name_, calls_, rank_, p}].assign(from, from + send_bytes[p]);
      from += send_bytes[p];
    }
    job_->changed.notify_all();
    char* to = static_cast<char*>(out);
    for (std::size_t p = 0; p < size_; ++p) {
      const Address address{name_, calls_, p, rank_};
      job_->changed.wait(lock, [&] { return job_->mail.contains(address) || job_->aborted; });
      if (job_->aborted) throw CommError(job_->reason);
      const std::vector<char> letter = std::move(job_->mail.at(address));
      job_->mail.erase(address);
      if (letter.size() != receive_bytes[p]) throw CommError("a letter of another size came");
      if (!letter.empty()) std::memcpy(to, letter.data(), letter.size());
      to += letter.size();
    }
    ++calls_;
  }

  std::shared_ptr<IProcessGroup> duplicate(const std::string& name) override {
    // Numbered: two duplicates may have the same name.
    const std::string path = name_ + "/" + std::to_string(duplicates_++) + name;
    return std::make_shared<ThreadProcessGroup>(rank_, size_, path, job_);
  }

  void abort(const std::string& reason) noexcept override {
    const std::lock_guard lock(job_->mutex);
    if (job_->aborted) return;
    job_->aborted = true;
    job_->reason = reason;
    job_->changed.notify_all();
  }

 private:
  /// Group, number of the call, from, to.
  using Address = std::tuple<std::string, std::size_t, std::size_t, std::size_t>;

 public:
  struct Job {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<Address, std::vector<char>> mail;
    bool aborted = false;
    std::string reason;
  };

 private:
  std::size_t rank_, size_;
  std::string name_;
  std::shared_ptr<Job> job_;
  std::size_t calls_ = 0, duplicates_ = 0;
};

}  // namespace hugectr
