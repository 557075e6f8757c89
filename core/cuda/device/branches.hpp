// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <exception>

#include "core/cpp/device/op.hpp"
#include "core/cuda/device/side_streams.hpp"

namespace hugectr::cuda {

/// Pieces of an op that need not wait for each other, on its stream and beside it. Scratch memory
/// of the pieces is the op's, and outlives join(); a captured graph gets branches.
///
///   Branches branches(context, pieces.size());
///   for (std::size_t i = 0; i < pieces.size(); ++i) launch(branches.context(i), ...);
///   branches.join();
class Branches {
 public:
  Branches(const OpContext& context, std::size_t pieces)
      : context_(context),
        main_(cuda_stream(*context.stream)),
        sides_(std::min(pieces > 0 ? pieces - 1 : 0, SideStreams::kMost)) {
    if (sides_ > 0) main_.sides().fork(main_, sides_);
  }
  /// What was launched before an error is waited for too.
  ~Branches() {
    try {
      join();
    } catch (const std::exception&) {  // the error that is under way says more
    }
  }
  Branches(const Branches&) = delete;
  Branches& operator=(const Branches&) = delete;

  /// Where the i-th piece goes.
  OpContext context(std::size_t i) const {
    OpContext own = context_;
    const std::size_t where = i % (sides_ + 1);
    if (where > 0) own.stream = &main_.sides().stream(where - 1);
    return own;
  }
  /// What comes on the op's stream from here on waits for all pieces.
  void join() {
    if (sides_ == 0 || joined_) return;
    joined_ = true;
    main_.sides().join(main_, sides_);
  }

 private:
  const OpContext context_;
  CudaStream& main_;
  const std::size_t sides_;
  bool joined_ = false;
};

}  // namespace hugectr::cuda
