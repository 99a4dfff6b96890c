# SPDX-License-Identifier: Apache-2.0
#
# `make deb`: one Debian package with the programs, their manual and completions, and one with the C++ library.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "Lathe")
set(CPACK_PACKAGE_CONTACT "The Lathe authors <lathe@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "builds and runs fast inference engines from ONNX models")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_COMPONENTS_ALL program library)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME lathe)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "Lathe turns an ONNX model into the fastest engine for the machine it runs on,
runs it, and shows where the time goes: an open trtexec, engine builder and
engine explorer for CPUs and NVIDIA GPUs.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME liblathe-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
    "The C++ library of Lathe, its headers and its CMake package:
find_package(lathe) gives lathe::lathe.")

# What Debian wants beside the files of each package: the licence and the changes.
set(debian_documents ${CMAKE_BINARY_DIR}/debian)
configure_file(cmake/copyright.in ${debian_documents}/copyright @ONLY)
configure_file(cmake/changelog.in ${debian_documents}/changelog @ONLY)
foreach(pair ${debian_documents}/changelog:changelog.gz ${CMAKE_SOURCE_DIR}/CHANGELOG.md:NEWS.md.gz)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 source)
  list(GET pair 1 packed)
  execute_process(COMMAND ${LATHE_GZIP} -9nc ${source} OUTPUT_FILE ${debian_documents}/${packed} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
foreach(part PROGRAM LIBRARY)
  string(TOLOWER ${part} component)
  install(FILES ${debian_documents}/copyright ${debian_documents}/changelog.gz ${debian_documents}/NEWS.md.gz
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${part}_PACKAGE_NAME} COMPONENT ${component})
endforeach()
include(CPack)
