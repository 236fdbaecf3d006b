#include "telemetry/node_writer.h"

#include "telemetry/csv_writer.h"

#include <fmt/format.h>

namespace sluice::telemetry {

namespace {

/// In quotes if a table would misread it without; names come from llama.cpp.
std::string cell(std::string_view text) {
    if (text.find_first_of(",\"\n\r") == std::string_view::npos) {
        return std::string(text);
    }
    std::string quoted = "\"";
    for (const char letter : text) {
        quoted += letter == '"' ? "\"\"" : std::string(1, letter);
    }
    return quoted + '"';
}

} // namespace

Result<std::unique_ptr<NodeWriter>> NodeWriter::create(const std::string &path, std::string_view version) {
    auto file = LineFile::create(path);
    if (!file) {
        return fail(file.error());
    }
    std::unique_ptr<NodeWriter> writer(new NodeWriter(std::move(*file)));
    writer->file_->add(fmt::format("# sluice {}\n# instrumented: yes\ntoken,node,op,name,ms\n", version));
    writer->file_->flush();
    return writer;
}

void NodeWriter::add(const NodeSample &node) {
    file_->add(fmt::format("{},{},{},{},{:.4f}\n", node.computed, node.index, cell(node.op), cell(node.name),
                           node.seconds * 1e3));
}

void NodeWriter::end(const Status &outcome) {
    file_->add(fact_line("end", outcome_of(outcome)));
    file_->flush();
}

} // namespace sluice::telemetry
