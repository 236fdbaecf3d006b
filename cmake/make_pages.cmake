# Run by the build: writes the pages of 'sluice report' and 'sluice routes' as string literals.
#   cmake -DSOURCES=apps/report -DLIBRARIES=<node_modules> -DOUT=pages.cpp -P make_pages.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/page_parts.cmake")

function(make_page name function)
    read_page("${name}" page)
    # The program puts the data there; twice would be once too often.
    string(REGEX MATCHALL "@SLUICE_DATA@" markers "${page}")
    list(LENGTH markers count)
    if(NOT count EQUAL 1)
        message(FATAL_ERROR "${name} has ${count} places for data, not one")
    endif()
    string(APPEND code "\nstd::string_view ${function}() {\n    return R\"sluicepage(${page}${literal_end};\n}\n")
    set(code "${code}" PARENT_SCOPE)
endfunction()

set(code "// Made by cmake/make_pages.cmake.\n\n#include \"pages.h\"\n\nnamespace sluice::cli {\n")
make_page(report.html report_page)
make_page(routes.html routes_page)
string(APPEND code "\n} // namespace sluice::cli\n")
file(WRITE "${OUT}" "${code}")
