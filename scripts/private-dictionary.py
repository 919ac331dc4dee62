#!/usr/bin/env python3
"""Writes crates/iac-adapters/src/dicom/private.txt: which representation the private elements of
known creators have, as far as pydicom knows them. Run it with the Python that
scripts/reference-env.sh names.

One line for each creator: its name, then after tabs for each representation its two letters and
the elements, each as group and last two digits. Blocks that are fixed in the source count as any.
"""

import sys
from collections import defaultdict

from pydicom._private_dict import private_dictionaries

# What says nothing, needs another look at the object, or would have to be parsed again.
LEFT_OUT = {"UN", "SQ", "US or SS", "OB_OW"}


def line(creator, elements):
    by_vr = defaultdict(set)
    for tag, (vr, *_) in elements.items():
        key = tag[:4].upper() + tag[-2:].upper()
        if vr not in LEFT_OUT and "X" not in key:
            by_vr[vr].add(key)
    # An element that is told in two ways is not known.
    counts = defaultdict(int)
    for tags in by_vr.values():
        for tag in tags:
            counts[tag] += 1
    parts = [creator.strip()]
    for vr in sorted(by_vr):
        tags = sorted(tag for tag in by_vr[vr] if counts[tag] == 1)
        if tags:
            parts.append(vr + "".join(tags))
    return "\t".join(parts)


def main():
    lines = [line(creator, private_dictionaries[creator]) for creator in private_dictionaries]
    lines = sorted(set(one for one in lines if "\t" in one))
    with open(sys.argv[1], "w", encoding="ascii", newline="\n") as file:
        file.write("\n".join(lines) + "\n")


main()
