#!/usr/bin/env python3
"""Names the cases of a parameter study while the farm computes them: a decomposer of one's own.

All pairs (width, height) with width * height <= LIMIT, as if nobody knew beforehand how many these are. The farm asks in
lines of JSON on standard input and reads the answer on standard output: docs/own-decomposer.md describes both.
"""
import json
import sys

LIMIT = int(sys.argv[1]) if len(sys.argv) > 1 else 1000


def pairs(width, height):
    """All pairs from this one on."""
    while width <= LIMIT:
        while width * height <= LIMIT:
            yield width, height
            height += 1
        width, height = width + 1, 1


for line in sys.stdin:
    asked = json.loads(line)
    # The state is what this program said last: it need not remember anything, and can be killed at any moment.
    width, height = asked["state"] or (1, 1)
    named, after = 0, None
    for width, height in pairs(width, height):
        if named == asked["next"]:
            after = (width, height)
            break
        print(json.dumps({"unit": {"width": width, "height": height}, "cost": width * height}))
        named += 1
    print(json.dumps({"state": after} if after else {"end": True}), flush=True)
