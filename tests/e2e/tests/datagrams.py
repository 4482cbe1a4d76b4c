"""What docs/monitoring.md says of datagrams, written down a second time: how they are written and read.

datagrams.py send FORMAT ADDRESS PORT   sends what each line of the input says; "ok" on the output at its end
datagrams.py receive FORMAT COUNT       says its port, then what each of so many datagrams says, a line each

A line is ID:HEX,ID:HEX; or "raw HEX", or "from ADDRESS ID:HEX,..". FORMAT: host, little, big (DiMMon's), triples.
"""

import socket
import sys

ORDERS = {"host": sys.byteorder, "little": "little", "big": "big"}


def leb(number):
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def unleb(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, at


def encode(form, values):
    if form == "triples":
        return b"".join(leb(i) + leb(len(v)) + v for i, v in values)
    order = ORDERS[form]
    word = lambda number: number.to_bytes(4, order)
    return b"".join(word(i) + word(len(v)) + v for i, v in values) + word(0) + word(0)


def decode(form, data):
    values, at = [], 0
    if form == "triples":
        while at < len(data):
            i, at = unleb(data, at)
            length, at = unleb(data, at)
            assert at + length <= len(data), "a value is cut"
            values.append((i, data[at : at + length]))
            at += length
        return values
    word = lambda at: int.from_bytes(data[at : at + 4], ORDERS[form])
    while True:
        assert at + 8 <= len(data), "no end mark"
        i, length = word(at), word(at + 4)
        at += 8
        if i == 0:
            assert length == 0 and at == len(data), "the end mark is not the end"
            return values
        assert at + length <= len(data), "a value is cut"
        values.append((i, data[at : at + length]))
        at += length


def parse(line):
    pairs = (one.split(":") for one in line.split(",") if one)
    return [(int(i), bytes.fromhex(v)) for i, v in pairs]


def send(form, address, port):
    sockets = {}
    for line in sys.stdin:
        line, source = line.rstrip("\n"), "127.0.0.1"
        if line.startswith("from "):
            _, source, line = (line + " ").split(" ", 2)
        if line.startswith("raw "):
            data = bytes.fromhex(line[4:])
        else:
            data = encode(form, parse(line.strip()))
        if source not in sockets:
            sockets[source] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sockets[source].bind((source, 0))
        sockets[source].sendto(data, (address, int(port)))
    print("ok")


def receive(form, count):
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port.bind(("127.0.0.1", 0))
    port.settimeout(60)
    print(port.getsockname()[1], flush=True)
    for _ in range(int(count)):
        values = decode(form, port.recv(65536))
        print(",".join(f"{i}:{v.hex()}" for i, v in values), flush=True)


{"send": send, "receive": receive}[sys.argv[1]](*sys.argv[2:])
