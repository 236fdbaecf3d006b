# Run by the build: writes the files of the flash panel as arrays of bytes, and as files for its tests.
#   cmake -DSOURCES=apps/flash -DLIBRARIES=<node_modules> -DOUT=flash_files.cpp -DFOLDER=<folder> -P make_flash.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/page_parts.cmake")

# The file in FOLDER becomes part of `arrays` and `table`.
function(add_file name content_type)
    file(READ "${FOLDER}/${name}" bytes HEX)
    file(SIZE "${FOLDER}/${name}" size)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(MAKE_C_IDENTIFIER "${name}" identifier)
    string(APPEND arrays "const unsigned char ${identifier}[] = {${bytes}};\n")
    string(APPEND table "    {\"${name}\", \"${content_type}\", ${identifier}, ${size}},\n")
    set(arrays "${arrays}" PARENT_SCOPE)
    set(table "${table}" PARENT_SCOPE)
endfunction()

read_page(flash.html page)
file(WRITE "${FOLDER}/flash" "${page}")
foreach(name flash-worker.js flash.webmanifest flash-icon-192.png flash-icon-512.png)
    configure_file("${SOURCES}/${name}" "${FOLDER}/${name}" COPYONLY)
endforeach()

add_file(flash "text/html; charset=utf-8")
add_file(flash-worker.js "text/javascript; charset=utf-8")
add_file(flash.webmanifest "application/manifest+json")
add_file(flash-icon-192.png "image/png")
add_file(flash-icon-512.png "image/png")

file(WRITE "${OUT}" "// Made by cmake/make_flash.cmake.

#include \"flash_files.h\"

namespace sluice::flash {

namespace {

${arrays}
const FlashFile files[] = {
${table}};

} // namespace

std::span<const FlashFile> flash_files() {
    return files;
}

} // namespace sluice::flash
")
