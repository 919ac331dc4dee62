#!/usr/bin/env python3
"""Checks that every crate compiles without features and with each of its features alone.

Usage: features.py [PROFILE] [--list]

Most features of the upper crates only pass on to those below, so that one combination compiles many
crates with one feature each. A combination whose crate was already compiled with the same features by
another one is left out; `--list` tells which are left.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def run(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def crates():
    """Features of each crate of the workspace that others can choose, or that has features at all."""
    packages = json.loads(run("cargo", "metadata", "--no-deps", "--format-version", "1"))["packages"]
    return {
        package["name"]: sorted(set(package["features"]) - {"default"})
        for package in packages
        if package["features"] or package["publish"] != []
    }


def selected(crate, feature):
    return ["-p", crate, "--no-default-features", *(["--features", feature] if feature else [])]


def compiled(combination, names):
    """All crates of the workspace that a combination compiles, each with its features."""
    tree = run(
        "cargo", "tree", "--quiet", *selected(*combination),
        "--edges", "normal", "--prefix", "none", "--format", "{p}|{f}",
    )
    found = set()
    for line in tree.splitlines():
        package, features = line.removesuffix(" (*)").split("|")
        name = package.split()[0]
        if name in names:
            found.add((name, frozenset(filter(None, features.split(","))) - {"default"}))
    return found


def needed(names):
    """The combinations that compile everything, those of the upper crates first."""
    combinations = [(crate, feature) for crate in names for feature in ["", *names[crate]]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        trees = dict(zip(combinations, pool.map(lambda one: compiled(one, names), combinations), strict=True))
    done, left = set(), []
    for combination in sorted(combinations, key=lambda one: -len({name for name, _ in trees[one]})):
        crate = combination[0]
        own = {(name, features) for name, features in trees[combination] if name == crate}
        if not own <= done:
            left.append(combination)
            done |= trees[combination]
    return len(combinations), left


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    arguments = [argument for argument in sys.argv[1:] if argument != "--list"]
    profile = arguments[0] if arguments else "ci"
    count, left = needed(crates())
    print(f"features: {len(left)} of {count} combinations, the others are parts of these", file=sys.stderr)
    for crate, feature in left:
        print(f"features: {crate} with {feature or 'nothing'}", file=sys.stderr)
        if "--list" not in sys.argv:
            command = ["cargo", "check", "--quiet", "--profile", profile, *selected(crate, feature)]
            if subprocess.run(command).returncode:
                sys.exit(f"features: {crate} does not compile with {feature or 'nothing'} alone")


main()
