// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/comm/single_communicator.hpp"

#include "core/cpp/base/error.hpp"
#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/device/stream.hpp"
#include "core/cuda/device/cuda_stream.hpp"
#include "core/cuda/device/stream_failure.hpp"

namespace hugectr::cuda {
namespace {

class SingleCommunicator final : public Communicator {
 public:
  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return 1; }

  void all_reduce(TensorRef data, Stream& stream) override {
    check_all_reduce(data);
    start(stream);
  }
  void reduce_scatter(TensorRef in, TensorRef out, Stream& stream) override {
    check_reduce_scatter(in, out, 1);
    copy(in, out, in.size_in_bytes(), stream);
  }
  void all_gather(TensorRef in, TensorRef out, Stream& stream) override {
    check_all_gather(in, out, 1);
    copy(in, out, in.size_in_bytes(), stream);
  }
  void all_to_all(TensorRef in, const std::vector<std::size_t>& send_counts, TensorRef out,
                  const std::vector<std::size_t>& receive_counts, Stream& stream) override {
    check_all_to_all(in, send_counts, out, receive_counts, 1);
    if (send_counts[0] != receive_counts[0]) {
      throw CommError(concat("ranks disagree in all_to_all: rank 0 sends ", send_counts[0],
                             " elements to itself and expects ", receive_counts[0]));
    }
    copy(in, out, send_counts[0] * size_of(in.dtype), stream);
  }
  void together(const std::vector<CollectiveCall>& calls, Stream& stream) override {
    for (const CollectiveCall& call : calls) {
      if (call.send_counts.empty()) {
        check_call(call, 1);
        copy(call.in, call.out, call.in.size_in_bytes(), stream);
      } else {
        all_to_all(call.in, call.send_counts, call.out, call.receive_counts, stream);
      }
    }
  }
  void broadcast(TensorRef data, std::size_t root, Stream& stream) override {
    check_broadcast(data, root, 1);
    start(stream);
  }
  void barrier(Stream& stream) override { start(stream); }
  void abort(const std::string& reason) noexcept override { failure_->set(reason); }
  // Streams that watch the old failure still report it, once.
  void renew() override { failure_ = std::make_shared<StreamFailure>(); }

 private:
  void start(Stream& stream) const {
    if (failure_->failed()) throw CommError(failure_->text());
    cuda_stream(stream).watch(failure_);
  }
  void copy(const TensorRef& in, const TensorRef& out, std::size_t bytes, Stream& stream) const {
    start(stream);
    stream.copy(out.data, in.data, bytes);
  }

  std::shared_ptr<StreamFailure> failure_ = std::make_shared<StreamFailure>();
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace hugectr::cuda
