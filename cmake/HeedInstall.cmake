# find_package(heed) for other projects: the library, its headers, the command.

# Before 1.0 a minor version may change the binary interface.
set_target_properties(heed PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

if(HEED_INSTALL)
  include(CMakePackageConfigHelpers)
  set(HEED_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/heed)

  install(TARGETS heed EXPORT heedTargets)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/heed DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.hpp")
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
  if(TARGET heed_cli)
    # Finds a shared libheed wherever the prefix lies.
    file(RELATIVE_PATH HEED_LIB_FROM_BIN ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(heed_cli PROPERTIES INSTALL_RPATH $ORIGIN/${HEED_LIB_FROM_BIN})
    install(TARGETS heed_cli)
  endif()

  install(EXPORT heedTargets NAMESPACE heed:: DESTINATION ${HEED_CMAKE_DIR})
  configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/heedConfig.cmake.in ${PROJECT_BINARY_DIR}/heedConfig.cmake
    INSTALL_DESTINATION ${HEED_CMAKE_DIR})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/heedConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/heedConfig.cmake ${PROJECT_BINARY_DIR}/heedConfigVersion.cmake
    DESTINATION ${HEED_CMAKE_DIR})
endif()
