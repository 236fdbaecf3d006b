include("${CMAKE_CURRENT_LIST_DIR}/header_library.cmake")
header_library(fmt fmt fmt::fmt FMT_HEADER_ONLY)
header_library(fmt fmt fmt::fmt-header-only FMT_HEADER_ONLY)
