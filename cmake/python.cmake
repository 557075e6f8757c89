# hugectr/_core: the one compiled Python module, for CPython's stable ABI of 3.11 and later.

# The cython-cmake wheel of the interpreter, unless scikit-build-core has put it on the path.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
          "import cython_cmake, os; print(os.path.dirname(cython_cmake.__file__))"
  OUTPUT_VARIABLE cython_cmake OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(cython_cmake)
  list(APPEND CMAKE_MODULE_PATH ${cython_cmake}/cmake)
endif()
find_package(Cython 3.1 REQUIRED)
include(UseCython)

# Needs nothing that is compiled (CMake 3.27 and later): the longest chain starts first.
set(CMAKE_ADD_CUSTOM_COMMAND_DEPENDS_EXPLICIT_ONLY ON)
cython_transpile(hugectr/_core.pyx LANGUAGE CXX OUTPUT_VARIABLE core_source
                 CYTHON_ARGS -3 --module-name hugectr._core -I ${PROJECT_SOURCE_DIR}
                             -X boundscheck=False -X wraparound=False -X embedsignature=True)
python_add_library(_core MODULE ${core_source} WITH_SOABI USE_SABI 3.11)
target_link_libraries(_core PRIVATE hugectr_flags hugectr)
target_compile_definitions(_core PRIVATE HUGECTR_VERSION="${PROJECT_VERSION}")
# Cython's C++ is not ours to keep free of these.
# It hands calls on and computes nothing: optimising it further only takes time (docs/decisions.md).
target_compile_options(_core PRIVATE $<$<CONFIG:Release>:-O1>)
target_compile_options(_core PRIVATE -Wno-unused-parameter -Wno-cast-function-type -Wno-unused-function)
set_target_properties(_core PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS _core LIBRARY DESTINATION hugectr COMPONENT package)
