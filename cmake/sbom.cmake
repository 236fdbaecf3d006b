# The bill of materials, SPDX 2.3 in JSON: what is linked into the program of this build, with version and licence.
# tests/delivery_test.cpp holds it against the shared libraries that the program asks for.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
    string(TIMESTAMP sbom_created "%Y-%m-%dT%H:%M:%SZ" UTC) # CMake takes the time from that variable
else()
    execute_process(COMMAND git -C "${PROJECT_SOURCE_DIR}" log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ
        OUTPUT_VARIABLE sbom_created OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT sbom_created)
        set(sbom_created "1970-01-01T00:00:00Z")
    endif()
endif()
set(sbom_packages "")
set(sbom_relations "")

# sbom_package(name version licence download comment [file names of its shared library])
function(sbom_package name version licence download comment)
    string(REGEX REPLACE "[^A-Za-z0-9.-]" "-" id "SPDXRef-${name}")
    list(JOIN ARGN " " libraries)
    if(libraries)
        set(comment "${comment}; shared: ${libraries}")
    endif()
    set(entry "    {\"SPDXID\": \"${id}\", \"name\": \"${name}\", \"versionInfo\": \"${version}\",
     \"licenseConcluded\": \"${licence}\", \"licenseDeclared\": \"${licence}\", \"copyrightText\": \"NOASSERTION\",
     \"downloadLocation\": \"${download}\", \"filesAnalyzed\": false, \"comment\": \"${comment}\"}")
    set(sbom_packages "${sbom_packages},\n${entry}" PARENT_SCOPE)
    set(sbom_relations "${sbom_relations},
    {\"spdxElementId\": \"SPDXRef-sluice\", \"relationshipType\": \"DEPENDS_ON\", \"relatedSpdxElement\": \"${id}\"}" PARENT_SCOPE)
endfunction()

sbom_package(llama.cpp "${SLUICE_LLAMA_TREE}" MIT "https://github.com/ggml-org/llama.cpp"
    "with ggml and what it brings (THIRD_PARTY_NOTICES.md), unmodified, linked statically")
sbom_package(fmt "${fmt_VERSION}" MIT "https://github.com/fmtlib/fmt" "formatting" libfmt)
sbom_package(CLI11 "${CLI11_VERSION}" BSD-3-Clause "https://github.com/CLIUtils/CLI11" "command line, headers only")
sbom_package(nlohmann-json "${nlohmann_json_VERSION}" MIT "https://github.com/nlohmann/json" "JSON, headers only")
sbom_package(tl-expected "${tl-expected_VERSION}" CC0-1.0 "https://github.com/TartanLlama/expected" "results, headers only")
if(SLUICE_IO_URING)
    sbom_package(liburing "${LIBURING_VERSION}" "MIT OR LGPL-2.1-only" "https://github.com/axboe/liburing"
        "reading" liburing)
endif()
if(OPENSSL_FOUND)
    sbom_package(OpenSSL "${OPENSSL_VERSION}" Apache-2.0 "https://www.openssl.org" "fetching models by https; shared"
        libssl libcrypto)
endif()
if(SLUICE_OPENMP AND OpenMP_gomp_LIBRARY)
    sbom_package(libgomp "${CMAKE_CXX_COMPILER_VERSION}" "GPL-3.0-or-later WITH GCC-exception-3.1" "https://gcc.gnu.org"
        "barriers, linked statically")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    sbom_package(libstdc++ "${CMAKE_CXX_COMPILER_VERSION}" "GPL-3.0-or-later WITH GCC-exception-3.1" "https://gcc.gnu.org"
        "C++ library and compiler's runtime" libstdc++ libgcc_s)
endif()
execute_process(COMMAND getconf GNU_LIBC_VERSION OUTPUT_VARIABLE libc OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(libc AND NOT CMAKE_CROSSCOMPILING)
    string(REPLACE "glibc " "" libc_version "${libc}")
    sbom_package(glibc "${libc_version}" LGPL-2.1-or-later "https://www.gnu.org/software/libc"
        "C library" libc libm libpthread libdl ld-linux)
endif()

file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/sluice.spdx.json" @ONLY CONTENT [[{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "sluice-@PROJECT_VERSION@",
  "documentNamespace": "https://spdx.org/spdxdocs/sluice-@PROJECT_VERSION@-@SLUICE_LLAMA_TREE_HASH@",
  "creationInfo": {"created": "@sbom_created@", "creators": ["Tool: cmake/sbom.cmake"]},
  "packages": [
    {"SPDXID": "SPDXRef-sluice", "name": "sluice", "versionInfo": "@PROJECT_VERSION@",
     "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
     "downloadLocation": "NOASSERTION", "filesAnalyzed": false}@sbom_packages@
  ],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-sluice"}@sbom_relations@
  ]
}
]])
