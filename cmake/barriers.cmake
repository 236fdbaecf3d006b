# ggml's compute threads wait for each other at barriers. With an OpenMP runtime they sleep there after a few
# microseconds; ggml's own pool spins for ever (docs/threads.md). Included before llama.cpp, whose ggml asks for OpenMP.
#
# ThreadSanitizer does not know the runtime's locks and would report every barrier; there ggml keeps its own pool.
if(SLUICE_SANITIZE STREQUAL "thread")
    set(SLUICE_OPENMP_DEFAULT OFF)
else()
    set(SLUICE_OPENMP_DEFAULT ON)
endif()

# GCC's runtime is linked statically: a shared one would be loaded, and would read its environment, before any code
# of the program runs. FindOpenMP takes this variable for the library's place.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT OpenMP_gomp_LIBRARY)
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libgomp.a
        OUTPUT_VARIABLE static_gomp OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(IS_ABSOLUTE "${static_gomp}")
        set(OpenMP_gomp_LIBRARY "${static_gomp}" CACHE FILEPATH "GCC's OpenMP runtime, static")
    else()
        set(SLUICE_OPENMP_DEFAULT OFF)
    endif()
endif()

if(SLUICE_OPENMP_DEFAULT)
    find_package(OpenMP QUIET)
    if(NOT OpenMP_C_FOUND OR NOT OpenMP_CXX_FOUND)
        set(SLUICE_OPENMP_DEFAULT OFF)
    endif()
endif()
option(SLUICE_OPENMP "Let compute threads wait in an OpenMP runtime's barriers, which sleep" ${SLUICE_OPENMP_DEFAULT})
if(NOT SLUICE_OPENMP AND NOT SLUICE_SANITIZE STREQUAL "thread")
    message(STATUS "No OpenMP: compute threads that wait spin, and streaming is slower where a core is wanted by others")
endif()

# A program of ours: the flags of our own targets, and barriers that sleep.
add_library(sluice_sleeping_barriers OBJECT "${PROJECT_SOURCE_DIR}/src/platform/sleeping_barriers.cpp")
target_include_directories(sluice_sleeping_barriers PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_compile_features(sluice_sleeping_barriers PRIVATE cxx_std_20)
function(sluice_program target)
    sluice_own_target(${target})
    if(SLUICE_OPENMP)
        target_link_libraries(${target} PRIVATE sluice_sleeping_barriers)
    endif()
endfunction()
