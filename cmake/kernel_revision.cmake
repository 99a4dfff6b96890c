# SPDX-License-Identifier: Apache-2.0
#
# cmake -DSOURCES=x.cmake -DHEADER=x.h -DNAME=kCpuKernels -P kernel_revision.cmake: a header with a hash of the FILES that x.cmake sets,
# which is part of the key of what they make: timings, packed weights and GPU binaries of other kernels are not used. Written only when it changes.
include(${SOURCES})
set(hashes "")
foreach(file ${FILES})
  file(SHA256 ${file} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 revision "${hashes}")
string(SUBSTRING ${revision} 0 12 revision)
set(text "#pragma once\n\nnamespace lathe {\ninline constexpr char ${NAME}[] = \"${revision}\";\n}  // namespace lathe\n")
if(EXISTS ${HEADER})
  file(READ ${HEADER} before)
endif()
if(NOT text STREQUAL "${before}")
  file(WRITE ${HEADER} "${text}")
endif()
