# The preset "fuzz": clang's libFuzzer against what reads files and words of others (tests/fuzz).
if(SLUICE_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "SLUICE_FUZZ needs clang: cmake --preset fuzz")
    endif()
    enable_testing()
    add_subdirectory("${PROJECT_SOURCE_DIR}/tests/fuzz" "${CMAKE_BINARY_DIR}/fuzz")
endif()
