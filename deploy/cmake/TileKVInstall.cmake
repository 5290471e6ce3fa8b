# What `cmake --install` puts in place: the programs, the libraries with their headers, and a package with which another
# project says find_package(TileKV) and links TileKV::tilekv (everything) or one library, such as TileKV::client.
include(CMakePackageConfigHelpers)

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/TileKV)

# Libraries of the product: not those of the programs (the server, the command line), whose headers are private.
add_library(tilekv_all INTERFACE)
set(_installed tilekv_all)
get_property(_libraries GLOBAL PROPERTY TILEKV_LIBRARIES)
foreach(_library IN LISTS _libraries)
  get_target_property(_folder ${_library} SOURCE_DIR)
  file(RELATIVE_PATH _folder ${PROJECT_SOURCE_DIR} ${_folder})
  if(NOT _folder MATCHES "^(server|client/cli|tests)|(^|/)testing")
    string(REGEX REPLACE "^tilekv_" "" _export_name ${_library})
    set_target_properties(${_library} PROPERTIES EXPORT_NAME ${_export_name})
    target_link_libraries(tilekv_all INTERFACE ${_library})
    list(APPEND _installed ${_library})
  endif()
endforeach()
set_target_properties(tilekv_all PROPERTIES EXPORT_NAME tilekv)
install(TARGETS ${_installed} EXPORT TileKVTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# The names of the package are good inside the project too.
add_library(TileKV::tilekv ALIAS tilekv_all)

foreach(_program tilekv tilekv-server)
  if(TARGET ${_program})
    install(TARGETS ${_program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

install(CODE "
  set(TILEKV_SOURCE_DIR \"${PROJECT_SOURCE_DIR}\")
  set(TILEKV_PROTO_DIR \"${PROJECT_BINARY_DIR}/proto\")
  set(TILEKV_INCLUDE_DIR \"${CMAKE_INSTALL_INCLUDEDIR}/tilekv\")")
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/InstallHeaders.cmake)

install(EXPORT TileKVTargets NAMESPACE TileKV:: DESTINATION ${_package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/TileKVConfig.cmake.in TileKVConfig.cmake
                              INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(TileKVConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/TileKVConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/TileKVConfigVersion.cmake
        DESTINATION ${_package_dir})
