# cmake --install: the program with its model, and the C interface as a static library with the llama.cpp it was built
# with, for CMake (find_package(sluice)) and pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS sluice RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)
install(FILES "${PROJECT_SOURCE_DIR}/models/tiny-moe-stories-54m-Q4_K_M.gguf"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/sluice/models" COMPONENT program)
install(FILES LICENSE NOTICE THIRD_PARTY_NOTICES.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT program)
install(FILES include/sluice/sluice.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sluice")

# llama.cpp's own install rules would put its tools and its package there, too.
set(private_libraries "${CMAKE_INSTALL_LIBDIR}/sluice")
set(private_headers "${CMAKE_INSTALL_INCLUDEDIR}/sluice/llama.cpp")
set(archives llama-common llama-common-base cpp-httplib llama ggml ggml-cpu ggml-base)
foreach(target IN ITEMS sluice_lib ${archives})
    install(FILES "$<TARGET_FILE:${target}>" DESTINATION "${private_libraries}")
    list(APPEND archive_names "$<TARGET_FILE_NAME:${target}>")
endforeach()
install(DIRECTORY "${SLUICE_LLAMA_CPP_DIR}/include/" "${SLUICE_LLAMA_CPP_DIR}/ggml/include/"
    DESTINATION "${private_headers}" FILES_MATCHING PATTERN "*.h")

# What an application links besides. The runtime of the barriers is linked statically, as in our own programs: with the
# object that lets them sleep.
set(system_libraries "-lfmt;-lpthread;-ldl;-lm;-lstdc++")
if(SLUICE_IO_URING)
    list(APPEND system_libraries -luring)
endif()
if(OPENSSL_FOUND)
    list(APPEND system_libraries -lssl -lcrypto)
endif()
if(SLUICE_OPENMP)
    add_library(sluice_barriers STATIC $<TARGET_OBJECTS:sluice_sleeping_barriers>)
    set_target_properties(sluice_barriers PROPERTIES LINKER_LANGUAGE CXX)
    install(FILES "$<TARGET_FILE:sluice_barriers>" DESTINATION "${private_libraries}")
    if(OpenMP_gomp_LIBRARY)
        install(FILES "${OpenMP_gomp_LIBRARY}" DESTINATION "${private_libraries}")
        set(runtime_archive "libgomp.a")
    else()
        list(APPEND system_libraries ${OpenMP_CXX_FLAGS})
    endif()
endif()
list(JOIN system_libraries " " system_libraries_line)
set(pc_runtime "")
if(SLUICE_OPENMP)
    set(pc_runtime "-Wl,--whole-archive -l:libsluice_barriers.a -Wl,--no-whole-archive ${runtime_archive}")
    string(REPLACE "libgomp.a" "-l:libgomp.a" pc_runtime "${pc_runtime}")
endif()

configure_package_config_file(cmake/sluice-config.cmake.in "${CMAKE_BINARY_DIR}/sluice-config.cmake.part"
    INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/sluice"
    PATH_VARS private_libraries private_headers CMAKE_INSTALL_INCLUDEDIR)
file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/sluice-config.cmake" INPUT "${CMAKE_BINARY_DIR}/sluice-config.cmake.part")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/sluice-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/sluice-config.cmake" "${CMAKE_BINARY_DIR}/sluice-config-version.cmake"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/sluice")

file(RELATIVE_PATH prefix_from_pc "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
configure_file(cmake/sluice.pc.in "${CMAKE_BINARY_DIR}/sluice.pc.part" @ONLY)
file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/sluice.pc" INPUT "${CMAKE_BINARY_DIR}/sluice.pc.part")
install(FILES "${CMAKE_BINARY_DIR}/sluice.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
