// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/driver/shared_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "core/cpp/base/error.hpp"

namespace hugectr::cuda {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(const char* text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text != nullptr ? text : "");
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

void address_in_this_library() {}

/// The folder that holds the package folder this library lies in, i.e. site-packages.
fs::path site_packages() {
  Dl_info info{};
  const auto here = reinterpret_cast<const void*>(&address_in_this_library);
  if (dladdr(here, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return fs::absolute(info.dli_fname, ignored).parent_path().parent_path();
}

}  // namespace

SharedLibrary::SharedLibrary(const char* soname, const char* wheels, const char* package) {
  std::string tried;
  const auto open = [&](const std::string& file, int more = 0) {
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | more);
    if (handle_ == nullptr && more == 0) {
      const char* reason = dlerror();
      tried += concat("\n  ", reason != nullptr ? reason : file);
    }
    return handle_ != nullptr;
  };
  const auto open_in = [&](const fs::path& folder) {
    const fs::path file = folder / soname;
    std::error_code ignored;
    if (!fs::exists(file, ignored)) {
      tried += concat("\n  ", file.string(), ": no such file");
      return false;
    }
    return open(file.string());
  };
  bool found = false;
  for (const auto& folder : split(std::getenv("HUGECTR_CUDA_LIB_PATH"), ':')) {
    found = found || open_in(folder);
  }
  found = found || open(soname, RTLD_NOLOAD);
  for (const auto& wheel : split(wheels, ' ')) {
    found = found || open_in(site_packages() / "nvidia" / wheel / "lib");
  }
  if (!found && !open(soname)) {
    throw DeviceError(concat("can not open ", soname, ": pip install ", package,
                             " into the environment of hugectr, or name the folder that holds it "
                             "in HUGECTR_CUDA_LIB_PATH; tried:",
                             tried));
  }
  path_ = soname;
  if (link_map* map = nullptr; dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) {
    path_ = map->l_name;
  }
}

void* SharedLibrary::address(const char* symbol) const {
  void* const result = dlsym(handle_, symbol);
  if (result == nullptr) {
    throw DeviceError(concat(path_, " has no ", symbol,
                             ": it is too old; install the versions that pip install "
                             "\"hugectr[cuda13]\" brings"));
  }
  return result;
}

}  // namespace hugectr::cuda
