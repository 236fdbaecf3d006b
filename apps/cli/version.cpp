#include "version.h"

#include "ggml-cpu.h"

#include <fmt/format.h>
#include <utility>

namespace sluice::cli {

namespace {

std::string processor_features() {
    const std::pair<const char *, int (*)()> features[] = {{"SSE3", ggml_cpu_has_sse3},
                                                           {"SSSE3", ggml_cpu_has_ssse3},
                                                           {"AVX", ggml_cpu_has_avx},
                                                           {"AVX-VNNI", ggml_cpu_has_avx_vnni},
                                                           {"AVX2", ggml_cpu_has_avx2},
                                                           {"BMI2", ggml_cpu_has_bmi2},
                                                           {"F16C", ggml_cpu_has_f16c},
                                                           {"FMA", ggml_cpu_has_fma},
                                                           {"AVX-512", ggml_cpu_has_avx512},
                                                           {"AVX-512-VBMI", ggml_cpu_has_avx512_vbmi},
                                                           {"AVX-512-VNNI", ggml_cpu_has_avx512_vnni},
                                                           {"AVX-512-BF16", ggml_cpu_has_avx512_bf16},
                                                           {"AMX-INT8", ggml_cpu_has_amx_int8},
                                                           {"NEON", ggml_cpu_has_neon},
                                                           {"FMA", ggml_cpu_has_arm_fma},
                                                           {"FP16", ggml_cpu_has_fp16_va},
                                                           {"dot product", ggml_cpu_has_dotprod},
                                                           {"I8MM", ggml_cpu_has_matmul_int8},
                                                           {"SVE", ggml_cpu_has_sve},
                                                           {"SME", ggml_cpu_has_sme},
                                                           {"RVV", ggml_cpu_has_riscv_v},
                                                           {"VSX", ggml_cpu_has_vsx},
                                                           {"VXE", ggml_cpu_has_vxe}};
    std::string names;
    for (const auto &[name, has] : features) {
        if (has() != 0) {
            names += (names.empty() ? "" : ", ") + std::string(name);
        }
    }
    return names.empty() ? "none" : names;
}

} // namespace

std::string version_text() {
    return fmt::format("sluice {}\nllama.cpp: {}\nprocessor features built for: {}\nbarriers: {}",
                       SLUICE_VERSION, SLUICE_LLAMA_TREE, processor_features(), SLUICE_BARRIERS);
}

} // namespace sluice::cli
