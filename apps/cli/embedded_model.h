// Where the model that comes with Sluice is.
#pragma once

#include <optional>
#include <string>

namespace sluice::cli {

/// Path of the embedded model: beside the executable, in its installation's share folder, or in the source
/// tree it was built from. Empty if it is in none of them.
std::optional<std::string> embedded_model_path();

/// A beginning that suits the embedded model, which tells stories.
constexpr const char *kStoryPrompt = "There was once a poor woodcutter who had";

} // namespace sluice::cli
