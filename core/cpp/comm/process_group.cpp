// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/process_group.hpp"

#include <numeric>
#include <utility>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

class CallbackProcessGroup final : public IProcessGroup {
 public:
  explicit CallbackProcessGroup(ProcessGroupCallbacks callbacks) : call_(std::move(callbacks)) {
    HCTR_CHECK(call_.all_to_all && call_.duplicate && call_.abort,
               "a process group needs all of its functions");
    HCTR_CHECK(call_.rank < call_.size, "a process group of ", call_.size,
               " processes has no rank ", call_.rank);
  }

  std::size_t rank() const override { return call_.rank; }
  std::size_t size() const override { return call_.size; }

  void all_to_all(const void* in, const std::vector<std::size_t>& send_bytes, void* out,
                  const std::vector<std::size_t>& receive_bytes, double limit_seconds) override {
    HCTR_CHECK(send_bytes.size() == call_.size && receive_bytes.size() == call_.size,
               "all_to_all of processes: one count a process is needed (", call_.size, "), found ",
               send_bytes.size(), " and ", receive_bytes.size());
    call_.all_to_all(in, send_bytes, out, receive_bytes, limit_seconds);
  }
  double limit_seconds() const override { return call_.limit_seconds; }

  std::shared_ptr<IProcessGroup> duplicate(const std::string& name) override {
    // Numbered: an engine may tell its duplicates apart by their names.
    return std::make_shared<CallbackProcessGroup>(
        call_.duplicate(concat(name, ' ', ++duplicates_)));
  }

  void abort(const std::string& reason) noexcept override {
    try {
      call_.abort(reason);
    } catch (...) {  // an engine that can not even do that; the others run into their limit
    }
  }

 private:
  ProcessGroupCallbacks call_;
  std::size_t duplicates_ = 0;
};

}  // namespace

IProcessGroup::~IProcessGroup() = default;

void IProcessGroup::abort_from_here(const std::string& cause) noexcept {
  try {
    abort(concat("process ", rank(), ": ", cause));
  } catch (...) {  // no memory for the text: this one is there
    abort(cause);
  }
}

void IProcessGroup::all_gather(const void* in, std::size_t bytes, void* out, double limit_seconds) {
  // The same bytes for everybody: what goes out has to lie there once a process.
  std::vector<char> copies(bytes * size());
  for (std::size_t p = 0; p < size(); ++p) {
    const char* const from = static_cast<const char*>(in);
    std::copy(from, from + bytes, copies.begin() + static_cast<std::ptrdiff_t>(p * bytes));
  }
  const std::vector<std::size_t> counts(size(), bytes);
  all_to_all(copies.data(), counts, out, counts, limit_seconds);
}

std::vector<std::vector<char>> IProcessGroup::all_gather_any(const std::vector<char>& data) {
  std::vector<std::size_t> sizes(size());
  const std::size_t own = data.size();
  all_gather(&own, sizeof(own), sizes.data());
  std::vector<char> in, out(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
  for (std::size_t p = 0; p < size(); ++p) in.insert(in.end(), data.begin(), data.end());
  all_to_all(in.data(), std::vector<std::size_t>(size(), own), out.data(), sizes);
  std::vector<std::vector<char>> result;
  auto at = out.begin();
  for (const std::size_t bytes : sizes) {
    const auto end = at + static_cast<std::ptrdiff_t>(bytes);
    result.emplace_back(at, end);
    at = end;
  }
  return result;
}

std::shared_ptr<IProcessGroup> make_process_group(ProcessGroupCallbacks callbacks) {
  return std::make_shared<CallbackProcessGroup>(std::move(callbacks));
}

}  // namespace hugectr
