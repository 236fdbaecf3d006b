// ggml's functions, in the program that loaded us.
//
// The plug-in is linked with no ggml: the program's may be called anything, and its symbols need not be
// visible to us (Node loads its libraries so). So each function that we call is here a jump to an address
// that is looked up in the very libraries that the program computes with.
#pragma once

#include <string>

namespace sluice::plugin {

/// The libraries of one ggml; handles as of dlopen().
struct HostLibraries {
    void *registry = nullptr; ///< the one with ggml's registry, and what it was linked with
    void *cpu = nullptr;      ///< the one with the CPU backend
};

/// Looks in `libraries` for functions that are not found yet. Not thread-safe; before any use of ggml.
void bind_host_symbols(const HostLibraries &libraries);

/// The name of a function that was not found, though nothing works without it; empty if all were.
std::string missing_host_symbol();

/// Where the function is that calls of `name` go to; null: it was not found, or is none of ours.
const void *host_symbol(const char *name);

/// A handle of the library, or program, that has `address` in it; null if there is none.
void *library_of(const void *address);

} // namespace sluice::plugin
