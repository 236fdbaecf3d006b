# For those who have an NDK (ANDROID_NDK_HOME, or ANDROID_NDK): its own toolchain, with what Sluice wants of it. Unmeasured:
# no NDK was at hand (docs/android.md).
set(ndk "$ENV{ANDROID_NDK_HOME}")
if(NOT ndk)
    set(ndk "$ENV{ANDROID_NDK}")
endif()
if(NOT EXISTS "${ndk}/build/cmake/android.toolchain.cmake")
    message(FATAL_ERROR "No NDK: set ANDROID_NDK_HOME to its folder, or use the preset android-musl (scripts/build-android.sh)")
endif()
set(ANDROID_ABI arm64-v8a)
set(ANDROID_PLATFORM android-26)
set(ANDROID_STL c++_static)
set(ANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES ON) # pages of 16 KiB, new phones'

# The NDK's OpenMP runtime, linked statically: its barriers sleep.
set(OpenMP_C_FLAGS "-fopenmp -static-openmp" CACHE STRING "")
set(OpenMP_CXX_FLAGS "-fopenmp -static-openmp" CACHE STRING "")
set(SLUICE_IO_URING OFF CACHE BOOL "An app is killed for asking")
set(GGML_NATIVE OFF CACHE BOOL "")
list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/headers")
include("${ndk}/build/cmake/android.toolchain.cmake")
