#!/usr/bin/env python3
"""A starfarm worker in one file, written from docs/protocol.md alone. README.md beside it says how to run it.

The main thread speaks UDP; each slot is a thread that runs tasks and has a bulk connection of its own.
"""
import argparse, collections, decimal, fcntl, hashlib, hmac, json, math, os, pathlib, random, re, select, signal
import socket, subprocess, sys, tempfile, threading
from struct import error as Malformed, pack, unpack, unpack_from
from time import monotonic as now, sleep
from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HELLO, TASK_ACK, RESULTS, FEEDBACK, HEARTBEAT, BYE = range(1, 7)
WELCOME, OFFERS, RESULT_ACK, HEARTBEAT_ANSWER, REVOKE = range(33, 38)
GET, PUT, CHUNK, FOUND, HAVE, BULK_CHUNK, STORED, BULK_REFUSED = 1, 2, 3, 17, 18, 19, 20, 21
DONE, RETURNED, REFUSED = range(3)
ROOM, QUEUE_MAX, KEEP = 1368, 4096, 1 << 20


class Refused(Exception):
    """This worker cannot run the job."""


def say(*words):
    print("worker:", *words, file=sys.stderr, flush=True)


# --- The seal: Noise_IKpsk2_25519_AESGCM_SHA256, the initiator's side ---

def seal(key, counter, message, ad=b""):
    return AESGCM(key).encrypt(pack(">IQ", 0, counter), message, ad)


def unseal(key, counter, sealed, ad=b""):
    return AESGCM(key).decrypt(pack(">IQ", 0, counter), sealed, ad)


def hkdf(chain, material, outputs):
    temp, out = hmac.digest(chain, material, "sha256"), [b""]
    for i in range(outputs):
        out.append(hmac.digest(temp, out[-1] + bytes([i + 1]), "sha256"))
    return out[1:]


class Handshake:
    def __init__(self, worker, flags=0, index=0, cookie=None, ephemeral=None):
        self.farm, self.own = worker.farm, worker.key
        self.ephemeral = ephemeral or X25519PrivateKey.generate()
        there = self.farm["scheduler_key"]
        head = pack("<BBHI8s", 1, 1, flags, index, self.farm["join_key"])
        public = self.ephemeral.public_key().public_bytes_raw()
        self.chain = self.hash = b"Noise_IKpsk2_25519_AESGCM_SHA256"  # 32 bytes, so it is not hashed
        self.mix_hash(b"starfarm/1" + head)
        self.mix_hash(there)
        self.mix_hash(public)
        self.mix_key(public)  # in a handshake with a psk `e` goes into the key too
        self.mix_key(self.dh(self.ephemeral, there))
        packet = head + public + self.seal(self.own.public_key().public_bytes_raw())
        self.mix_key(self.dh(self.own, there))
        packet += self.seal(worker.greeting)
        self.packet = packet + (blake3(packet, key=cookie).digest(16) if cookie else bytes(16))

    @staticmethod
    def dh(private, public):
        return private.exchange(X25519PublicKey.from_public_bytes(public))

    def mix_hash(self, data):
        self.hash = hashlib.sha256(self.hash + data).digest()

    def mix_key(self, material):
        self.chain, self.key = hkdf(self.chain, material, 2)  # each key seals once: its nonce is 0

    def seal(self, plain):
        sealed = seal(self.key, 0, plain, self.hash)
        self.mix_hash(sealed)
        return sealed

    def open(self, packet):
        """The two keys, the scheduler's index and epoch; InvalidTag if this is not the scheduler's response."""
        before, public = (self.chain, self.hash), packet[8:40]
        try:
            self.mix_hash(public)
            self.mix_key(public)
            self.mix_key(self.dh(self.ephemeral, public))
            self.mix_key(self.dh(self.own, public))
            self.chain, mixed, self.key = hkdf(self.chain, self.farm["join_secret"], 3)
            self.mix_hash(mixed)
            answer = unseal(self.key, 0, packet[40:], self.hash)
        except InvalidTag:
            self.chain, self.hash = before  # the genuine one may still come
            raise
        status, role, _, length, index, epoch, _ = unpack_from("<BBBBIQ16s", answer)
        if status or role != 1:
            sys.exit("refused: " + (answer[32:32 + length].decode() or "this join file is not for a worker"))
        return *hkdf(self.chain, b"", 2), index, epoch

    def open_cookie(self, packet):
        key = blake3(self.farm["scheduler_key"], derive_key_context="starfarm 2026 cookie answer v1").digest()
        initiation = blake3(self.packet).digest()
        if blake3(initiation + packet[:40], key=key).digest(16) == packet[40:]:
            return bytes(x ^ y for x, y in zip(packet[8:40], blake3(initiation, key=key).digest()))


class Session:
    def __init__(self, handshake, packet, sock):
        self.key_out, self.key_in, self.remote, self.epoch = handshake.open(packet)
        self.sock, self.born, self.until = sock, now(), math.inf
        self.counter, self.top, self.seen = 0, -1, set()

    def send(self, *messages):
        """Messages are pairs of kind and body."""
        packed = b"".join(pack("<BH", kind, len(body)) + body for kind, body in messages)
        try:
            self.sock.send(pack("<IIQ", 4, self.remote, self.counter) + seal(self.key_out, self.counter, packed))
        except OSError as error:  # nobody listens: silence will say so
            say("sending:", error)
        self.counter += 1

    def open(self, packet):
        reserved, _, counter = unpack_from("<IIQ", packet)
        if reserved != 4 or counter <= self.top - 2048 or counter in self.seen:
            return b""
        message = unseal(self.key_in, counter, packet[16:])
        self.top = max(self.top, counter)
        self.seen.add(counter)
        if len(self.seen) > 4096:
            self.seen = {c for c in self.seen if c > self.top - 2048}
        return message


# --- The bulk channel: a sealed stream ---

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (crc & 1) * 0x82F63B78
    return crc ^ 0xFFFFFFFF


class Bulk:
    def __init__(self, worker):
        if not worker.session:
            raise ConnectionError("no scheduler to obey is there")
        self.sock = socket.create_connection(worker.session.sock.getpeername()[:2], timeout=10)
        self.file = self.sock.makefile("rb")
        handshake = Handshake(worker, flags=1)
        self.send_frame(handshake.packet)
        self.key_out, self.key_in, *_ = handshake.open(self.receive_frame())
        self.sent = self.received = 0
        self.send(b"\1")

    def send_frame(self, frame):
        self.sock.sendall(pack("<I", len(frame)) + frame)

    def receive_frame(self):
        size = int.from_bytes(self.file.read(4), "little")
        frame = self.file.read(size)
        if size < 16 or len(frame) < size:
            raise ConnectionError("the bulk connection ended")
        return frame

    def send(self, message):
        self.send_frame(seal(self.key_out, self.sent, message))
        self.sent += 1

    def receive(self, kind):
        message = unseal(self.key_in, self.received, self.receive_frame())
        self.received += 1
        if message[0] == BULK_REFUSED:
            raise Refused(message[1:].decode())
        if message[0] != kind:
            raise ConnectionError(f"unexpected bulk message {message[0]}")
        return message[1:]

    def get(self, digest):
        self.send(pack("<B32sQ", GET, digest, 0))
        total, content = int.from_bytes(self.receive(FOUND), "little"), b""
        while len(content) < total:
            chunk = self.receive(BULK_CHUNK)
            if unpack_from("<QI", chunk) != (len(content), crc32c(chunk[12:])):
                raise ConnectionError("a damaged chunk")
            content += chunk[12:]
        if blake3(content).digest() != digest:
            raise ConnectionError("the content is not that of its hash")
        return content

    def put(self, content):
        digest, total = blake3(content).digest(), len(content)
        self.send(pack("<B32sQ", PUT, digest, total))
        have = int.from_bytes(self.receive(HAVE), "little")
        for at in range(have, total, 61440):
            chunk = content[at:at + 61440]
            self.send(pack("<BQI", CHUNK, at, crc32c(chunk)) + chunk)
        if have < total:
            self.receive(STORED)
        return digest


# --- Spaces ---

def unit_value(space, i, fetch=None):
    """A unit's value, and the names that the space itself replaces."""
    (kind, s), = space.items()
    if kind == "chars":
        alphabets = [bytes.fromhex(p) for p in s["positions"]]
        length = s["min"]
        while i >= (size := math.prod(map(len, alphabets[:length]))):
            i, length = i - size, length + 1
        value = b""
        for alphabet in reversed(alphabets[:length]):
            i, digit = divmod(i, len(alphabet))
            value = alphabet[digit:digit + 1] + value
        return value, {}
    if kind == "range":
        return b"%d" % (s["from"] + i * s["step"]), {}
    if kind == "frames":
        last = s["last"] - s["first"]
        clock = decimal.Decimal(repr(i / last if last else 0.0).removesuffix(".0"))
        return b"%d" % (s["first"] + i), {b"clock": format(clock, "f").encode()}
    if kind == "list":
        for chunk in s["chunks"]:
            if i < chunk["units"]:
                return fetch(bytes.fromhex(chunk["hash"])).split(b"\n")[i], {}
            i -= chunk["units"]
    if kind == "grid":
        names = {}
        for axis in reversed(s["axes"]):
            i, digit = divmod(i, len(axis["values"]))
            names[axis["name"].encode()] = axis["values"][digit].encode()
        return b" ".join(reversed(names.values())), names
    raise Refused(f"this worker does not know the space {kind}")


# --- Tasks and results ---

class Task:
    def __init__(self, job, spec, attempt, lo, units, epoch):
        self.job, self.spec, self.attempt, self.lo, self.units, self.epoch = job, spec, attempt, lo, units, epoch
        self.stop, self.at = "", lo  # stop: "", "trim" or "kill"; at: the unit that runs


class Result:
    def __init__(self, sequence, task, units, outcome, body, seconds):
        self.job, self.lo, self.units, self.outcome = task.job, task.lo, units, outcome
        self.head, self.sent, self.datagram, self.tries = pack("<Q32s", task.job, task.spec), -math.inf, None, 0
        self.entry = pack("<QQ", sequence, task.attempt) + task.lo.to_bytes(16, "little") + pack(
            "<QQBH", units, int(seconds * 1e6), outcome, len(body)) + body


class Stopped(Exception):
    """The task is let go before its unit ended."""


class Slot(threading.Thread):
    def __init__(self, worker):
        super().__init__(daemon=True)
        self.worker, self.channel, self.task = worker, None, None

    def run(self):
        worker = self.worker
        while True:
            with worker.lock:
                worker.lock.wait_for(lambda: worker.queue)
                task = self.task = worker.queue.popleft()
                worker.judge()
            outcome, why = RETURNED, b""
            try:
                self.run_task(task)
            except Stopped:
                pass
            except Exception as error:
                outcome, why = REFUSED, f"{type(error).__name__}: {error}".encode()[:1200]
                say(f"job {task.job}:", why.decode())
            with worker.lock:
                worker.report(task, task.units, outcome, why)
                self.task, worker.idle_since = None, now()

    def bulk(self, call):
        while not self.task.stop:
            try:
                self.channel = self.channel or Bulk(self.worker)
                return call(self.channel)
            except (OSError, InvalidTag) as error:
                say("bulk:", error)
                self.channel = None
                sleep(0.5)
        raise Stopped

    def fetch(self, digest):
        contents = self.worker.contents
        if digest not in contents:
            contents[digest] = self.bulk(lambda bulk: bulk.get(digest))
        return contents[digest]

    def run_task(self, task):
        spec = json.loads(self.fetch(task.spec))
        (kind, work), = {"nothing": None}.items() if spec["work"] == "nothing" else spec["work"].items()
        if kind == "nothing":
            self.worker.report(task, task.units, DONE)
        elif kind == "search" and work["algorithm"] in ("md5", "sha1", "sha256"):
            self.search(task, spec["space"], getattr(hashlib, work["algorithm"]), work["targets"])
        elif kind == "command":
            with tempfile.TemporaryDirectory() as scratch:
                self.command(task, spec["space"], work, scratch)
        else:
            raise Refused("this worker does not know the executor or its algorithm")

    def search(self, task, space, algorithm, targets):
        targets = {bytes.fromhex(target): i for i, target in enumerate(targets)}
        while task.units and not task.stop:
            start, hits, count = now(), b"", 0
            while count < task.units and not task.stop and now() < start + 0.5 and len(hits) < 1200:
                task.at = task.lo + count
                target = targets.get(algorithm(unit_value(space, task.at)[0]).digest())
                if target is not None:
                    hits += pack("<QI", count, target)
                count += 1
            self.worker.report(task, count, DONE, hits, now() - start)

    def command(self, task, space, work, scratch):
        while task.units and not task.stop:
            start, body, count = now(), b"", 0
            try:
                while count < task.units and not task.stop and len(body) < 600 and now() < start + 0.5:
                    task.at = task.lo + count
                    body += self.unit(task, space, work, scratch)
                    count += 1
            finally:
                self.worker.report(task, count, DONE, body, now() - start)

    def unit(self, task, space, work, scratch):
        """Runs one unit and returns its record."""
        value, names = unit_value(space, task.at, self.fetch)
        names.update({b"": value, b"index": b"%d" % task.at})

        def fill(text):
            return re.sub(rb"\{([^{}]*)\}", lambda m: names.get(m[1], m[0]), text.encode())
        env = os.environb | {name.encode(): fill(text) for name, text in work["env"].items()} | {
            b"STARFARM_JOB": b"%d" % task.job, b"STARFARM_ATTEMPT": b"%d" % task.attempt,
            b"STARFARM_UNIT_INDEX": b"%d" % task.at, b"STARFARM_SCRATCH": scratch.encode()}
        start, ended, over, timeout = now(), None, False, (work["timeout_ms"] or math.inf) / 1000
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                cwd = work.get("cwd")
                if work.get("cwd_optional") and not os.path.isdir(cwd):
                    cwd = None
                program = subprocess.Popen([fill(word) for word in work["program"]], env=env, stdout=out, cwd=cwd,
                                           stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
            except (OSError, ValueError) as error:
                return self.record(1, -1, 0, b"", str(error).encode())
            while True:
                try:
                    code = program.wait(0.05)
                    break
                except subprocess.TimeoutExpired:
                    over = over or now() > start + timeout
                    if (over or task.stop == "kill") and not ended:
                        ended = now()
                        os.killpg(program.pid, signal.SIGTERM)
                    elif ended and now() > ended + 5:
                        os.killpg(program.pid, signal.SIGKILL)
            try:
                os.killpg(program.pid, signal.SIGKILL)  # what it left in the background
            except ProcessLookupError:
                pass
            if task.stop == "kill":
                raise Stopped
            status, code = (3, 124) if over else (2, -code) if code < 0 else (int(code != 0), code)
            out.seek(0), err.seek(0)
            return self.record(status, code, now() - start, out.read(), err.read(), work.get("output_limit", {}))

    def record(self, status, code, seconds, out, err, limit={}):
        longer, keep = max(out, err, key=len), limit.get("bytes", KEEP)
        if limit.get("strict") and not status and len(longer) > keep:
            status = 5
        record = pack("<BiQ", status, code, int(seconds * 1e6))
        for data in out, err:
            if len(data) <= keep and (len(out) + len(err) <= 512 or data is not longer and len(data) <= 512):
                record += pack("<BH", 0, len(data)) + data
                continue
            kept = data if len(data) <= keep else data[:keep - keep // 2] + data[len(data) - keep // 2:]
            record += pack("<B32sQQ", 1, self.bulk(lambda bulk: bulk.put(kept)), len(kept), len(data))
        return record


# --- The worker ---

class Worker:
    def __init__(self, farm, name, state, slots):
        self.farm = farm
        state.mkdir(parents=True, exist_ok=True)
        self.key_file = os.fdopen(os.open(state / "key", os.O_RDWR | os.O_CREAT, 0o600), "r+")
        fcntl.flock(self.key_file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # one process for one key
        digits = self.key_file.read().strip() or X25519PrivateKey.generate().private_bytes_raw().hex()
        self.key_file.seek(0)
        print(digits, end="", file=self.key_file, flush=True)
        self.key, self.boot = X25519PrivateKey.from_private_bytes(bytes.fromhex(digits)), random.getrandbits(64)
        self.greeting = pack("<QB64s183x", self.boot, len(name), name.encode())
        self.sessions, self.session, self.handshakes, self.cookies = {}, None, {}, {}
        self.shake_at = self.tries = self.hello_at = self.heard_at = self.beat_at = self.beat = self.missed = self.hint_at = 0
        self.welcomed, self.refused, self.epoch, self.period, self.credit = False, None, 0, 1.0, 2
        # The newest incarnation of the scheduler that was ever obeyed, and its proof; farms have a file each.
        self.known_file = state / f"epoch-{farm['farm'].hex()}"
        known = self.known_file.read_text().split() if self.known_file.exists() else ("0", "00" * 16)
        self.known = int(known[0]), bytes.fromhex(known[1])
        self.lock = threading.Condition(threading.RLock())  # guards what slots and the main thread share:
        self.queue, self.heard, self.acks, self.contents = collections.deque(), set(), set(), {}
        self.sequence, self.results, self.datagrams, self.sent_at = 0, {}, 0, 0
        self.ups, self.up_at, self.draining, self.idle_since = 0, 0, False, 0
        self.slots = [Slot(self) for _ in range(slots)]

    def running(self):
        return [slot.task for slot in self.slots if slot.task]

    def judge(self):
        """Feedback: too few tasks wait. Not for each turn of the loop: an idle worker would ask for far too much."""
        if len(self.queue) < len(self.slots) and now() > self.up_at + 0.1 and not self.draining:
            self.ups, self.up_at = (self.ups + 1) % 2 ** 32, now()

    def report(self, task, units, outcome, body=b"", seconds=0):
        with self.lock:
            if units:
                self.sequence += 1
                self.results[self.sequence] = Result(self.sequence, task, units, outcome, body, seconds)
                task.lo, task.units = task.lo + units, task.units - units

    # Handshakes: each address has a socket, on which a session stays.

    def shake(self, addresses=None):
        if addresses is None:
            self.shake_at, addresses = now() + random.uniform(0.5, 1) * min(30, 2 ** self.tries), []
            self.tries += 1
            for host, port in (text.rsplit(":", 1) for text in self.farm["addresses"]):
                try:
                    addresses += socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
                except OSError as error:
                    say(host, error)
        for address in addresses:
            cookie, sock, until = self.cookies.get(address, (None, None, 0))
            if now() > until:
                cookie, sock = None, socket.socket(address[0], socket.SOCK_DGRAM)
            index = random.getrandbits(32)
            handshake = Handshake(self, 0, index, cookie)
            self.handshakes[index] = (handshake, sock, address, cookie)
            try:
                sock.connect(address[4])
                sock.send(handshake.packet)
            except OSError as error:
                say(address[4], error)

    def answered(self, packet):
        index = int.from_bytes(packet[4:8], "little")
        handshake, sock, address, old_cookie = self.handshakes.get(index, (None,) * 4)
        if handshake and packet[0] == 3 and (cookie := handshake.open_cookie(packet)):
            self.cookies[address] = (cookie, sock, now() + 120)
            if not old_cookie:
                self.shake([address])
        elif handshake and packet[0] == 2 and len(packet) == 312:
            session = Session(handshake, packet, sock)
            if self.session:
                self.session.until = now() + 60
            self.session = self.sessions[index] = session
            self.handshakes, self.missed = {}, 0
            say(f"session with {sock.getpeername()}, epoch {session.epoch}")
            self.hello()

    def hint(self, packet):
        """The scheduler may not know the present session. Nothing proves it: one handshake a second at most."""
        kind, index, counter = unpack("<IIQ", packet)
        session = self.session
        if session and kind == 5 and index == session.remote and 0 < session.counter - counter <= 4096:
            if now() > self.hint_at:
                self.hint_at = now() + 1
                self.shake()

    # What the worker says.

    def hello(self):
        self.welcomed, self.hello_at = False, now() + 1
        self.heartbeat((HELLO, pack("<HQHIHQ16sB", 1, self.boot, len(self.slots), QUEUE_MAX, 64, *self.known, 0)))

    def heartbeat(self, *before):
        self.judge()
        self.beat_at, self.beat = now() + self.period, self.beat + 1
        held = []
        for job, lo, units in sorted((t.job, t.lo, t.units) for t in [*self.queue, *self.running(), *(
                r for r in self.results.values() if r.outcome != RETURNED)] if t.units):
            if held and held[-1][0] == job and sum(held[-1][1:]) >= lo:
                held[-1][2] = max(held[-1][2], lo + units - held[-1][1])
            else:
                held.append([job, lo, units])
        running = [pack("<Q", t.job) + t.at.to_bytes(16, "little") for t in self.running()]
        held = [pack("<Q", job) + lo.to_bytes(16, "little") + pack("<Q", units) for job, lo, units in held]
        parts = max(1, -(-len(held) // 16))
        for i in range(parts):
            some = [] if i else running[:32]
            body = pack("<IHHIBB", self.beat, i, parts, len(self.queue), self.draining, len(some))
            self.session.send(*before, (FEEDBACK, pack("<II", self.ups, 0)),
                              (HEARTBEAT, body + b"".join(some + held[i * 16:i * 16 + 16])))
            before = ()

    def send_acks(self):
        ranges = []
        for attempt in sorted(self.acks):
            if ranges and ranges[-1][1] == attempt - 1:
                ranges[-1][1] = attempt
            else:
                ranges.append([attempt, attempt])
        self.acks.clear()
        for i in range(0, len(ranges), 64):
            self.session.send((TASK_ACK, b"".join(pack("<QQ", *r) for r in ranges[i:i + 64])))

    def send_results(self):
        """Sends what is new or has waited 1 s, later 2 s, in as many datagrams as the credit allows."""
        due = collections.deque(r for r in self.results.values() if now() > r.sent + min(2, r.tries))
        under_way = {r.datagram for r in self.results.values() if r.datagram} - {r.datagram for r in due}
        while due and len(under_way) < self.credit and (len(due) > 20 or now() > self.sent_at + 0.002):
            self.datagrams += 1
            under_way.add(self.datagrams)
            messages, room = [], ROOM
            while due:
                result, size = due[0], len(due[0].entry)
                if not messages or messages[-1][1][:40] != result.head:
                    size += 43
                if size > room:
                    break
                if size == len(result.entry):
                    messages[-1][1].extend(result.entry)
                else:
                    messages.append((RESULTS, bytearray(result.head + result.entry)))
                room -= size
                result.sent, result.datagram, result.tries = now(), self.datagrams, result.tries + 1
                due.popleft()
            self.session.send(*messages)
            self.sent_at = now()

    # What the worker hears.

    def remember(self, epoch, proof):
        self.known, fresh = (epoch, proof), self.known_file.with_suffix(".new")
        with open(fresh, "w") as file:
            print(epoch, proof.hex(), file=file, flush=True)
            os.fsync(file.fileno())
        fresh.rename(self.known_file)

    def refuse(self, farm, epoch):
        """A scheduler that is not the one to obey: silence, but for the hello of each new session."""
        if self.refused != (farm, epoch):
            say(f"not obeyed: farm {farm.hex()}, epoch {epoch}; epoch {self.known[0]} is known")
        self.refused = (farm, epoch)
        if not self.welcomed and self.session:
            self.session.until, self.session = now() + 60, None

    def hear(self, session, message):
        if session.epoch >= self.known[0]:
            self.heard_at, self.missed = now(), 0
        while len(message) >= 3:
            kind, length = unpack_from("<BH", message)
            body, message = message[3:3 + length], message[3 + length:]
            if kind == WELCOME:
                farm, epoch, period, credit, version, proof = unpack("<16sQIHH16s", body)
                if farm != self.farm["farm"] or epoch < self.known[0]:
                    self.refuse(farm, epoch)
                    continue
                if version != 1:
                    sys.exit(f"the scheduler speaks version {version} of the messages, this worker version 1")
                self.period, self.credit, self.tries = min(60, max(0.1, period / 1000)), credit, 0
                if epoch > self.known[0]:
                    self.remember(epoch, proof)
                if self.epoch != epoch:
                    self.epoch, self.refused = epoch, None
                    self.heard.clear()
                if not self.welcomed:
                    self.welcomed = True
                    for result in self.results.values():
                        result.sent, result.tries = -math.inf, 0
            elif session.epoch != self.epoch:  # of another incarnation than the one obeyed
                continue
            elif kind == OFFERS and self.welcomed:  # before the welcome they are dropped, and come again
                job, spec, attempt = unpack_from("<Q32sQ", body)
                for i in range(48, len(body), 24):
                    self.offer(job, spec, attempt, int.from_bytes(body[i:i + 16], "little"),
                               *unpack_from("<Q", body, i + 16))
                    attempt += 1
            elif kind == RESULT_ACK:
                self.credit, = unpack_from("<H", body)
                for i in range(2, len(body), 16):
                    first, last = unpack_from("<QQ", body, i)
                    for sequence in [s for s in self.results if first <= s <= last]:
                        del self.results[sequence]
            elif kind == HEARTBEAT_ANSWER:
                _, credit, epoch = unpack("<IHQ", body)
                if epoch >= self.epoch:
                    self.credit = credit
                if self.welcomed and epoch > self.epoch:
                    self.hello()
            elif kind == REVOKE:
                job, kill, before = unpack("<QBQ", body)
                self.let_go(lambda t: t.job == job and (t.attempt < before or t.epoch != self.epoch), kill)

    def offer(self, job, spec, attempt, lo, units):
        if attempt not in self.heard:
            same = [t for t in [*self.queue, *self.running()]
                    if (t.job, t.spec, t.lo, t.units, t.stop) == (job, spec, lo, units, "")]
            if same and not self.draining:
                if same[0] in self.queue:
                    same[0].attempt, same[0].epoch = attempt, self.epoch
            elif len(self.queue) == QUEUE_MAX:
                return
            else:  # while draining the main loop returns it
                self.queue.append(Task(job, spec, attempt, lo, units, self.epoch))
                self.lock.notify()
            self.heard.add(attempt)
        self.acks.add(attempt)

    def let_go(self, meant, kill):
        for task in [t for t in self.queue if meant(t)]:
            self.queue.remove(task)
            self.report(task, task.units, RETURNED)
        for task in filter(meant, self.running()):
            task.stop = "kill" if kill or task.stop == "kill" else "trim"

    # The loop.

    def tick(self):
        session, idle = self.session, not self.queue and not self.running()
        if not session or now() > session.born + 600 or self.missed >= 3 or idle and now() > self.heard_at + 60:
            if now() > self.shake_at:
                self.shake()
        if session:
            self.sessions = {index: s for index, s in self.sessions.items() if s.until > now()}
            if not self.welcomed and now() > self.hello_at:
                self.hello()
            elif now() > self.beat_at:
                self.missed += 1
                self.heartbeat()
        if session and self.welcomed:
            self.send_acks()
            self.send_results()

    def drain(self, *_):
        self.draining, self.idle_since = True, now()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends at once
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def main(self):
        signal.signal(signal.SIGTERM, self.drain)
        signal.signal(signal.SIGINT, self.drain)
        for slot in self.slots:
            slot.start()
        while True:
            socks = {s.sock for s in self.sessions.values()} | {sock for _, sock, *_ in self.handshakes.values()}
            for sock in select.select(socks, [], [], 0.005 if self.running() or self.results else 0.05)[0]:
                with self.lock:
                    try:
                        packet = sock.recv(2048)
                        session = self.sessions.get(int.from_bytes(packet[4:8], "little"))
                        if packet[0] in (2, 3):
                            self.answered(packet)
                        elif packet[0] == 5:
                            self.hint(packet)
                        elif packet[0] == 4 and session:
                            self.hear(session, session.open(packet))
                    except (OSError, InvalidTag, Malformed, IndexError, ValueError):
                        continue
            with self.lock:
                self.tick()
                if self.draining:
                    self.let_go(lambda task: True, False)
                    if not self.running() and (not self.results or now() > self.idle_since + 5):
                        if self.session:
                            self.session.send((BYE, b""))
                        return say("bye")


def read_join(path):
    join = json.loads(pathlib.Path(path).read_text())
    fields = {"about", "version", "farm", "addresses", "scheduler_key", "join_key", "join_secret", "role"}
    if join.get("version") != 1 or set(join) != fields:
        sys.exit(f"{path} is not a join file of version 1")
    for field in "farm", "scheduler_key", "join_key", "join_secret":
        join[field] = bytes.fromhex(join[field])
    name = blake3(join["join_secret"], derive_key_context="starfarm 2026 join key id v1").digest(8)
    if name != join["join_key"]:
        sys.exit(f"{path} is damaged")
    return join


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A starfarm worker in Python.")
    parser.add_argument("--join", required=True, metavar="FILE", help="the join file")
    parser.add_argument("--state", required=True, metavar="DIR", type=pathlib.Path, help="where the key is kept")
    parser.add_argument("--name", default=socket.gethostname().split(".")[0] + "-py")
    parser.add_argument("--slots", type=int, default=2)
    args = parser.parse_args()
    Worker(read_join(args.join), args.name, args.state, args.slots).main()
