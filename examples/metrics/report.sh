#!/bin/sh
# A program of a unit tells a figure of its own, and an event: `starfarm submit --range 0..4 -- examples/metrics/report.sh`.
# Needs socat. What cannot be told is not worth failing for.
for degree in 40 41 42 43; do
    echo "temperature $degree" | socat - "UNIX-SENDTO:$STARFARM_METRICS" || true
    sleep 1
done
echo "event all degrees are told" | socat - "UNIX-SENDTO:$STARFARM_METRICS" || true
