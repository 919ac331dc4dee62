"""A plugin of pytest: tests that are expected to fail, each with its reason."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--exceptions", help="file of tests that are expected to fail")


def pytest_collection_modifyitems(config, items):
    path = config.getoption("--exceptions")
    if not path:
        return
    reasons = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.strip()
            if line and not line.startswith("#"):
                name, _, reason = line.partition(": ")
                reasons[name.strip()] = reason.strip()
    used = set()
    for item in items:
        for name in (item.nodeid, item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]):
            if name in reasons:
                used.add(name)
                item.add_marker(pytest.mark.xfail(reason=reasons[name], strict=False))
                break
    for name in sorted(set(reasons) - used):
        config.issue_config_time_warning(
            UserWarning(f"no test is called {name}, which is listed as an exception"), 2
        )
