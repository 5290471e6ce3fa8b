# Run by `cmake --install`: copies the public headers below and what they include of the project; the rest stays private.
# Set before: TILEKV_SOURCE_DIR, TILEKV_PROTO_DIR (generated headers), TILEKV_INCLUDE_DIR (destination in the prefix).
cmake_policy(VERSION 3.23)

set(_pending
  client/connect.h
  kvstore/kv_store.h
  kvstore/model_name.h
  kvstore/base/sizes.h
  tensor_chunking/model_files.h
  tensor_chunking/model_reader.h
  tensor_chunking/model_writer.h)

set(_seen ${_pending})
while(_pending)
  list(POP_FRONT _pending _header)
  set(_source ${TILEKV_SOURCE_DIR}/${_header})
  if(NOT EXISTS ${_source})
    set(_source ${TILEKV_PROTO_DIR}/${_header})
  endif()
  get_filename_component(_folder ${_header} DIRECTORY)
  file(INSTALL ${_source} DESTINATION ${CMAKE_INSTALL_PREFIX}/${TILEKV_INCLUDE_DIR}/${_folder})

  file(STRINGS ${_source} _lines REGEX "^#include \"")
  foreach(_line IN LISTS _lines)
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" _included "${_line}")
    if(NOT _included IN_LIST _seen AND (EXISTS ${TILEKV_SOURCE_DIR}/${_included} OR EXISTS ${TILEKV_PROTO_DIR}/${_included}))
      list(APPEND _seen ${_included})
      list(APPEND _pending ${_included})
    endif()
  endforeach()
endwhile()
