// The flash panel's side in the server: samples, heat, settings and what goes over the wire, of imagined
// models.

#include "flash_api.h"
#include "flash_files.h"
#include "heat.h"
#include "options/option_table.h"
#include "support/docs.h"

#include <atomic>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

namespace sluice::flash {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

/// Does what a test says.
class ImaginedModel final : public IFlashModel {
public:
    uint64_t id() const override { return 7; }
    ModelFacts facts() const override { return now; }
    Counts counts() const override { return totals; }
    bool is_computing() const override { return computing; }
    uint64_t cache_held_bytes() const override { return now.cache.held; }
    std::vector<LayerUse> layers() const override { return use; }
    DenseResidency dense_residency() const override { return {.resident = 1.0, .swapped = std::nullopt}; }
    Status limit_cache(std::optional<uint64_t> bytes) override {
        now.cache.limit = bytes.value_or(now.cache.capacity);
        return {};
    }
    Status set_lookahead(std::optional<uint32_t> experts) override {
        now.options.lookahead = experts;
        return {};
    }
    void set_lossy(float drop_cold, float substitute) override {
        now.options.lossy.drop_cold = drop_cold;
        now.options.lossy.substitute = substitute;
    }
    uint64_t trim() override { return std::exchange(now.cache.held, 0); }

    ModelFacts now;
    Counts totals;
    bool computing = false;
    std::vector<LayerUse> use;
};

class FlashPanel : public testing::Test, public IFlashModels {
protected:
    FlashPanel() {
        ModelFacts &now = model_->now;
        now.options.path = "/models/imagined.gguf";
        now.options.row_stream = true;
        now.cache = {.limit = 800 * kMiB, .capacity = 1000 * kMiB, .held = 500 * kMiB, .minimum = 100 * kMiB};
        now.can_look_ahead = true;
        now.settled = {{"threads", "2", "1 takes 40 % longer"}, {"lookahead", "on", "others unmeasured"}};
        now.tables.resize(1);
        model_->use = {{.asked = {0, 1}, .there = {false, true}}};
        start_.version = "1.2.3";
        start_.arguments = {"sluice", "serve", "--cache-policy", "lru", "--api-key", "very secret"};
        start_.session.threads = 3;
        start_.choices = {{.flag = "--cache-mb 800", .reason = "what the ceiling leaves"}};
    }

    std::vector<std::shared_ptr<IFlashModel>> models() override {
        ++times_asked_;
        return present_ ? std::vector<std::shared_ptr<IFlashModel>>{model_}
                        : std::vector<std::shared_ptr<IFlashModel>>();
    }

    /// The model computes `graphs` graphs of one token each.
    void compute(uint64_t graphs) {
        model_->totals.graphs += graphs;
        model_->totals.tokens += graphs;
    }

    static json setting(const json &list, const std::string &name) {
        for (const json &each : list) {
            if (each["name"] == name) {
                return each;
            }
        }
        ADD_FAILURE() << "no setting " << name;
        return {};
    }
    json settings() const { return settings_json(start_, model_->now, {}); }

    static FlashRequest request(const std::string &body) {
        return {.body = body, .headers = {{"content-type", "application/json"}}};
    }

    std::shared_ptr<ImaginedModel> model_ = std::make_shared<ImaginedModel>();
    bool present_ = true;
    std::atomic<int> times_asked_{0};
    StartFacts start_;
};

// -- heat ------------------------------------------------------------------------------------------

TEST(ExpertHeat, LettersTellUseAndWhetherAnExpertIsThere) {
    Heat heat;
    heat.add({{.asked = {0, 1, 2, 3, 4, 256, 0, 4},
               .there = {false, false, false, true, true, true, true, false}}},
             1);
    const auto layers = heat.layers();
    ASSERT_EQ(layers.size(), 1U);
    EXPECT_EQ(layers[0].cells, "012cdja3");
    EXPECT_EQ(layers[0].experts, 8U);
    EXPECT_EQ(layers[0].cached, 4U);
    EXPECT_EQ(layers[0].used, 6U);
}

TEST(ExpertHeat, UsesWeighHalfAfterTheHalfLife) {
    Heat heat;
    const double half_life = std::chrono::duration<double>(kHeatHalfLife).count();
    heat.add({{.asked = {4, 1}, .there = {true, true}}}, 1);
    heat.add({{.asked = {4, 1}, .there = {true, true}}}, half_life);
    EXPECT_EQ(heat.layers()[0].cells, "cb");
    heat.add({{.asked = {4, 1}, .there = {true, true}}}, half_life);
    EXPECT_EQ(heat.layers()[0].cells, "ba") << "half a use is one, a quarter is none";
}

TEST(ExpertHeat, UsesOverALongTimeWeighAsIfSpreadOverIt) {
    Heat heat;
    const double half_life = std::chrono::duration<double>(kHeatHalfLife).count();
    heat.add({{.asked = {0}, .there = {true}}}, 1);
    heat.add({{.asked = {1000}, .there = {true}}}, 1000 * half_life);
    EXPECT_EQ(heat.layers()[0].cells, "b") << "one and a half uses";
}

TEST(ExpertHeat, LayersThatComeLaterAreTakenIn) {
    Heat heat;
    heat.add({}, 1);
    EXPECT_TRUE(heat.layers().empty());
    heat.add({{.asked = {1}, .there = {true}}, {.asked = {0}, .there = {false}}}, 1);
    EXPECT_EQ(heat.layers().size(), 2U);
}

// -- samples ---------------------------------------------------------------------------------------

TEST_F(FlashPanel, SampleHoldsWhatWasCountedSinceTheOneBefore) {
    compute(100); // before anybody looked
    Monitor monitor(*this, false);
    monitor.take_sample();
    EXPECT_EQ(monitor.models()[0].newest.counts.tokens, 0U);
    compute(3);
    monitor.take_sample();
    EXPECT_EQ(monitor.models()[0].newest.counts.tokens, 3U);
    EXPECT_GT(monitor.models()[0].newest.interval_ms, 0);
}

TEST_F(FlashPanel, HistoryKeepsSamplesInWhichSomethingWasComputed) {
    Monitor monitor(*this, false);
    for (const uint64_t graphs : {0, 2, 0, 0, 3, 4}) {
        compute(graphs);
        monitor.take_sample();
    }
    const auto history = monitor.models()[0].history;
    ASSERT_EQ(history.size(), 2U);
    EXPECT_EQ(history[0].counts.graphs, 2U);
    EXPECT_EQ(history[1].counts.graphs, 3U);
}

TEST_F(FlashPanel, HistoryHasABound) {
    Monitor monitor(*this, false);
    for (size_t i = 0; i < Monitor::kKept + 5; ++i) {
        compute(1);
        monitor.take_sample();
    }
    EXPECT_EQ(monitor.models()[0].history.size(), Monitor::kKept);
}

TEST_F(FlashPanel, SampleIsPutOffWhileAGraphTakesLongerThanTheTimeBetweenTwo) {
    Monitor monitor(*this, false);
    monitor.take_sample();
    const int64_t first = monitor.models()[0].newest.time_ms;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++model_->totals.graphs;
    model_->computing = true;
    monitor.take_sample();
    EXPECT_EQ(monitor.models()[0].newest.time_ms, first);
    ++model_->totals.tokens;
    monitor.take_sample();
    EXPECT_EQ(monitor.models()[0].newest.counts.tokens, 1U);
    EXPECT_GT(monitor.models()[0].newest.time_ms, first);
}

TEST_F(FlashPanel, ModelThatIsGoneIsKeptByNobody) {
    Monitor monitor(*this, false);
    monitor.take_sample();
    EXPECT_EQ(model_.use_count(), 1);
    present_ = false;
    EXPECT_TRUE(monitor.models().empty());
    monitor.take_sample();
    present_ = true;
    EXPECT_TRUE(monitor.models().empty()) << "it was forgotten";
}

TEST_F(FlashPanel, NothingIsSampledWhileNobodyLooks) {
    Monitor monitor(*this);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(times_asked_, 0);
    EXPECT_TRUE(monitor.models().empty());
    monitor.look();
    EXPECT_EQ(monitor.models().size(), 1U);
    monitor.look();
    EXPECT_EQ(times_asked_, 3) << "one sample, and two questions for what is known";
}

TEST_F(FlashPanel, SamplesComeByThemselvesUntilItIsClosed) {
    Monitor monitor(*this);
    const auto first = monitor.wait_for_sample(0);
    ASSERT_TRUE(first);
    EXPECT_GT(*first, 0U);
    EXPECT_GT(monitor.wait_for_sample(*first), first);
    monitor.close();
    EXPECT_FALSE(monitor.wait_for_sample(1000));
}

// -- settings --------------------------------------------------------------------------------------

TEST_F(FlashPanel, SettingTellsWhoChoseItAndWhy) {
    const json list = settings();
    const auto chooser = [&](const char *name) {
        const json one = setting(list, name);
        return one["set_by"].get<std::string>() + ": " + one["reason"].get<std::string>();
    };
    EXPECT_EQ(chooser("cache-policy"), "user: --cache-policy");
    EXPECT_EQ(chooser("cache-mb"), "plan: what the ceiling leaves");
    EXPECT_EQ(chooser("threads"), "run: 2: 1 takes 40 % longer");
    EXPECT_EQ(chooser("dense-weights"), "default: ");
    EXPECT_EQ(setting(list, "threads")["value"], 2) << "what the run found, not what it began with";
    EXPECT_EQ(setting(list, "cache-mb")["value"], 800);
    EXPECT_EQ(setting(list, "lookahead")["value"], "auto");
}

TEST_F(FlashPanel, OnlyWhatCanChangeAtOnceSaysSo) {
    std::vector<std::string> names;
    for (const json &one : settings()) {
        if (one["apply"] == "now") {
            names.push_back(one["name"]);
        }
    }
    EXPECT_THAT(names, ElementsAre("cache-mb", "lookahead", "drop-cold", "substitute"));
    model_->now.can_look_ahead = false;
    EXPECT_EQ(setting(settings(), "lookahead")["apply"], "restart");
}

TEST_F(FlashPanel, ChangesAreMade) {
    ASSERT_TRUE(change_settings(*model_, {{"cache-mb", 600}, {"lookahead", "off"}, {"drop-cold", 0.5}}));
    EXPECT_EQ(model_->now.cache.limit, 600 * kMiB);
    EXPECT_EQ(model_->now.options.lookahead, 0U);
    EXPECT_EQ(model_->now.options.lossy.drop_cold, 0.5F);
    ASSERT_TRUE(change_settings(*model_, {{"cache-mb", "auto"}, {"lookahead", 4}, {"substitute", 0.1}}));
    EXPECT_EQ(model_->now.cache.limit, 1000 * kMiB);
    EXPECT_EQ(model_->now.options.lookahead, 4U);
    EXPECT_EQ(model_->now.options.lossy.drop_cold, 0.5F) << "one leaves the other alone";
    EXPECT_EQ(setting(settings(), "substitute")["value"], 0.1);
}

TEST_F(FlashPanel, AWrongOneOfSeveralChangesNone) {
    const std::pair<json, std::string> wrong[] = {
        {{{"cache-mb", 600}, {"lookahead", "much"}}, "lookahead cannot be 'much'"},
        {{{"cache-mb", 600}, {"lookahead", 1025}}, "lookahead is at most 1024"},
        {{{"cache-mb", 99}}, "cache-mb is at least 100"},
        {{{"cache-mb", 1001}}, "cache-mb is at most 1000"},
        {{{"cache-mb", true}}, "cache-mb is a number or 'auto'"},
        {{{"cache-mb", nullptr}}, "cache-mb is a number or 'auto'"},
        {{{"cache-mb", 600}, {"threads", 2}}, "threads takes a restart to change"},
        {{{"cache-mb", 600}, {"colour", "red"}}, "colour is no setting"},
        {{{"substitute", 1.5}}, "substitute is at most 1"},
        {json::array({1}), "values is to be an object of settings by name"},
        {json::object(), "values is to be an object of settings by name"},
    };
    for (const auto &[values, sentence] : wrong) {
        const Status changed = change_settings(*model_, values);
        ASSERT_FALSE(changed) << values;
        EXPECT_EQ(changed.error().message, sentence);
        EXPECT_EQ(model_->now.cache.limit, 800 * kMiB);
    }
}

TEST_F(FlashPanel, KeysOfTheCommandLineAreNotTold) {
    EXPECT_THAT(without_secrets({"serve", "--api-key", "a", "-hft", "b", "--hf-token", "c", "-c", "9"}),
                ElementsAre("serve", "--api-key", "KEY", "-hft", "KEY", "--hf-token", "KEY", "-c", "9"));
    FlashApi api(*this, start_, false);
    EXPECT_THAT(api.state().body, Not(HasSubstr("very secret")));
}

TEST_F(FlashPanel, AllOptionsOfStreamingAreListedInTheirOrder) {
    const json list = settings();
    size_t at = 0;
    for (const options::StreamOption &option : options::stream_options()) {
        ASSERT_LT(at, list.size());
        EXPECT_EQ(list[at]["name"], std::string(option.name));
        EXPECT_EQ(list[at]["lossy"], option.lossy) << option.name;
        ++at;
    }
}

/// What a setting's row allows is what the option takes: the smallest and largest number, each choice and
/// word.
TEST_F(FlashPanel, ValuesOfSettingsAreThoseOfTheirOptions) {
    for (const json &one : settings()) {
        const std::string name = one["name"];
        std::vector<std::string> values;
        for (const char *list : {"choices", "words"}) {
            for (const json &value : one[list]) {
                values.push_back(value);
            }
        }
        for (const char *bound : {"min", "max"}) {
            if (one["type"] == "number" && !one[bound].is_null()) {
                values.push_back(fmt::format("{}", one[bound].get<double>()));
            }
        }
        if (one["type"] == "switch") {
            values = {"on", "off"};
        }
        const bool is_ours =
            std::any_of(options::stream_options().begin(), options::stream_options().end(),
                        [&](const options::StreamOption &option) { return option.name == name; });
        for (const std::string &value : values) {
            PlanRequest request;
            const bool taken = options::set_stream_option(request, name, value).has_value();
            EXPECT_EQ(taken, is_ours) << name << " " << value;
        }
    }
}

// -- over the wire ---------------------------------------------------------------------------------

/// Paths of all members, "[]" for the elements of an array, as docs/flash.md has them.
void add_paths(const json &value, const std::string &path, std::set<std::string> &paths) {
    if (value.is_array()) {
        for (const json &element : value) {
            add_paths(element, path + "[]", paths);
        }
    } else if (value.is_object()) {
        for (const auto &[name, member] : value.items()) {
            const std::string inner = path.empty() ? name : path + "." + name;
            if (!member.is_object()) {
                paths.insert(inner);
            }
            add_paths(member, inner, paths);
        }
    }
}

TEST_F(FlashPanel, StateIsWhatItsPageSays) {
    FlashApi api(*this, start_, false);
    uint64_t seen = 0;
    for (int i = 0; i < 3; ++i) { // the first sample is of nothing, the second becomes history
        compute(1);
        api.monitor().take_sample();
        ASSERT_TRUE(api.next_event(seen));
    }
    std::set<std::string> expected = test::documented_members("flash.md", "### State");
    for (const char *whole : {"models[].totals"}) {
        expected.erase(whole); // described beside its members
    }
    const auto samples = test::documented_members("flash.md", "### Samples");
    for (const std::string &name : samples) {
        expected.insert("models[].sample." + name);
        expected.insert("models[].history[]." + name);
        if (name != "time_ms" && name != "interval_ms" && name != "resident_bytes" &&
            name != "cache_held_bytes") {
            expected.insert("models[].totals." + name);
        }
    }
    expected.erase("models[].sample");
    std::set<std::string> told;
    add_paths(json::parse(api.state().body), "", told);
    EXPECT_EQ(told, expected);
}

TEST_F(FlashPanel, EventsAreTheStateWithoutItsHistory) {
    FlashApi api(*this, start_, false);
    api.monitor().take_sample();
    uint64_t seen = 0;
    const auto event = api.next_event(seen);
    ASSERT_TRUE(event);
    ASSERT_TRUE(event->starts_with("data: ") && event->ends_with("\n\n"));
    json told = json::parse(event->substr(6));
    EXPECT_FALSE(told["models"][0].contains("history"));
    told["models"][0]["history"] = json::array();
    json state = json::parse(api.state().body);
    std::set<std::string> paths[2];
    add_paths(told, "", paths[0]);
    state["models"][0]["history"] = json::array();
    add_paths(state, "", paths[1]);
    EXPECT_EQ(paths[0], paths[1]);
    api.close();
    EXPECT_FALSE(api.next_event(seen));
}

TEST_F(FlashPanel, ChangeIsAnsweredWithTheSettingsInForce) {
    FlashApi api(*this, start_, false);
    const FlashReply reply = api.change(request(R"({"model": 7, "values": {"cache-mb": 600}})"));
    EXPECT_EQ(reply.status, 200);
    const json cache = setting(json::parse(reply.body)["settings"], "cache-mb");
    EXPECT_EQ(cache["value"], 600);
    EXPECT_EQ(cache["set_by"], "panel");
    api.monitor().take_sample();
    EXPECT_EQ(setting(json::parse(api.state().body)["models"][0]["settings"], "cache-mb"), cache);
}

TEST_F(FlashPanel, RefusalsHaveTheFormOfTheServersErrors) {
    FlashApi api(*this, start_, false);
    const auto error = [&](const FlashRequest &asked) {
        return json::parse(api.change(asked).body)["error"];
    };
    EXPECT_EQ(error(request(R"({"values": {"colour": 1}})"))["message"], "colour is no setting");
    EXPECT_EQ(error(request(R"({"values": {"colour": 1}})"))["code"], 400);
    EXPECT_EQ(error(request(R"({"model": 8, "values": {"cache-mb": 600}})"))["code"], 404);
    EXPECT_EQ(error(request("rubbish"))["code"], 400);
    EXPECT_EQ(error(request("[]"))["code"], 400);
    EXPECT_EQ(error({.body = "{}", .headers = {{"content-type", "text/plain"}}})["code"], 400);
}

TEST_F(FlashPanel, PagesOfOtherOriginsChangeNothing) {
    FlashApi api(*this, start_, false);
    const auto status = [&](std::map<std::string, std::string> headers) {
        FlashRequest asked = request("{}");
        asked.headers.insert(headers.begin(), headers.end());
        return api.trim(asked).status;
    };
    EXPECT_EQ(status({{"origin", "http://elsewhere"}, {"host", "127.0.0.1:8080"}}), 403);
    EXPECT_EQ(status({{"origin", "null"}, {"host", "127.0.0.1:8080"}}), 403);
    EXPECT_EQ(status({{"sec-fetch-site", "cross-site"}}), 403);
    EXPECT_EQ(status({{"sec-fetch-site", "same-site"}}), 403);
    EXPECT_EQ(model_->now.cache.held, 500 * kMiB);
    EXPECT_EQ(status({{"origin", "http://127.0.0.1:8080"}, {"host", "127.0.0.1:8080"}}), 200);
    EXPECT_EQ(status({{"sec-fetch-site", "same-origin"}, {"origin", "https://name"}, {"host", "inside"}}),
              200);
}

TEST_F(FlashPanel, TrimTellsWhatItGaveBack) {
    FlashApi api(*this, start_, false);
    EXPECT_EQ(json::parse(api.trim(request("{}")).body)["freed_bytes"], 500 * kMiB);
    EXPECT_EQ(json::parse(api.trim(request("{}")).body)["freed_bytes"], 0);
}

TEST_F(FlashPanel, MetricsAreWhatItsPageSays) {
    model_->now.options.path = "/models/a \"name\".gguf";
    FlashApi api(*this, start_, false);
    std::set<std::string> told;
    std::istringstream lines(api.metrics());
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("#")) {
            told.insert(line.substr(0, line.find_first_of("{ ")));
        }
    }
    EXPECT_EQ(told, test::documented_members("flash.md", "### Metrics"));
    EXPECT_THAT(api.metrics(), HasSubstr(R"(sluice_tokens_total{model="a \"name\".gguf",id="7"} 0)"));
}

TEST_F(FlashPanel, WithoutAModelThereIsAStateAllTheSame) {
    present_ = false;
    FlashApi api(*this, start_, false);
    EXPECT_TRUE(json::parse(api.state().body)["models"].empty());
    EXPECT_EQ(api.change(request(R"({"values": {"cache-mb": 600}})")).status, 404);
    EXPECT_EQ(json::parse(api.trim(request("{}")).body)["freed_bytes"], 0);
}

TEST(FlashFiles, AreThePageAndWhatItNamesAndNothingFromElsewhere) {
    if (flash_files().empty()) {
        GTEST_SKIP() << "this build has no pages";
    }
    const FlashFile &page = flash_files().front();
    EXPECT_STREQ(page.name, "flash");
    const auto text_of = [](const FlashFile &file) {
        return std::string(reinterpret_cast<const char *>(file.data), file.size);
    };
    const std::string text = text_of(page);
    EXPECT_THAT(text, HasSubstr("Content-Security-Policy"));
    std::string all;
    for (const FlashFile &file : flash_files()) {
        all += text_of(file);
    }
    for (const FlashFile &file : flash_files().subspan(1)) {
        EXPECT_THAT(all, HasSubstr(file.name));
    }
    EXPECT_THAT(text, Not(testing::ContainsRegex("(src|href)=\"https?:")));
}

} // namespace
} // namespace sluice::flash
