#include "residency/hot_set.h"

#include "base/notice.h"

#include "base/text.h"
#include "platform/user_cache.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace sluice::residency {

namespace {

constexpr int kVersion = 1;
constexpr std::chrono::minutes kBetweenKeeps{1};

/// A damaged file may hold any number: what a T cannot be is not made one, but thrown.
template <typename T>
T whole_number(const nlohmann::json &value) {
    const bool fits = value.is_number_unsigned()  ? std::in_range<T>(value.get<uint64_t>())
                      : value.is_number_integer() ? std::in_range<T>(value.get<int64_t>())
                                                  : false;
    if (!fits) {
        throw std::out_of_range("not such a number");
    }
    return value.get<T>();
}

} // namespace

FileIdentity identify_file(const std::string &path, uint64_t bytes) {
    std::error_code failed;
    FileIdentity file{.path = std::filesystem::absolute(path, failed).lexically_normal().string(),
                      .bytes = bytes};
    const auto modified = std::filesystem::last_write_time(path, failed);
    if (!failed) {
        file.modified = static_cast<int64_t>(modified.time_since_epoch().count());
    }
    return file;
}

std::string hot_set_to_json(const FileIdentity &file, std::span<const Bank> banks,
                            std::span<const SliceKey> slices) {
    nlohmann::json hot = nlohmann::json::array();
    for (const SliceKey &slice : slices) {
        hot.push_back({slice.bank, slice.expert});
    }
    nlohmann::json names = nlohmann::json::array();
    for (const Bank &bank : banks) {
        names.push_back(bank.name);
    }
    return nlohmann::json{{"sluice_hot_set", kVersion}, {"path", file.path},
                          {"bytes", file.bytes},        {"modified", file.modified},
                          {"banks", std::move(names)},  {"slices", std::move(hot)}}
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<SliceKey> hot_set_from_json(std::string_view text, const FileIdentity &file,
                                        std::span<const Bank> banks) {
    std::vector<SliceKey> slices;
    try {
        const nlohmann::json kept = nlohmann::json::parse(text);
        const FileIdentity kept_file{.path = kept.at("path").get<std::string>(),
                                     .bytes = whole_number<uint64_t>(kept.at("bytes")),
                                     .modified = whole_number<int64_t>(kept.at("modified"))};
        if (whole_number<int>(kept.at("sluice_hot_set")) != kVersion || kept_file != file) {
            return {};
        }
        std::unordered_map<std::string, uint32_t> index_of;
        for (const Bank &bank : banks) {
            index_of.emplace(bank.name, static_cast<uint32_t>(index_of.size()));
        }
        const auto names = kept.at("banks").get<std::vector<std::string>>();
        for (const nlohmann::json &slice : kept.at("slices")) {
            const auto bank = whole_number<uint32_t>(slice.at(0));
            const auto expert = whole_number<uint32_t>(slice.at(1));
            const auto found = index_of.find(names.at(bank));
            if (found == index_of.end() || expert >= banks[found->second].expert_count) {
                return {};
            }
            slices.push_back({found->second, expert});
        }
    } catch (const std::exception &) {
        return {}; // damaged
    }
    return slices;
}

std::vector<SliceKey> reading_order(std::span<const SliceKey> slices, std::span<const Bank> banks,
                                    const SlotPlan &plan) {
    std::vector<size_t> room;
    for (const SlotClass &slot_class : plan.classes) {
        room.push_back(slot_class.slots);
    }
    std::vector<SliceKey> chosen;
    for (const SliceKey &slice : slices) {
        if (plan.class_of_bank[slice.bank] == kNoClass) {
            continue;
        }
        size_t &left = room[plan.class_of_bank[slice.bank]];
        if (left > 0) {
            --left;
            chosen.push_back(slice);
        }
    }
    const auto place = [&banks](const SliceKey &slice) {
        const Bank &bank = banks[slice.bank];
        return std::tuple(bank.file, bank.offset + uint64_t{slice.expert} * bank.slice_bytes);
    };
    std::sort(chosen.begin(), chosen.end(),
              [&place](const auto &a, const auto &b) { return place(a) < place(b); });
    return chosen;
}

HotSet::HotSet(const std::string &folder, FileIdentity file)
    : file_(std::move(file)),
      path_(fmt::format("{}/hot-{}-{:016x}.json", folder, std::filesystem::path(file_.path).stem().string(),
                        std::hash<std::string>{}(file_.path))),
      next_(std::chrono::steady_clock::now() + kBetweenKeeps) {
}

void HotSet::warm(ExpertCache &cache, const std::vector<Bank> &banks) const {
    const auto text = sluice::read_text(path_);
    if (!text) {
        return;
    }
    const auto slices = reading_order(hot_set_from_json(*text, file_, banks), banks, cache.plan());
    if (!slices.empty()) {
        cache.guess(Guess::WarmStart, slices);
    }
}

Status HotSet::keep(const ExpertCache &cache, const std::vector<Bank> &banks) const {
    const auto slices = cache.residents();
    if (slices.empty()) {
        return {};
    }
    return platform::replace_file(path_, hot_set_to_json(file_, banks, slices),
                                  platform::Durability::SurvivesCrash);
}

void HotSet::keep_now_and_then(const ExpertCache &cache, const std::vector<Bank> &banks) {
    const std::lock_guard lock(mutex_);
    if (failed_ || std::chrono::steady_clock::now() < next_) {
        return;
    }
    next_ = std::chrono::steady_clock::now() + kBetweenKeeps;
    if (auto kept = keep(cache, banks); !kept) {
        failed_ = true;
        notice("what is hot now is not kept for the next run: " + kept.error().message);
    }
}

} // namespace sluice::residency
