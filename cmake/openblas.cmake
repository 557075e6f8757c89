# GEMM comes from the scipy-openblas32 wheel (LP64, symbols prefixed scipy_); see docs/decisions.md.
if(NOT HUGECTR_OPENBLAS_DIR)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c
            "import scipy_openblas32, os; print(os.path.dirname(scipy_openblas32.__file__))"
    OUTPUT_VARIABLE HUGECTR_OPENBLAS_DIR OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
endif()
add_library(hugectr_openblas INTERFACE)
target_include_directories(hugectr_openblas SYSTEM INTERFACE ${HUGECTR_OPENBLAS_DIR}/include)
target_link_libraries(hugectr_openblas INTERFACE ${HUGECTR_OPENBLAS_DIR}/lib/libscipy_openblas.so)
