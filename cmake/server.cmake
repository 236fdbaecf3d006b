# llama.cpp's own server and its interactive client, compiled from its tree as it is, for `sluice serve` and `sluice chat`.
# Only the program links them: the library, tests and benchmarks do without.
#
# Upstream's files include the same large headers each, and compiling those is most of what they take. Several files at a
# time (unity builds) halve it: docs/server.md has the numbers.
option(SLUICE_SERVER "Build llama.cpp's server and client into the sluice program" ON)
set(unity UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)

# Names of these files clash with others'.
function(compile_alone target folder)
    list(TRANSFORM ARGN PREPEND "${folder}/")
    set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

set_target_properties(llama-common PROPERTIES ${unity})
compile_alone(llama-common "${SLUICE_LLAMA_CPP_DIR}/common" json.cpp jinja/lexer.cpp jinja/parser.cpp jinja/runtime.cpp)
if(NOT SLUICE_SERVER)
    return()
endif()

set(llama_tools "${SLUICE_LLAMA_CPP_DIR}/tools")
set_target_properties(mtmd PROPERTIES ${unity})
compile_alone(mtmd "${llama_tools}/mtmd" mtmd-helper.cpp mtmd-helper-gen.cpp)

# The chat page, with a link to the flash panel, embedded by upstream's own script; without it the script makes the same
# file with no pages.
set(chat_page "${PROJECT_SOURCE_DIR}/third_party/chat-page")
set(embedded_page "${CMAKE_BINARY_DIR}/chat-page")
set(linked_page "${CMAKE_BINARY_DIR}/linked-chat-page")
file(GLOB_RECURSE page_files CONFIGURE_DEPENDS "${chat_page}/dist/*")
find_page_libraries(has_flash)
if(page_files AND has_flash)
    set(link_flash "${CMAKE_COMMAND}" -DFROM=${chat_page}/dist -DTO=${linked_page}/dist -P "${PROJECT_SOURCE_DIR}/cmake/link_flash.cmake")
else()
    set(linked_page "${chat_page}")
    set(link_flash "${CMAKE_COMMAND}" -E true)
endif()
add_custom_command(OUTPUT "${embedded_page}/ui.cpp" "${embedded_page}/ui.h"
    COMMAND ${link_flash}
    COMMAND "${CMAKE_COMMAND}" -DUI_SOURCE_DIR=${linked_page} -DUI_BINARY_DIR=${embedded_page}
            -DLLAMA_SOURCE_DIR=${SLUICE_LLAMA_CPP_DIR} -DLLAMA_UI_GZIP=ON -DHF_ENABLED=OFF -DBUILD_UI=OFF
            -P "${SLUICE_LLAMA_CPP_DIR}/scripts/ui-assets.cmake"
    DEPENDS ${page_files} "${SLUICE_LLAMA_CPP_DIR}/scripts/ui-assets.cmake" "${PROJECT_SOURCE_DIR}/cmake/link_flash.cmake"
    COMMENT "Embedding the chat page" VERBATIM)

file(GLOB server_sources "${llama_tools}/server/server*.cpp" "${llama_tools}/cli/cli*.cpp")
add_library(sluice_llama_server STATIC EXCLUDE_FROM_ALL ${server_sources} "${embedded_page}/ui.cpp" "${embedded_page}/ui.h")
set_target_properties(sluice_llama_server PROPERTIES ${unity})
compile_alone(sluice_llama_server "${llama_tools}/server" server.cpp server-http.cpp server-context.cpp)
compile_alone(sluice_llama_server "${embedded_page}" ui.cpp)
# Where Sluice takes part (see the headers).
set(hooks "${PROJECT_SOURCE_DIR}/apps/serve")
set_source_files_properties("${llama_tools}/server/server.cpp" TARGET_DIRECTORY sluice_llama_server PROPERTIES
    COMPILE_OPTIONS "-include;${hooks}/server_hook.h" OBJECT_DEPENDS "${hooks}/server_hook.h")
set_source_files_properties("${llama_tools}/server/server-http.cpp" TARGET_DIRECTORY sluice_llama_server PROPERTIES
    COMPILE_OPTIONS "-include;${hooks}/http_hook.h" OBJECT_DEPENDS "${hooks}/http_hook.h")
set_source_files_properties("${llama_tools}/server/server-context.cpp" TARGET_DIRECTORY sluice_llama_server PROPERTIES
    COMPILE_OPTIONS "-include;${hooks}/decode_hook.h" OBJECT_DEPENDS "${hooks}/decode_hook.h")
target_include_directories(sluice_llama_server SYSTEM PUBLIC
    "${llama_tools}/server" "${llama_tools}/cli" "${llama_tools}/mtmd" "${SLUICE_LLAMA_CPP_DIR}" "${embedded_page}")
target_link_libraries(sluice_llama_server PUBLIC llama-common mtmd cpp-httplib Threads::Threads)
if(EXISTS "${chat_page}/dist/index.html")
    target_compile_definitions(sluice_llama_server PUBLIC SLUICE_HAVE_CHAT_PAGE)
else()
    message(STATUS "Without the chat page of 'sluice serve': scripts/get-chat-page.sh makes it (with npm)")
endif()
