# Stock llama.cpp, built as static libraries inside our build. Nothing in its tree is changed.
if(NOT EXISTS "${SLUICE_LLAMA_CPP_DIR}/include/llama.h")
    message(FATAL_ERROR "No llama.cpp in ${SLUICE_LLAMA_CPP_DIR}: run scripts/get-llama.sh, "
                        "or pass -DSLUICE_LLAMA_CPP_DIR=<tree of llama.cpp v0.5.0>")
endif()

# GCC 12's _tile_loadconfig declares that it reads 8 bytes of the 64-byte tile configuration. The
# compiler then drops the stores to the other 56, and ggml's AMX kernels (Q4_K, Q8_0 among others) fault.
# AVX-512 and VNNI stay on; only AMX is left out, and only for compilers with that header.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 13
   AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options(-mno-amx-tile -mno-amx-int8 -mno-amx-bf16)
endif()

find_package(OpenSSL 3.0 QUIET)
set(BUILD_SHARED_LIBS OFF CACHE BOOL "" FORCE)
set(GGML_OPENMP ${SLUICE_OPENMP} CACHE BOOL "" FORCE)
set(GGML_CCACHE OFF CACHE BOOL "" FORCE) # the launcher above serves both
set(LLAMA_BUILD_COMMON ON CACHE BOOL "" FORCE)
set(LLAMA_BUILD_TESTS OFF CACHE BOOL "" FORCE)
set(LLAMA_BUILD_TOOLS OFF CACHE BOOL "" FORCE)
set(LLAMA_BUILD_EXAMPLES OFF CACHE BOOL "" FORCE)
set(LLAMA_BUILD_SERVER OFF CACHE BOOL "" FORCE)
set(LLAMA_BUILD_MTMD ON CACHE BOOL "" FORCE) # the library alone; what is not wanted is not built
set(LLAMA_BUILD_APP OFF CACHE BOOL "" FORCE)
set(LLAMA_BUILD_UI OFF CACHE BOOL "" FORCE)
set(LLAMA_USE_PREBUILT_UI OFF CACHE BOOL "" FORCE)
set(LLAMA_OPENSSL ${OPENSSL_FOUND} CACHE BOOL "" FORCE) # for -hf, which fetches models by https
set(LLAMA_ALL_WARNINGS OFF CACHE BOOL "" FORCE)
set(GGML_ALL_WARNINGS OFF CACHE BOOL "" FORCE)

add_subdirectory("${SLUICE_LLAMA_CPP_DIR}" "${CMAKE_BINARY_DIR}/llama.cpp" EXCLUDE_FROM_ALL SYSTEM)

# ggml's back-end interface (ggml-backend-impl.h, ggml-impl.h) is not installed: it comes with the tree.
add_library(sluice_ggml_internal INTERFACE)
target_include_directories(sluice_ggml_internal SYSTEM INTERFACE "${SLUICE_LLAMA_CPP_DIR}/ggml/src")
target_link_libraries(sluice_ggml_internal INTERFACE llama ggml)
