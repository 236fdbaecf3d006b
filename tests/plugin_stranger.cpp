// A program whose ggml says that it is of the version in STRANGER_VERSION, and is nothing else. Loads a
// plug-in as ggml does, and prints whether it gave a backend.
//   plugin_stranger PLUGIN
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

extern "C" const char *ggml_version() {
    return std::getenv("STRANGER_VERSION");
}

int main(int count, char **arguments) {
    void *plugin = count < 2 ? nullptr : ::dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
        std::fprintf(stderr, "%s\n", ::dlerror());
        return 1;
    }
    const auto init = reinterpret_cast<void *(*)()>(::dlsym(plugin, "ggml_backend_init"));
    std::puts(init() == nullptr ? "refused" : "a backend");
    ::dlclose(plugin);
    return 0;
}
