# Run by the build: copies the chat page, with a link to the flash panel laid beside what the page draws. Upstream's page
# is built from its sources as they are; this is done to the copy that is embedded.
#   cmake -DFROM=<dist> -DTO=<dist> -P link_flash.cmake
cmake_minimum_required(VERSION 3.25)
set(link "<a id=\"sluice-flash\" href=\"flash\" title=\"What streaming does: speed, cache, reads\" \
style=\"position:fixed;right:.25rem;top:.25rem;z-index:40;padding:.5rem;font:12px/1.5 system-ui,sans-serif;color:#767676\">flash</a>")
file(REMOVE_RECURSE "${TO}")
file(COPY "${FROM}/" DESTINATION "${TO}")
file(READ "${TO}/index.html" page)
string(REGEX MATCHALL "</body>" ends "${page}")
list(LENGTH ends count)
if(NOT count EQUAL 1)
    message(FATAL_ERROR "${FROM}/index.html has ${count} ends of its body: where is the link to the flash panel to go?")
endif()
string(REPLACE "</body>" "${link}</body>" page "${page}")
file(WRITE "${TO}/index.html" "${page}")
