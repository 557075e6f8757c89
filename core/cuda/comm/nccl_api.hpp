// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

struct CUstream_st;
struct ncclComm;

/// What this project uses of the C interface of NCCL 2, under the library's own names. It is
/// declared here because the library is opened at run time: a build needs no NCCL.
namespace hugectr::cuda {

using ncclComm_t = ncclComm*;

/// What the ranks of a communicator that spans processes agree on.
struct ncclUniqueId {
  char internal[128];
};

enum ncclResult_t : int { ncclSuccess = 0 };

enum ncclDataType_t : int {
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

enum ncclRedOp_t : int { ncclSum = 0 };

/// The functions; each is named as in the library without its prefix nccl.
struct NcclApi {
  ncclResult_t (*GetVersion)(int*);
  const char* (*GetErrorString)(ncclResult_t);
  const char* (*GetLastError)(ncclComm_t);
  ncclResult_t (*CommInitAll)(ncclComm_t*, int count, const int* devices);
  ncclResult_t (*GetUniqueId)(ncclUniqueId*);
  ncclResult_t (*CommInitRank)(ncclComm_t*, int ranks, ncclUniqueId, int rank);
  ncclResult_t (*CommDestroy)(ncclComm_t);
  ncclResult_t (*CommAbort)(ncclComm_t);
  ncclResult_t (*GroupStart)();
  ncclResult_t (*GroupEnd)();
  ncclResult_t (*AllReduce)(const void* in, void* out, std::size_t count, ncclDataType_t,
                            ncclRedOp_t, ncclComm_t, CUstream_st*);
  ncclResult_t (*ReduceScatter)(const void* in, void* out, std::size_t count_of_out, ncclDataType_t,
                                ncclRedOp_t, ncclComm_t, CUstream_st*);
  ncclResult_t (*AllGather)(const void* in, void* out, std::size_t count_of_in, ncclDataType_t,
                            ncclComm_t, CUstream_st*);
  ncclResult_t (*Broadcast)(const void* in, void* out, std::size_t count, ncclDataType_t, int root,
                            ncclComm_t, CUstream_st*);
  ncclResult_t (*Send)(const void* in, std::size_t count, ncclDataType_t, int peer, ncclComm_t,
                       CUstream_st*);
  ncclResult_t (*Recv)(void* out, std::size_t count, ncclDataType_t, int peer, ncclComm_t,
                       CUstream_st*);
};

}  // namespace hugectr::cuda
