# How every target of ours is built: one place for flags, warnings and sanitizers.

add_library(tilekv_flags INTERFACE)
target_compile_options(tilekv_flags INTERFACE
  -Wall -Wextra -Werror -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  # g++ 12 sees overlapping copies inside std::string where there are none (its bug 105329), once it optimises.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_include_directories(tilekv_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
# The API of Debian's RocksDB is found with RTTI; assertions of ours (TILEKV_CHECK) stay on in every build.
if(TILEKV_SANITIZE)
  add_compile_options(-fsanitize=${TILEKV_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TILEKV_SANITIZE})
endif()

# tilekv_library(NAME SOURCES a.cc ... DEPS lib ...): a static library that goes into the installed package.
function(tilekv_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE $<BUILD_INTERFACE:tilekv_flags>)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tilekv>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  set_property(GLOBAL APPEND PROPERTY TILEKV_LIBRARIES ${name})
endfunction()

# What `ctest -L unit` runs, and no more: the sanitizer builds of CI build this target. Each builds and runs, too,
# what has its name for a label.
if(BUILD_TESTING)
  add_custom_target(unit_tests)
  add_custom_target(asan_tests)
  add_custom_target(tsan_tests)
endif()

# tilekv_test(NAME SOURCES a_test.cc ... DEPS lib ... [LABELS unit]): one gtest program, one ctest entry.
# Label `unit` (the default) also runs in the sanitizer builds of CI; `integration` starts processes or takes long, and runs
# there where `asan` or `tsan` says so.
function(tilekv_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} tilekv_flags GTest::gtest_main GTest::gmock)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  foreach(label IN ITEMS unit asan tsan)
    if(label IN_LIST ARG_LABELS)
      add_dependencies(${label}_tests ${name})
    endif()
  endforeach()
endfunction()
