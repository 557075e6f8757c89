// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/comm/message_plan.hpp"
#include "core/cuda/comm/nccl.hpp"

/// Calls of NCCL that make up a collective, and those that go together.
namespace hugectr::cuda {

inline ncclDataType_t nccl_type(TensorScalarType type) {
  switch (type) {
    case TensorScalarType::Float32:
      return ncclFloat32;
    case TensorScalarType::Float64:
      return ncclFloat64;
    case TensorScalarType::Float16:
      return ncclFloat16;
    case TensorScalarType::BFloat16:
      return ncclBfloat16;
    case TensorScalarType::Int64:
      return ncclInt64;
    case TensorScalarType::Int32:
      return ncclInt32;
    case TensorScalarType::UInt32:
      return ncclUint32;
    default:
      throw InvalidArgument(concat("can not sum ", to_string(type)));
  }
}

inline char* bytes_at(const TensorRef& ref, std::size_t element) {
  return static_cast<char*>(ref.data) + element * size_of(ref.dtype);
}

/// Calls of NCCL that go together. They are made when the group ends, also after an error: the
/// thread must leave it.
class NcclGroup {
 public:
  explicit NcclGroup(const char* what) : what_(what) { HCTR_TRY(nccl().GroupStart()); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() {
    if (!ended_) HCTR_TRY_NOTHROW(nccl().GroupEnd());
  }
  void keep(ncclResult_t result) {
    if (status_ == ncclSuccess) status_ = result;
  }
  void end() {
    ended_ = true;
    keep(nccl().GroupEnd());
    check_status(status_, what_, __FILE__, __LINE__);
  }

 private:
  const char* what_;
  ncclResult_t status_ = ncclSuccess;
  bool ended_ = false;
};

/// Inside a group.
inline ncclResult_t start_all_to_all(const TensorRef& in,
                                     const std::vector<std::size_t>& send_counts,
                                     const TensorRef& out,
                                     const std::vector<std::size_t>& receive_counts,
                                     ncclComm_t comm, cudaStream_t to) {
  const std::size_t width = size_of(in.dtype);
  ncclResult_t status = ncclSuccess;
  const auto keep = [&](ncclResult_t result) {
    if (status == ncclSuccess) status = result;
  };
  std::size_t from = 0;
  std::size_t at = 0;
  for (std::size_t r = 0; r < send_counts.size(); ++r) {
    const int peer = static_cast<int>(r);
    if (send_counts[r] > 0) {
      keep(nccl().Send(bytes_at(in, from), send_counts[r] * width, ncclUint8, peer, comm, to));
    }
    if (receive_counts[r] > 0) {
      keep(nccl().Recv(bytes_at(out, at), receive_counts[r] * width, ncclUint8, peer, comm, to));
    }
    from += send_counts[r];
    at += receive_counts[r];
  }
  return status;
}

/// Inside a group.
inline ncclResult_t start(const MessagePlan& messages, ncclComm_t comm, cudaStream_t to) {
  ncclResult_t status = ncclSuccess;
  const auto keep = [&](ncclResult_t result) {
    if (status == ncclSuccess) status = result;
  };
  for (const MessagePlan::Message& sent : messages.sends()) {
    const int peer = static_cast<int>(sent.peer);
    keep(nccl().Send(sent.data, sent.bytes, ncclUint8, peer, comm, to));
  }
  for (const MessagePlan::Message& taken : messages.receives()) {
    const int peer = static_cast<int>(taken.peer);
    keep(nccl().Recv(taken.data, taken.bytes, ncclUint8, peer, comm, to));
  }
  return status;
}

/// One of the collectives that check_call() lets pass, inside a group; all-to-alls go by their
/// messages.
inline ncclResult_t start(const CollectiveCall& call, ncclComm_t comm, cudaStream_t to) {
  const std::string_view name = call.collective;
  if (name == "reduce_scatter") {
    return nccl().ReduceScatter(call.in.data, call.out.data, call.out.size(),
                                nccl_type(call.in.dtype), ncclSum, comm, to);
  }
  if (name == "all_gather") {
    return nccl().AllGather(call.in.data, call.out.data, call.in.size_in_bytes(), ncclUint8, comm,
                            to);
  }
  return ncclSuccess;
}

}  // namespace hugectr::cuda
