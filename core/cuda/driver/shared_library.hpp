// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace hugectr::cuda {

/// A library of NVIDIA that is opened at run time. It stays open as long as the program.
class SharedLibrary {
 public:
  /// Looks in the folders of HUGECTR_CUDA_LIB_PATH (separated by ':'), then takes one that the
  /// process has open already, then the pip wheel beside this package
  /// (<site-packages>/nvidia/<wheel>/lib for `wheels`, separated by ' '), then the system.
  /// Throws DeviceError with what was tried; `package` is what pip calls it.
  SharedLibrary(const char* soname, const char* wheels, const char* package);

  /// Sets `function` to the symbol. Throws DeviceError naming it when the library lacks it.
  template <class F>
  void find(F& function, const char* symbol) const {
    function = reinterpret_cast<F>(address(symbol));
  }
  /// Where it was opened from.
  const std::string& path() const { return path_; }

 private:
  void* address(const char* symbol) const;

  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace hugectr::cuda
