#include "run_telemetry.h"

#include "telemetry/plan_text.h"
#include "telemetry/run_facts.h"

namespace sluice::cli {

namespace {

/// Makes a writer if its flag was given. An empty Status: there is one, or none is wanted.
template <typename Writer, typename... Arguments>
Status make(std::unique_ptr<Writer> &writer, const std::optional<std::string> &where, Arguments... more) {
    if (!where) {
        return {};
    }
    auto made = Writer::create(*where, more...);
    if (!made) {
        return fail(made.error());
    }
    writer = std::move(*made);
    return {};
}

} // namespace

Status RunTelemetry::open(const RunFlags &flags) {
    if (auto made = make(progress_, flags.progress); !made) {
        return made;
    }
    auto opened = make(csv_, flags.csv, std::string_view(SLUICE_VERSION));
    if (opened) {
        opened = make(nodes_, flags.decode_trace, std::string_view(SLUICE_VERSION));
    }
    if (csv_ != nullptr) {
        csv_->add_facts({{"version", SLUICE_VERSION}});
        csv_->add_facts(telemetry::machine_facts());
        csv_->add_facts({{"flags", flags.as_resolved}});
    }
    return opened ? status() : opened;
}

void RunTelemetry::planned(RunPlan plan, const std::string &model) {
    model_ = model;
    plan.model.path = model;
    if (csv_ != nullptr) {
        csv_->add_facts({{"plan", telemetry::plan_command(plan)}});
    }
}

void RunTelemetry::loading(float fraction) {
    if (progress_ != nullptr) {
        progress_->load(fraction);
    }
}

void RunTelemetry::loaded(const ModelInfo &model) {
    if (progress_ != nullptr) {
        progress_->loaded(model);
    }
}

void RunTelemetry::attach(SessionOptions &options) {
    if (csv_ != nullptr || progress_ != nullptr || nodes_ != nullptr) {
        options.on_sample = [this](const TokenSample &sample) {
            if (csv_ != nullptr) {
                csv_->add_row(sample);
            }
            if (progress_ != nullptr) {
                progress_->computed(sample);
            }
            if (nodes_ != nullptr) {
                nodes_->flush();
            }
        };
    }
    if (nodes_ != nullptr) {
        options.on_node = [this](const NodeSample &node) { nodes_->add(node); };
    }
}

void RunTelemetry::started(const RunFlags &flags, const ModelOptions &options, const Model &model,
                           const Session &session) {
    if (csv_ != nullptr) {
        csv_->add_facts({{"model", model_}});
        csv_->add_facts(telemetry::model_facts(model, options, session, flags.session, flags.sampling));
    }
}

void RunTelemetry::answer(size_t prompt_tokens) {
    if (progress_ != nullptr) {
        progress_->begin_answer(prompt_tokens);
    }
}

void RunTelemetry::text(std::string_view piece) {
    if (progress_ != nullptr) {
        progress_->text(piece);
    }
}

void RunTelemetry::done(StopReason reason) {
    if (progress_ != nullptr) {
        progress_->done(reason);
    }
}

Status RunTelemetry::finish(const Status &outcome, const Model *model, const Session *session) {
    if (csv_ != nullptr) {
        const RunStats stats = session != nullptr ? session->stats() : RunStats();
        csv_->add_summary(model != nullptr ? &model->info() : nullptr, session != nullptr ? &stats : nullptr);
        csv_->end(outcome);
    }
    if (nodes_ != nullptr) {
        nodes_->end(outcome);
    }
    if (progress_ != nullptr && !outcome) {
        progress_->error(outcome.error());
    }
    return status();
}

Status RunTelemetry::status() const {
    for (const Status &written :
         {csv_ != nullptr ? csv_->status() : Status(), progress_ != nullptr ? progress_->status() : Status(),
          nodes_ != nullptr ? nodes_->status() : Status()}) {
        if (!written) {
            return written;
        }
    }
    return {};
}

} // namespace sluice::cli
