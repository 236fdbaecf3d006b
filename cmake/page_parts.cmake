# Included by the scripts that make pages: puts a page's styles and scripts into it, so that it needs no other file and
# no network. SOURCES is the folder of the page, LIBRARIES a node_modules.
# What goes in is named by the page: <link rel="stylesheet" href="FILE">, <script src="FILE"></script>, and
# <!-- licence: FILE -->. "npm:" before FILE means a file of a library.
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

# The page with all that it names in it, to the variable `out`.
function(read_page name out)
    file(READ "${SOURCES}/${name}" page)
    put_in("<link rel=\"stylesheet\" href=\"([^\"]*)\">" "<style>\n" "\n</style>" "</style")
    put_in("<script src=\"([^\"]*)\"></script>" "<script>\n" "\n</script>" "</script;<!--")
    put_in("<!-- licence: ([^ ]*) -->" "<!--\n" "\n-->" "-->")
    set(${out} "${page}" PARENT_SCOPE)
endfunction()
