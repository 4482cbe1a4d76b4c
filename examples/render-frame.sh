#!/bin/sh
# Draws frame $1 of a ball that flies over the screen, at time $2 between 0 and 1.
exec awk -v frame="$1" -v clock="$2" 'BEGIN {
    width = 60; height = 12; radius = 2.5
    x = radius + clock * (width - 2 * radius)
    y = height - radius - 4 * clock * (1 - clock) * (height - 2 * radius)
    printf "frame %d\n", frame
    for (row = 0; row < height; row++) {
        line = ""
        for (column = 0; column < width; column++) {
            # A character is about twice as high as wide.
            distance = ((column - x) / 2) ^ 2 + (row - y) ^ 2
            line = line (distance <= radius ^ 2 ? "#" : ".")
        }
        print line
    }
}'
