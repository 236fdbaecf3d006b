# A static program for arm64 Android made with zig and its C library (musl): scripts/build-android.sh. It needs nothing of
# Android at run time but the kernel, and makes only system calls that an app may make (scripts/check-syscalls.sh).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(zig_tools "${CMAKE_CURRENT_LIST_DIR}/zig")
set(CMAKE_C_COMPILER "${zig_tools}/cc")
set(CMAKE_CXX_COMPILER "${zig_tools}/c++")
set(CMAKE_AR "${zig_tools}/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "${zig_tools}/ranlib" CACHE FILEPATH "")

# _LARGEFILE64_SOURCE: llama.cpp asks for off64_t. Pages of 16 KiB are new phones'.
set(CMAKE_C_FLAGS_INIT "-D_LARGEFILE64_SOURCE -fPIE")
set(CMAKE_CXX_FLAGS_INIT "-D_LARGEFILE64_SOURCE -fPIE")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static -pie -s -Wl,-z,max-page-size=16384")

set(CMAKE_FIND_ROOT_PATH "${CMAKE_CURRENT_LIST_DIR}/none") # nothing of this machine
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/headers")

# ggml asks its compiler for "-march=armv8.2-a+dotprod+fp16" (GGML_CPU_ARM_ARCH); zig/cc says it in zig's words.
set(SLUICE_IO_URING OFF CACHE BOOL "An app is killed for asking") # and liburing is this machine's
set(SLUICE_OPENMP OFF CACHE BOOL "There is no OpenMP runtime for musl here")
set(GGML_NATIVE OFF CACHE BOOL "")
