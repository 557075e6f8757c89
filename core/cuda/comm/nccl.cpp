// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/comm/nccl.hpp"

#include <cstdio>

#include "core/cpp/base/error.hpp"
#include "core/cuda/driver/shared_library.hpp"

namespace hugectr::cuda {
namespace {

struct Library {
  SharedLibrary file{"libnccl.so.2", "nccl cu13", "\"nvidia-nccl-cu13>=2.27,<3\""};
  NcclApi api{};

  Library() {
    file.find(api.GetVersion, "ncclGetVersion");
    file.find(api.GetErrorString, "ncclGetErrorString");
    file.find(api.GetLastError, "ncclGetLastError");
    file.find(api.CommInitAll, "ncclCommInitAll");
    file.find(api.GetUniqueId, "ncclGetUniqueId");
    file.find(api.CommInitRank, "ncclCommInitRank");
    file.find(api.CommDestroy, "ncclCommDestroy");
    file.find(api.CommAbort, "ncclCommAbort");
    file.find(api.GroupStart, "ncclGroupStart");
    file.find(api.GroupEnd, "ncclGroupEnd");
    file.find(api.AllReduce, "ncclAllReduce");
    file.find(api.ReduceScatter, "ncclReduceScatter");
    file.find(api.AllGather, "ncclAllGather");
    file.find(api.Broadcast, "ncclBroadcast");
    file.find(api.Send, "ncclSend");
    file.find(api.Recv, "ncclRecv");
  }
};

const Library& library() {
  static const auto* const object = new Library;  // static destructors may still abort
  return *object;
}

std::string text_of(ncclResult_t status, const char* call, const char* file, int line) {
  const char* const detail = nccl().GetLastError(nullptr);
  return concat(call, " failed at ", file, ":", line, ": ", nccl().GetErrorString(status),
                detail != nullptr && *detail != '\0' ? concat(": ", detail) : std::string(),
                "; NCCL_DEBUG=WARN tells more");
}

}  // namespace

const NcclApi& nccl() { return library().api; }

std::string nccl_version() {
  int version = 0;  // 22703 is 2.27.3
  HCTR_TRY(nccl().GetVersion(&version));
  return concat(version / 10000, ".", version / 100 % 100, ".", version % 100, " (",
                library().file.path(), ")");
}

void check_status(ncclResult_t status, const char* call, const char* file, int line) {
  if (status != ncclSuccess) throw CommError(text_of(status, call, file, line));
}

void report_status(ncclResult_t status, const char* call, const char* file, int line) noexcept {
  if (status == ncclSuccess) return;
  try {
    std::fprintf(stderr, "hugectr: %s\n", text_of(status, call, file, line).c_str());
  } catch (...) {
    std::fprintf(stderr, "hugectr: %s failed\n", call);
  }
}

}  // namespace hugectr::cuda
