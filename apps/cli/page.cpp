#include "page.h"

#include "text_file.h"

namespace sluice::cli {

namespace {

constexpr std::string_view kMarker = "@SLUICE_DATA@"; // once in every page; the build checks that

/// JSON that may stand in a script element: with neither "</script" nor "<!--" in it.
std::string inert_json(const nlohmann::json &data) {
    const std::string json = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::string inert;
    inert.reserve(json.size());
    for (const char letter : json) { // "<" stands in strings only
        if (letter == '<') {
            inert += "\\u003c";
        } else {
            inert += letter;
        }
    }
    return inert;
}

} // namespace

Status write_page(const std::string &path, std::string_view page, const nlohmann::json &data) {
    if (page.empty()) {
        return fail(ErrorCode::Unsupported, "this build has no pages; run scripts/get-page-libraries.sh, "
                                            "which needs npm, and configure and build again");
    }
    const size_t at = page.find(kMarker);
    if (at == std::string_view::npos) {
        return fail(ErrorCode::Internal, "the page that was built in has no place for data");
    }
    std::string whole(page.substr(0, at));
    whole += inert_json(data);
    whole += page.substr(at + kMarker.size());
    return write_text_file(path, whole);
}

} // namespace sluice::cli
