// The state of the panel as JSON, and as lines of /metrics. docs/flash.md is the contract.
#pragma once

#include "monitor.h"
#include "settings_list.h"

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace sluice::flash {

/// By the model's id.
using ChangedSettings = std::map<uint64_t, std::set<std::string>>;

/// `with_history`: the samples before the newest as well.
nlohmann::ordered_json state_json(const StartFacts &start, std::chrono::milliseconds uptime,
                                  const std::vector<Watched> &models, const ChangedSettings &changed,
                                  bool with_history);

/// In Prometheus' text format.
std::string metrics_text(const std::vector<std::shared_ptr<IFlashModel>> &models);

} // namespace sluice::flash
