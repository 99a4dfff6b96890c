# SPDX-License-Identifier: Apache-2.0
#
# The execution provider for ONNX Runtime: a library of its own over the public API, built where ONNX Runtime's C headers are
# (tools/setup-onnxruntime.sh).
set(LATHE_ONNXRUNTIME_HEADERS ${CMAKE_SOURCE_DIR}/.onnxruntime/include CACHE PATH "ONNX Runtime's C headers, 1.24 or newer")
if(NOT EXISTS ${LATHE_ONNXRUNTIME_HEADERS}/onnxruntime_ep_c_api.h)
  message(STATUS "No headers of ONNX Runtime (tools/setup-onnxruntime.sh): building without the execution provider")
  return()
endif()
file(GLOB onnxruntime_sources CONFIGURE_DEPENDS onnxruntime/*.cpp)
list(FILTER onnxruntime_sources EXCLUDE REGEX "_test\\.cpp$")
# Of the importer it needs the functions that write models' wire format, and nothing else.
add_library(lathe_onnxruntime MODULE ${onnxruntime_sources} src/onnx/wire.cpp)
target_include_directories(lathe_onnxruntime SYSTEM PRIVATE ${LATHE_ONNXRUNTIME_HEADERS})
target_link_libraries(lathe_onnxruntime PRIVATE lathe_shared lathe_base)
set_target_properties(lathe_onnxruntime PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                                   INSTALL_RPATH "$ORIGIN")
# nodelete: the library's threads outlive the sessions, and must not lose their code when ONNX Runtime closes this library.
target_link_options(lathe_onnxruntime PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,nodelete)
install(TARGETS lathe_onnxruntime LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT onnxruntime)
if(LATHE_TESTS)
  file(GLOB onnxruntime_tests CONFIGURE_DEPENDS onnxruntime/*_test.cpp)
  lathe_test(onnxruntime ${onnxruntime_tests} onnxruntime/groups.cpp onnxruntime/ranges.cpp DEPENDS lathe_base)
endif()
