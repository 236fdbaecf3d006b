# llama.cpp is instrumented as well: TSan needs to see ggml's barriers, ASan its allocations.
# UBSan looks at our code only (see warnings.cmake): ggml's kernels shift and cast on purpose.
if(SLUICE_SANITIZE STREQUAL "address")
    add_compile_options(-fsanitize=address -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
elseif(SLUICE_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
    add_link_options(-fsanitize=thread)
elseif(SLUICE_SANITIZE)
    message(FATAL_ERROR "SLUICE_SANITIZE is '${SLUICE_SANITIZE}'; it may be empty, 'address' or 'thread'")
endif()
