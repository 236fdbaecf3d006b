#include "support/browser.h"

#include "support/child_process.h"
#include "support/temp_file.h"

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace sluice::test {

namespace {

/// Ahead of everything else on the page.
constexpr const char *kListener = R"(<script>
const seen = { errors: [] };
addEventListener('error', (event) => seen.errors.push(`error: ${event.message}`));
addEventListener('unhandledrejection', (event) => seen.errors.push(`rejection: ${event.reason}`));
document.addEventListener('securitypolicyviolation', (event) => seen.errors.push(`policy: ${event.blockedURI}`));
for (const kind of ['error', 'warn']) { console[kind] = (...what) => seen.errors.push(`console: ${what.join(' ')}`); }
</script>
)";

/// After everything else. The answer is left where --dump-dom shows it, in a form that no escaping touches.
constexpr const char *kReporter = R"(<script>
function coloured_pixels(canvas) {
    const { chartArea: area } = Chart.getChart(canvas); // axes and legends have colours even if no data is drawn
    const box = [area.left, area.top, area.width, area.height].map((side) => Math.round(side * canvas.width / canvas.clientWidth));
    const { data } = canvas.getContext('2d').getImageData(...box);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) {
        const most = Math.max(data[i], data[i + 1], data[i + 2]);
        count += data[i + 3] > 128 && most - Math.min(data[i], data[i + 1], data[i + 2]) > 48 ? 1 : 0;
    }
    return count;
}
addEventListener('load', () => setTimeout(() => {
    const look = () => [...document.querySelectorAll('canvas[role]')].map((canvas) => ({
        label: canvas.getAttribute('aria-label'), width: canvas.clientWidth, height: canvas.clientHeight,
        coloured: coloured_pixels(canvas) }));
    let answer = {};
    try {
        answer = { canvases: look(), text: document.body.innerText };
        answer.probe = (() => { @PROBE@ })();
    } catch (error) {
        seen.errors.push(`probe: ${error.message}`);
    }
    answer.errors = seen.errors;
    answer.loaded = performance.getEntriesByType('resource').map(({ name }) => name);
    document.documentElement.setAttribute('data-answer', encodeURIComponent(JSON.stringify(answer).replaceAll('\u00a0', ' ')));
}, 50));
</script>
)";

std::string replaced(std::string text, const std::string &what, const std::string &by) {
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << "no " << what;
    return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

std::string decoded(const std::string &text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size()) {
            plain += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
            i += 2;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

} // namespace

std::optional<std::string> find_browser() {
    const char *path = std::getenv("PATH");
    for (const char *name : {"chromium", "chromium-browser", "google-chrome"}) {
        std::istringstream folders(path != nullptr ? path : "");
        for (std::string folder; std::getline(folders, folder, ':');) {
            const std::filesystem::path candidate = std::filesystem::path(folder) / name;
            std::error_code ignored;
            if (std::filesystem::exists(candidate, ignored)) {
                return candidate.string();
            }
        }
    }
    return std::nullopt;
}

nlohmann::json open_page(const std::string &path, const std::string &probe, const Screen &screen) {
    const auto browser = find_browser();
    std::ifstream file(path, std::ios::binary);
    std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!browser || page.empty()) {
        ADD_FAILURE() << (browser ? path + " is no page" : "there is no browser");
        return {};
    }
    page = replaced(page, "<head>\n", std::string("<head>\n") + kListener);
    page = replaced(page, "</body>", replaced(kReporter, "@PROBE@", probe) + "</body>");
    const ScratchDir dir;
    const ChildResult result = run_child(
        *browser, {"--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
                   "--hide-scrollbars", "--disable-dev-shm-usage", "--user-data-dir=" + dir / "profile",
                   fmt::format("--window-size={},{}", screen.width, screen.height),
                   fmt::format("--blink-settings=preferredColorScheme={}", screen.dark ? 0 : 1),
                   "--virtual-time-budget=20000", "--dump-dom", "file://" + dir.write("page.html", page)});
    const std::string begin = "data-answer=\"";
    const size_t at = result.out.find(begin);
    if (at == std::string::npos) {
        ADD_FAILURE() << "the browser gave no answer, exit code " << result.exit_code << ":\n" << result.err;
        return {};
    }
    const size_t from = at + begin.size();
    return nlohmann::json::parse(decoded(result.out.substr(from, result.out.find('"', from) - from)));
}

} // namespace sluice::test
