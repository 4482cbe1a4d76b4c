"""Fuzzy comprehensive evaluation with fractions, to check the integers by.

A line in: number of CPs, operator, then for each host cores, idle share, memory, link, idle share of accelerators or `-`
(all in thousandths), back ends, and CPs that it may take. A line out: score, grade and CPs of each host.
"""
import sys
from fractions import Fraction
from math import floor

GRADES = ["poor", "fair", "good", "excellent"]
POINTS = [
    [Fraction(1, 2), 1, 2, 4],
    [Fraction(1, 10), Fraction(3, 10), Fraction(6, 10), Fraction(9, 10)],
    [Fraction(1, 4), 1, 4, 16],
    [Fraction(1, 10), 1, 10, 25],
    [Fraction(1, 10), Fraction(3, 10), Fraction(6, 10), Fraction(9, 10)],
]
WEIGHTS = [Fraction(35, 100), Fraction(30, 100), Fraction(15, 100), Fraction(20, 100), Fraction(20, 100)]


def row(x, p):
    """Poor is whole up to p1 and gone at p2; the others are triangles on p1 p2 p3, p2 p3 p4, and whole from p4 on."""
    if x <= p[0]:
        return [1, 0, 0, 0]
    if x > p[3]:
        return [0, 0, 0, 1]
    upper = next(i for i in range(1, 4) if x <= p[i])
    rises = Fraction(floor((x - p[upper - 1]) / (p[upper] - p[upper - 1]) * 1000), 1000)
    out = [Fraction(0)] * 4
    out[upper], out[upper - 1] = rises, 1 - rises
    return out


def judge(features, factors, operator):
    matrix = [row(features[i] if features[i] is not None else Fraction(0), POINTS[i]) for i in range(factors)]
    whole = sum(WEIGHTS[:factors])
    weights = [w / whole for w in WEIGHTS[:factors]]
    if any(matrix[i][0] == 1 for i in range(3)):
        return 0, "poor"
    if operator == "sum":
        b = [sum(weights[i] * matrix[i][j] for i in range(factors)) for j in range(4)]
    else:
        b = [max(min(weights[i], matrix[i][j]) for i in range(factors)) for j in range(4)]
        b = [x / sum(b) for x in b]
    score = floor(sum(j * b[j] for j in range(4)) * 1000)
    return score, GRADES[b.index(max(b))]


def evenly(n, standing, caps, given):
    for _ in range(n):
        room = [i for i in range(len(caps)) if given[i] < caps[i]]
        if not room:
            return
        given[min(room, key=lambda i: (standing[i] + given[i], i))] += 1


def deal(n, scores, standing, caps):
    given = [0] * len(scores)
    while n > 0:
        room = [i for i in range(len(scores)) if given[i] < caps[i] and scores[i] > 0]
        if not room:
            evenly(n, standing, caps, given)
            break
        quota = {i: Fraction(n * scores[i], sum(scores[k] for k in room)) for i in room}
        wanted = {i: floor(quota[i]) for i in room}
        rest = n - sum(wanted.values())
        order = sorted(room, key=lambda i: (wanted[i] - quota[i], -scores[i], standing[i], i))
        before = sum(given)
        for i in room:
            given[i] = min(caps[i], given[i] + wanted[i])
        for i in order:
            if rest > 0 and given[i] < caps[i]:
                given[i] += 1
                rest -= 1
        n -= sum(given) - before
    return given


for line in sys.stdin:
    n, operator, *hosts = line.split()
    table = [host.split(",") for host in hosts]
    features = [[None if x == "-" else Fraction(int(x), 1000) for x in host[:5]] for host in table]
    factors = 5 if any(f[4] is not None for f in features) else 4
    judged = [judge(f, factors, operator) for f in features]
    cps = deal(int(n), [j[0] for j in judged], [int(h[5]) for h in table], [int(h[6]) for h in table])
    print(" ".join(f"{score},{grade},{count}" for (score, grade), count in zip(judged, cps)))
