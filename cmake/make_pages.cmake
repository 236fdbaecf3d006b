# Run by the build: puts each page's styles and scripts into it, so that it needs no other file and no
# network, and writes all pages as string literals.
#   cmake -DSOURCES=apps/report -DLIBRARIES=<node_modules> -DOUT=pages.cpp -P make_pages.cmake
# What goes in is named by the page: <link rel="stylesheet" href="FILE">, <script src="FILE"></script>, and
# <!-- licence: FILE -->. "npm:" before FILE means a file of a library.
cmake_minimum_required(VERSION 3.25)

set(literal_end ")sluicepage\"")

function(read_part name breakers out)
    if(name MATCHES "^npm:(.*)$")
        file(READ "${LIBRARIES}/${CMAKE_MATCH_1}" text)
    else()
        file(READ "${SOURCES}/${name}" text)
    endif()
    # Browsers would look for the source map; there is none.
    string(REGEX REPLACE "//# sourceMappingURL=[^\n]*\n?" "" text "${text}")
    string(STRIP "${text}" text)
    foreach(breaker IN LISTS breakers)
        string(FIND "${text}" "${breaker}" at)
        if(NOT at EQUAL -1)
            message(FATAL_ERROR "${name} has '${breaker}' in it and cannot be put into a page")
        endif()
    endforeach()
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Replaces every element of `page` that matches `pattern`, which captures FILE, by before + FILE's text + after.
# Text that has one of `breakers` in it would end its element early.
function(put_in pattern before after breakers)
    string(REGEX MATCHALL "${pattern}" elements "${page}")
    foreach(element IN LISTS elements)
        string(REGEX MATCH "${pattern}" unused "${element}")
        read_part("${CMAKE_MATCH_1}" "${breakers};${literal_end}" text)
        string(REPLACE "${element}" "${before}${text}${after}" page "${page}")
    endforeach()
    set(page "${page}" PARENT_SCOPE)
endfunction()

function(make_page name function)
    file(READ "${SOURCES}/${name}" page)
    put_in("<link rel=\"stylesheet\" href=\"([^\"]*)\">" "<style>\n" "\n</style>" "</style")
    put_in("<script src=\"([^\"]*)\"></script>" "<script>\n" "\n</script>" "</script;<!--")
    put_in("<!-- licence: ([^ ]*) -->" "<!--\n" "\n-->" "-->")
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
