#!/usr/bin/env python3
"""A program of a unit tells figures of its own, and an event: `starfarm submit --range 0..4 -- examples/metrics/report.py`."""
import os
import socket
import time

path = os.environ.get("STARFARM_METRICS")
metrics = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
metrics.setblocking(False)


def tell(lines):
    """Tells them, unless nobody can hear it now: that is not worth failing or waiting for."""
    try:
        if path:
            metrics.sendto(lines.encode(), path)
    except OSError:
        pass


def report(**figures):
    tell("".join(f"{name} {number}\n" for name, number in figures.items()))


for step in range(4):
    report(step=step, residual=1.0 / (1 + step))
    time.sleep(1)

tell("event all steps are done\n")
