# What is delivered beside the program (manual page, completions, bill of materials), and the Debian package: `cpack` in
# the build directory. The component "program" is what the package holds.
include("${CMAKE_CURRENT_LIST_DIR}/sbom.cmake")
install(FILES "${CMAKE_BINARY_DIR}/sluice.spdx.json" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT program)

# The program itself writes them, so they cannot be made for another system than the one that builds.
if(NOT CMAKE_CROSSCOMPILING)
    set(flag_pages_dir "${CMAKE_BINARY_DIR}/flag-pages")
    file(MAKE_DIRECTORY "${flag_pages_dir}")
    set(flag_pages "")
    # flag_page(argument of the program, file's name, where it is installed)
    function(flag_page page file destination)
        add_custom_command(OUTPUT "${flag_pages_dir}/${file}"
            COMMAND sluice flag-pages ${page} > "${flag_pages_dir}/${file}"
            DEPENDS sluice VERBATIM COMMENT "Writing ${file} from the flags")
        list(APPEND flag_pages "${flag_pages_dir}/${file}")
        set(flag_pages "${flag_pages}" PARENT_SCOPE)
        install(FILES "${flag_pages_dir}/${file}" DESTINATION "${destination}" COMPONENT program)
    endfunction()
    flag_page(manual sluice.1 "${CMAKE_INSTALL_MANDIR}/man1")
    flag_page(bash sluice "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
    flag_page(zsh _sluice "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions")
    flag_page(fish sluice.fish "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
    add_custom_target(flag_pages ALL DEPENDS ${flag_pages})
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_CONTACT "The Sluice authors <sluice@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "runs Mixture-of-Experts language models larger than memory")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};sluice;program;/")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Experts are streamed from flash as tokens ask for them, with the logits of\n llama.cpp. `sluice --version` names the processor features it was built for.")
include(CPack)
