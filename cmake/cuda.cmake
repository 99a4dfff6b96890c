# SPDX-License-Identifier: Apache-2.0
#
# The CUDA backend: liblathe_cuda.so, which Lathe opens when a GPU is wanted. Built when the headers are there: from
# .venv-cuda (make cuda) or the system's toolkit. Plain C++: kernels are source text that NVRTC compiles.

# lathe_device_text(<target>): src/backend/cuda/<folder>/<name>.cuh -> generated/lathe_device_text/<name>.h, the text of its pieces.
function(lathe_device_text target)
  file(GLOB files CONFIGURE_DEPENDS src/backend/cuda/*/*.cuh)
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    set(header ${CMAKE_BINARY_DIR}/generated/lathe_device_text/${name}.h)
    if(header IN_LIST headers)
      message(FATAL_ERROR "Two device files are called ${name}.cuh: their text would be one header")
    endif()
    list(APPEND headers ${header})
    add_custom_command(OUTPUT ${header}
                       COMMAND ${CMAKE_COMMAND} -DSOURCE=${file} -DHEADER=${header} -DNAME=${name}
                               -P ${CMAKE_SOURCE_DIR}/cmake/device_text.cmake
                       DEPENDS ${file} cmake/device_text.cmake VERBATIM)
  endforeach()
  target_sources(${target} PRIVATE ${headers})
endfunction()

file(GLOB LATHE_CUDA_WHEELS ${CMAKE_SOURCE_DIR}/.venv-cuda/lib/python3*/site-packages/nvidia)
find_path(LATHE_CUDA_INCLUDE nvrtc.h HINTS ${LATHE_CUDA_WHEELS}/cu13/include PATHS /usr/local/cuda/include)
find_path(LATHE_CUBLASLT_INCLUDE cublasLt.h HINTS ${LATHE_CUDA_WHEELS}/cu13/include PATHS /usr/local/cuda/include)
find_path(LATHE_CUDNN_INCLUDE cudnn_graph.h HINTS ${LATHE_CUDA_WHEELS}/cudnn/include PATHS /usr/local/cuda/include)

if(LATHE_CUDA_INCLUDE AND LATHE_CUBLASLT_INCLUDE AND LATHE_CUDNN_INCLUDE)
  add_library(lathe_cuda_headers INTERFACE)
  target_include_directories(lathe_cuda_headers SYSTEM INTERFACE ${LATHE_CUDA_INCLUDE} ${LATHE_CUBLASLT_INCLUDE}
                                                                 ${LATHE_CUDNN_INCLUDE})
  lathe_library(backend/cuda DEPENDS lathe_backend lathe_ops lathe_cuda_headers ${CMAKE_DL_LIBS} FAMILIES)
  lathe_kernel_revision(cuda kCudaKernels)
  lathe_device_text(lathe_backend_cuda)
  lathe_runs_once(lathe_backend_cuda)  # the work is the GPU's
  add_library(lathe_cuda MODULE src/backend/cuda/run/api_cuda.cpp)
  target_link_libraries(lathe_cuda PRIVATE lathe_backend_cuda)
  # Its copies of lathe's own functions stay its own.
  target_link_options(lathe_cuda PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
  set(cuda_libraries ${LATHE_CUDA_WHEELS}/cu13/lib ${LATHE_CUDA_WHEELS}/cudnn/lib)
  set_target_properties(lathe_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin
                                              BUILD_RPATH "${cuda_libraries}")
  if(TARGET backend_cuda_test)
    set_target_properties(backend_cuda_test PROPERTIES BUILD_RPATH "${cuda_libraries}")
  endif()
  install(TARGETS lathe_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT program)
endif()
