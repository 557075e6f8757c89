// SPDX-License-Identifier: Apache-2.0
// What the GPUs of a process do and when, and the calls of CUDA that made them do it, by CUPTI: for
// any program, Python among them, without a change to it.
//
//   CUDA_INJECTION64_PATH=libhugectr_time_line.so HUGECTR_TIME_LINE=trace.json PROGRAM ...
//
// CUDA loads the library when it starts and the file is written when the program ends, in the form
// that chrome://tracing and Perfetto draw: a process is a device (pid 1000: the host), a thread one
// of its streams. LOCAL_RANK is added to the name, and the process's number where there is such a
// file. HUGECTR_TIME_LINE_CALLS=0 leaves the host's calls out, whose recording costs the host about
// a microsecond each. benchmarks/time_line.py sums such a file up.
#include <cupti.h>
#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace {

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;
constexpr int kHost = 1000;

struct File {
  std::mutex mutex;
  std::FILE* to = nullptr;
  bool first = true;
};

File& file() {
  static auto* const object = new File;
  return *object;
}

/// A kernel's name without the types of its arguments and most of its template arguments.
std::string readable(const char* name) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = status == 0 && demangled != nullptr ? demangled : name;
  std::free(demangled);
  for (const char* cut : {"hugectr::cuda::(anonymous namespace)::", "hugectr::cuda::", "void "}) {
    for (std::size_t at; (at = text.find(cut)) != std::string::npos;) {
      text.erase(at, std::string(cut).size());
    }
  }
  text.resize(std::min<std::size_t>(text.size(), 90));
  for (char& c : text) {
    if (c == '"' || c == '\\') c = '\'';
  }
  return text;
}

/// Times in nanoseconds; the file holds microseconds.
void write(const std::string& name, std::uint64_t begin, std::uint64_t end, unsigned process,
           unsigned thread, std::uint64_t bytes, unsigned correlation) {
  File& all = file();
  const std::lock_guard lock(all.mutex);
  if (all.to == nullptr) return;
  std::fprintf(all.to,
               "%s{\"ph\":\"X\",\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%u,\"tid\":%u,"
               "\"args\":{\"bytes\":%llu,\"call\":%u}}",
               all.first ? "[" : ",\n", name.c_str(), static_cast<double>(begin) / 1e3,
               static_cast<double>(end - begin) / 1e3, process, thread,
               static_cast<unsigned long long>(bytes), correlation);
  all.first = false;
}

const char* direction(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "copy on the device";
    default:
      return "copy";
  }
}

void write(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto* k = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      return write(readable(k->name), k->start, k->end, k->deviceId, k->streamId, 0,
                   k->correlationId);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto* k = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
      return write(direction(k->copyKind), k->start, k->end, k->deviceId, k->streamId, k->bytes,
                   k->correlationId);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto* k = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4*>(record);
      return write("copy device to device", k->start, k->end, k->deviceId, k->streamId, k->bytes,
                   k->correlationId);
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto* k = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      return write("fill", k->start, k->end, k->deviceId, k->streamId, k->bytes, k->correlationId);
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME: {
      const auto* k = reinterpret_cast<const CUpti_ActivityAPI*>(record);
      const char* name = "?";
      cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, k->cbid, &name);
      return write(name, k->start, k->end, kHost, k->threadId, 0, k->correlationId);
    }
    default:
      return;
  }
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *records = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) write(record);
  std::free(buffer);
}

void end() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  File& all = file();
  const std::lock_guard lock(all.mutex);
  if (all.to == nullptr) return;
  std::fprintf(all.to, "%s]\n", all.first ? "[" : "");
  std::fclose(all.to);
  all.to = nullptr;
}

}  // namespace

/// Called by CUDA.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* path = std::getenv("HUGECTR_TIME_LINE");
  if (path == nullptr) return 1;
  // Processes of a job, and those that they start, write a file each.
  const char* rank = std::getenv("LOCAL_RANK");
  std::string name = path + (rank ? std::string(".") + rank : "");
  file().to = std::fopen(name.c_str(), "wx");
  if (file().to == nullptr && errno == EEXIST) {
    name += "." + std::to_string(getpid());
    file().to = std::fopen(name.c_str(), "wx");
  }
  if (file().to == nullptr) {
    std::fprintf(stderr, "time line: can not write %s\n", path);
    return 1;
  }
  const char* calls = std::getenv("HUGECTR_TIME_LINE_CALLS");
  const auto ask = [](CUptiResult result) {
    if (result != CUPTI_SUCCESS) {
      const char* why = "?";
      cuptiGetResultString(result, &why);
      std::fprintf(stderr, "time line: CUPTI refuses (is another profiler there?): %s\n", why);
    }
  };
  ask(cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
  for (const auto kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                          CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET}) {
    ask(cuptiActivityEnable(kind));
  }
  if (calls == nullptr || *calls != '0') ask(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME));
  std::atexit(end);
  return 1;
}
