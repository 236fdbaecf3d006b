# The HTML pages that the program carries: sluice_pages(target) adds those of 'sluice report' and 'sluice routes' to it,
# sluice_flash_files(target) the flash panel's; or they say that there are none.
set(page_sources "${PROJECT_SOURCE_DIR}/apps/report")
set(page_libraries "${PROJECT_SOURCE_DIR}/third_party/page-libraries")

# The libraries are there, and they are the pinned ones.
function(find_page_libraries found)
    set(${found} OFF PARENT_SCOPE)
    if(EXISTS "${page_libraries}/package-lock.json")
        file(READ "${page_sources}/package-lock.json" pinned)
        file(READ "${page_libraries}/package-lock.json" present)
        if(pinned STREQUAL present)
            set(${found} ON PARENT_SCOPE)
        endif()
    endif()
endfunction()

function(sluice_pages target)
    find_page_libraries(found)
    if(NOT found)
        message(STATUS "Without the pages of 'sluice report' and 'sluice routes': "
                       "scripts/get-page-libraries.sh fetches what they need (from npm)")
        target_sources(${target} PRIVATE no_pages.cpp)
        return()
    endif()
    set(pages "${CMAKE_CURRENT_BINARY_DIR}/pages.cpp")
    file(GLOB parts "${page_sources}/*.html" "${page_sources}/*.css" "${page_sources}/*.js")
    add_custom_command(OUTPUT "${pages}"
        COMMAND "${CMAKE_COMMAND}" -DSOURCES=${page_sources} -DLIBRARIES=${page_libraries}/node_modules
                -DOUT=${pages} -P "${PROJECT_SOURCE_DIR}/cmake/make_pages.cmake"
        DEPENDS ${parts} "${page_libraries}/package-lock.json" "${PROJECT_SOURCE_DIR}/cmake/make_pages.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/page_parts.cmake"
        COMMENT "Making the report pages" VERBATIM)
    target_sources(${target} PRIVATE "${pages}")
    target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}") # the made file is elsewhere
endfunction()

# Where the flash panel's files are as well, for its tests.
set(SLUICE_FLASH_FILES "${PROJECT_BINARY_DIR}/flash-files")

function(sluice_flash_files target)
    set(folder "${PROJECT_SOURCE_DIR}/apps/flash")
    target_include_directories(${target} PUBLIC "${folder}")
    find_page_libraries(found)
    if(NOT found)
        target_sources(${target} PRIVATE "${folder}/no_flash_files.cpp")
        return()
    endif()
    set(files "${CMAKE_CURRENT_BINARY_DIR}/flash_files.cpp")
    file(GLOB parts "${folder}/flash*" "${folder}/*.css" "${folder}/*.js" "${page_sources}/*.css" "${page_sources}/*.js")
    add_custom_command(OUTPUT "${files}"
        COMMAND "${CMAKE_COMMAND}" -DSOURCES=${folder} -DLIBRARIES=${page_libraries}/node_modules -DOUT=${files}
                -DFOLDER=${SLUICE_FLASH_FILES} -P "${PROJECT_SOURCE_DIR}/cmake/make_flash.cmake"
        DEPENDS ${parts} "${page_libraries}/package-lock.json" "${PROJECT_SOURCE_DIR}/cmake/make_flash.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/page_parts.cmake"
        COMMENT "Making the flash panel" VERBATIM)
    target_sources(${target} PRIVATE "${files}")
endfunction()
