"""A plugin of pytest for scripts/upstream-server-tests.sh: upstream's tests of its server, run with a model that is
not theirs.

What the model says is not compared (their models come from the network): match_regex() finds its text in any.
not_passing.txt lists tests that can't pass for a reason, which must then fail; all others must pass. Each server is
asked what it streamed before it is stopped."""
import os

import pytest
import requests
import utils

HERE = os.path.dirname(os.path.abspath(__file__))


class Listed:
    """A line of not_passing.txt: how, which tests, why."""

    def __init__(self, line):
        self.how, self.name, self.reason = line.split(None, 2)
        self.seen = self.failed = 0

    def covers(self, nodeid):
        return nodeid == self.name or nodeid.startswith((self.name + "::", self.name + "["))


def read_list():
    with open(os.path.join(HERE, "not_passing.txt"), encoding="utf-8") as lines:
        entries = [Listed(line.strip()) for line in lines if line.strip() and not line.startswith("#")]
    return [entry for entry in entries if entry.how != "page" or not os.environ.get("CHAT_PAGE")]


LISTED = read_list()
STREAMED = {"servers": 0, "slices": 0}


def listed(nodeid):
    return next((entry for entry in LISTED if entry.covers(nodeid)), None)


def ask_what_was_streamed(server):
    url = f"http://127.0.0.1:{server.server_port}/sluice/stats"
    headers = {"Authorization": f"Bearer {server.api_key}"} if server.api_key else {}
    try:
        models = requests.get(url, headers=headers, timeout=5).json().get("streamed_models", [])
    except (requests.exceptions.RequestException, ValueError, AttributeError):
        return  # it has ended, is a stranger, or has another key
    STREAMED["servers"] += len(models) > 0
    STREAMED["slices"] += sum(model["misses"] for model in models)


def asking_first(stop):
    def stop_and_count(server):
        if server.process:
            ask_what_was_streamed(server)
        stop(server)

    return stop_and_count


# Before the tests' modules take these names with "from utils import *".
utils.match_regex = lambda regex, text: isinstance(text, str)
utils.ServerProcess.stop = asking_first(utils.ServerProcess.stop)


def pytest_collection_modifyitems(items):
    for item in items:
        entry = listed(item.nodeid)
        if entry is not None:
            entry.seen += 1
            mark = pytest.mark.skip if entry.how == "skip" else pytest.mark.xfail
            item.add_marker(mark(reason=entry.reason))


def pytest_runtest_logreport(report):
    entry = listed(report.nodeid)
    if entry is not None and entry.how != "skip" and report.outcome == "skipped":
        entry.failed += 1


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(
        f"{STREAMED['servers']} servers streamed, and read {STREAMED['slices']} slices of experts")


def pytest_sessionfinish(session):
    whole = not session.config.option.keyword and len(session.config.args) == 1
    stale = [e.name for e in LISTED if e.how != "skip" and e.seen and not e.failed]
    if stale:
        print(f"\nnot_passing.txt lists what passes: {', '.join(stale)}")
    if whole and STREAMED["slices"] == 0:
        print("\nno server streamed anything")
    if stale or (whole and STREAMED["slices"] == 0):
        session.exitstatus = 1
