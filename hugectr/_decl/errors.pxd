# SPDX-License-Identifier: Apache-2.0
# The one place where C++ exceptions become Python's.
from libcpp.string cimport string

cdef extern from *:
    """
    #include <new>
    #include <stdexcept>
    #include <string>
    #include "core/cpp/base/error.hpp"

    // Which of the core's error types is being handled, and its text.
    static int hugectr_current_error(std::string* text) {
      try {
        throw;
      } catch (const hugectr::InvalidArgument& e) {
        *text = e.what();
        return 1;
      } catch (const hugectr::OutOfMemory& e) {
        *text = e.what();
        return 2;
      } catch (const hugectr::DeviceError& e) {
        *text = e.what();
        return 3;
      } catch (const hugectr::DataError& e) {
        *text = e.what();
        return 4;
      } catch (const hugectr::CommError& e) {
        *text = e.what();
        return 5;
      } catch (const std::bad_alloc& e) {
        *text = "out of host memory";
        return 2;
      } catch (const std::exception& e) {
        *text = e.what();
        return 0;
      }
    }
    """
    int hugectr_current_error(string* text)

cdef int translate_error() except -1
