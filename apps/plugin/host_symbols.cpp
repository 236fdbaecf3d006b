#include "host_symbols.h"

#include "host_symbol_list.h"

#include <cstring>
#include <dlfcn.h>

// A jump through a variable, with the landing pad that processors may ask for at the start of a function. It
// touches nothing that arguments are in.
#if defined(__x86_64__)
#define SLUICE_JUMP(name) "endbr64\n jmp *sluice_host_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define SLUICE_JUMP(name)                                                                                    \
    "hint #34\n adrp x16, sluice_host_" #name "\n ldr x16, [x16, :lo12:sluice_host_" #name "]\n br x16\n"
#else
#error "The plug-in has no jump for this processor"
#endif

#define SLUICE_DEFINE(name, initial)                                                                         \
    extern "C" {                                                                                             \
    __attribute__((visibility("hidden"), used)) const void *sluice_host_##name = initial;                    \
    }                                                                                                        \
    asm(".pushsection .text\n.globl " #name "\n.hidden " #name "\n.type " #name ", %function\n" #name        \
        ":\n" SLUICE_JUMP(name) ".size " #name ", .-" #name "\n.popsection\n");

namespace {

/// In the place of a kernel: leaves the result unwritten, so a trial of it fails.
void no_kernel() {
}

} // namespace

#define SLUICE_DEFINE_SYMBOL(name) SLUICE_DEFINE(name, nullptr)
#define SLUICE_DEFINE_KERNEL(name) SLUICE_DEFINE(name, reinterpret_cast<const void *>(&no_kernel))
SLUICE_HOST_SYMBOLS(SLUICE_DEFINE_SYMBOL)
SLUICE_HOST_KERNELS(SLUICE_DEFINE_KERNEL)

namespace sluice::plugin {

namespace {

struct Symbol {
    const char *name;
    const void **address;
};

#define SLUICE_ROW(name) {#name, &sluice_host_##name},
constexpr Symbol kSymbols[] = {SLUICE_HOST_SYMBOLS(SLUICE_ROW)};
constexpr Symbol kKernels[] = {SLUICE_HOST_KERNELS(SLUICE_ROW)};

const void *find(const HostLibraries &libraries, const char *name) {
    for (void *library : {libraries.registry, libraries.cpu}) {
        if (const void *address = library == nullptr ? nullptr : ::dlsym(library, name)) {
            return address;
        }
    }
    return nullptr;
}

} // namespace

void bind_host_symbols(const HostLibraries &libraries) {
    for (const Symbol &symbol : kSymbols) {
        if (*symbol.address == nullptr) {
            *symbol.address = find(libraries, symbol.name);
        }
    }
    for (const Symbol &kernel : kKernels) {
        if (const void *address = find(libraries, kernel.name)) {
            *kernel.address = address;
        }
    }
}

std::string missing_host_symbol() {
    for (const Symbol &symbol : kSymbols) {
        if (*symbol.address == nullptr) {
            return symbol.name;
        }
    }
    return {};
}

const void *host_symbol(const char *name) {
    for (const Symbol &symbol : kSymbols) {
        if (std::strcmp(symbol.name, name) == 0) {
            return *symbol.address;
        }
    }
    return nullptr;
}

void *library_of(const void *address) {
    Dl_info facts{};
    if (::dladdr(address, &facts) == 0 || facts.dli_fname == nullptr) {
        return nullptr;
    }
    // A handle counts as a use; it is kept, as what we call must stay.
    void *library = ::dlopen(facts.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    // A program is found under no name, and what is in it under none as well.
    return library != nullptr ? library : ::dlopen(nullptr, RTLD_LAZY);
}

} // namespace sluice::plugin
