include("${CMAKE_CURRENT_LIST_DIR}/header_library.cmake")
header_library(tl-expected tl tl::expected)
