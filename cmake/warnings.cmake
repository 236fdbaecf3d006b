# Flags for our own targets only.
function(sluice_own_target target)
    target_compile_options(${target} PRIVATE -Wall -Wextra)
    if(SLUICE_WARNINGS_AS_ERRORS)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    if(SLUICE_SANITIZE STREQUAL "address")
        target_compile_options(${target} PRIVATE -fsanitize=undefined -fno-sanitize-recover=undefined)
        if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
            # With the instrumentation GCC 12 takes std::regex's and std::function's own members for uninitialized.
            target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
        endif()
    endif()
    if(SLUICE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # GCC warns that TSan does not model atomic_thread_fence wherever the standard library has one.
        target_compile_options(${target} PRIVATE -Wno-tsan)
    endif()
endfunction()
