#!/usr/bin/env python3
"""Hostile bytes on the sockets of real daemons: each is answered with a status that says what is wrong, and
after each the daemon still serves a good request."""
import random
import re
import socket
import struct
import unittest

import grpc
import numpy as np

import real_cluster
import wire
from real_cluster import Directory, RealCluster

INVALID = grpc.StatusCode.INVALID_ARGUMENT
SIX_ONES = np.ones(6, np.float32).tobytes()
SEED = 20260607


def setUpModule():
    global STUBS
    directory = Directory()
    unittest.addModuleCleanup(directory.__exit__)
    STUBS = wire.generate(directory.path)


def layout(change=None):
    """"w" [3, 2] on tablet 0 and "table" [4, 4] on tablet 1, and what `change` makes of it."""
    made = STUBS.Layout(optimizers=[wire.optimizer(STUBS, "SGD", learning_rate=1.0)])
    for number, (name, dims) in enumerate((("w", [3, 2]), ("table", [4, 4]))):
        made.variables.add(name=name, dtype=STUBS.FLOAT32, dims=dims, trainable=True,
                           initializer=STUBS.InitializerSpec(class_name="Zeros"))
        made.shards.add(shard=number, variable=number, rows=dims[0], tablet=number)
        made.tablets.add(tablet=number, ps=0)
    if change is not None:
        change(made)
    return made


def put(**fields):
    """A change that sets fields of a message named by a path: entry__count=5."""
    def change(targets):
        for path, value in fields.items():
            target, _, field = path.rpartition("__")
            setattr(targets[target], field, value)
    return change


# name, what is changed in a good push of "w" (its parts: header, push, section, entry), the payload, the message.
PUSHES = [
    ("no payload", put(), [], "need more than the 0 payload fields"),
    ("payload too many", put(), [SIX_ONES] * 2, "need 1 payload fields, there are 2"),
    ("a short payload", put(), [SIX_ONES[:-4]], "20 bytes of values for 6 elements of 4 bytes"),
    ("another dtype", put(), [np.ones(6).tobytes()], "48 bytes of values for 6 elements of 4 bytes"),
    ("a part for the whole", put(entry__count=5), [SIX_ONES[:20]], "a gradient of 5 of its 6 elements"),
    ("a huge count", put(entry__count=2**63), [SIX_ONES], "9223372036854775808 from 0, but it has 6"),
    ("begin -1", put(entry__begin=2**64 - 1), [SIX_ONES], "from 18446744073709551615, but it has 6"),
    ("unknown shard", put(entry__shard=77), [SIX_ONES], "shard 77 is not in tablet 0"),
    ("no kind", put(entry__kind=0), [SIX_ONES], "push kind 0 is unknown"),
    ("a kind to come", put(entry__kind=55), [SIX_ONES], "push kind 55 is unknown"),
    ("sparse without keys", put(entry__sparse=True), [SIX_ONES], "need more than the 1 payload fields"),
    ("a key beyond", put(section__tablet=1, entry__shard=1, entry__sparse=True, entry__count=1),
     [struct.pack("<q", 99), bytes(16)], "key 99 is not one of its 4 rows"),
    ("a negative key", put(section__tablet=1, entry__shard=1, entry__sparse=True, entry__count=1),
     [struct.pack("<q", -1), bytes(16)], "key -1 is not one of its 4 rows"),
    ("weight nan", put(push__weight=float("nan")), [SIX_ONES], "weight is nan"),
    ("weight negative", put(push__weight=-2.0), [SIX_ONES], "weight is -2"),
    ("a closure far away", put(id__closure=2**60), [SIX_ONES], "above the settled watermark"),
    ("an ordinal far away", put(id__ordinal=2**32 - 1), [SIX_ONES], "at most 65536 steps"),
]

# name, the bytes of one message, the message of the status that ends the stream.
BYTES = [
    ("noise", random.Random(SEED).randbytes(1000), "is not a cohort.v1.PushPullHeader"),
    ("text", b"GET / HTTP/1.1\r\n\r\n", "is not a cohort.v1.PushPullHeader"),
    ("a length beyond the end", b"\x12\xff\xff\xff\x7f", "a payload beyond the end"),
    ("an endless varint", b"\x0a" + b"\xff" * 20, "is not a cohort.v1.PushPullHeader"),
    ("a group", b"\x0b" * 50, "is not a cohort.v1.PushPullHeader"),
    ("a huge header", b"\x0a\x80\x80\x80\x04" + bytes(2**23), "a header that is too long"),
    ("a huge word", b"\x1a\x80\x80\x80\x04" + bytes(2**23), "a shared-payload field that is too long"),
]


def add_tablets(sections, first, count):
    for tablet in range(first, first + count):
        sections.add(tablet=tablet)


# name, what makes a good push name too much, the message.
CROWDS = [
    ("tablets of a push", lambda h: add_tablets(h.push.sections, 1, 1024), "more than 1024 tablets pushed to"),
    ("tablets of a pull", lambda h: add_tablets(h.pull.sections, 0, 1025), "more than 1024 tablets pulled from"),
    ("a tablet pulled twice", lambda h: (add_tablets(h.pull.sections, 0, 2), add_tablets(h.pull.sections, 1, 1)),
     "tablet 1 is pulled twice in one request"),
    ("one shard many times", lambda h: h.pull.sections.add(term=1).entries.extend([STUBS.PullEntry()] * 65537),
     "more than 65536 entries of pulls"),
]

# name, what is changed in a good layout, the message.
LAYOUTS = [
    ("rows beyond", lambda l: put(s__rows=99)({"s": l.shards[0]}), "which has 3"),
    ("row -1", lambda l: put(s__row_begin=2**64 - 1)({"s": l.shards[0]}), "from 18446744073709551615"),
    ("rows that nobody has", lambda l: put(s__rows=2)({"s": l.shards[0]}), "row 2 of 'w' is in no shard"),
    ("variable 9", lambda l: put(s__variable=9)({"s": l.shards[0]}), "belongs to variable 9, and there are 2"),
    ("tablet 9", lambda l: put(s__tablet=9)({"s": l.shards[0]}), "tablet 9, which does not exist"),
    ("one shard twice", lambda l: put(s__shard=0)({"s": l.shards[1]}), "shard 0 occurs twice"),
    ("a negative size", lambda l: l.variables[0].dims.__setitem__(1, -3), "cannot be served"),
    ("no dtype", lambda l: put(v__dtype=0)({"v": l.variables[0]}), "cannot be served"),
    ("a trainable bool", lambda l: put(v__dtype=6)({"v": l.variables[0]}), "is trainable, but bool"),
    ("unknown initializer", lambda l: put(i__class_name="Orthogonall")({"i": l.variables[0].initializer}),
     "is not one of GlorotUniform"),
    ("unknown optimizer", lambda l: put(r__class_name="Lyon")({"r": l.optimizers[0].rule}),
     "there are Adadelta, Adafactor, Adagrad"),
    ("optimizer 9", lambda l: put(v__optimizer=9)({"v": l.variables[0]}), "has optimizer 9, and there are 1"),
    ("no optimizer", lambda l: l.ClearField("optimizers"), "is trainable, but there is no optimizer"),
    ("an argument of another type",
     lambda l: put(m__s="fast")({"m": l.optimizers[0].rule.config["learning_rate"]}),
     'learning_rate must be a number or a schedule, not "fast"'),
    ("more than the machine has", lambda l: (l.variables[0].dims.__setitem__(0, 2**45),
                                             put(s__rows=2**45)({"s": l.shards[0]})), "use more parameter servers"),
]


class HostilePs(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(Directory())
        self.cluster = self.enterContext(RealCluster(self.directory, ps=1, workers=1))
        self.cluster.start_listening("ps")
        self.address = self.cluster.cluster["ps"][0]
        self.chief = wire.Chief(STUBS, self.address)
        self.chief.assign(layout())
        self.closure = 0
        self.friend = wire.Stream(STUBS, self.address, "PushPull")

    def push(self, change=None, payload=(SIX_ONES,)):
        self.closure += 1
        request = STUBS.PushPullRequest(payload=list(payload))
        header = request.header
        header.sequence, header.generation = 1, 1
        push = header.push
        push.id.closure, push.timeline, push.weight, push.attempt = self.closure, 1, 1.0, 1
        section = push.sections.add(tablet=0, term=1)
        entry = section.entries.add(shard=0, kind=STUBS.GRADIENT, count=6)
        if change is not None:
            change({"header": header, "push": push, "id": push.id, "section": section, "entry": entry})
        return request

    def check_it_serves(self):
        """A good push on a stream that was opened before all the others."""
        result, = self.friend.ask(self.push()).header.pushes
        self.assertEqual((result.status, result.message), (STUBS.APPLIED, ""))
        self.assertTrue(self.cluster.running("ps"), self.cluster.text("ps"))

    def test_pushes_that_make_no_sense(self):
        for name, change, payload, message in PUSHES:
            with self.subTest(name):
                stream = wire.Stream(STUBS, self.address, "PushPull")
                answer = stream.ask(self.push(change, payload)).header
                if answer.HasField("error"):
                    self.assertEqual(answer.error.code, 3)  # InvalidArgument
                    self.assertIn(message, answer.error.message)
                else:
                    result, = answer.pushes
                    self.assertEqual(result.status, STUBS.INVALID)
                    self.assertIn(message, result.message)
                stream.end()
                self.check_it_serves()

    def test_pulls_that_make_no_sense(self):
        for name, entry, message in (
                ("unknown shard", {"shard": 9}, "shard 9 is not in tablet 0"),
                ("rows without keys", {"shard": 0, "rows": True, "count": 2**62}, "need more than the 0 payload")):
            with self.subTest(name):
                request = STUBS.PushPullRequest()
                request.header.sequence, request.header.generation = 1, 1
                request.header.pull.sections.add(tablet=0, term=1).entries.add(**entry)
                answer = self.friend.ask(request).header
                said = answer.error.message or answer.pulls[0].message
                self.assertIn(message, said)
                self.check_it_serves()

    def test_bytes_that_are_no_message_end_their_stream_alone(self):
        for name, data, message in BYTES:
            with self.subTest(name):
                stream = wire.Stream(STUBS, self.address, "PushPull", raw=True)
                stream.send(data)
                code, details = stream.end()
                self.assertEqual(code, INVALID)
                self.assertIn(message, details)
                self.check_it_serves()

    def test_requests_that_name_too_much(self):
        for name, change, message in CROWDS:
            with self.subTest(name):
                request = self.push()
                change(request.header)
                answer = self.friend.ask(request).header
                self.assertIn(message, answer.error.message)
                self.check_it_serves()

    def test_two_updates_that_are_each_near_enough_but_not_together(self):
        far = self.push(put(id__closure=2**27 - 1))
        wide = self.push(put(id__ordinal=65535))
        self.assertEqual(self.friend.ask(far).header.pushes[0].status, STUBS.APPLIED)
        result, = self.friend.ask(wide).header.pushes
        self.assertEqual(result.status, STUBS.INVALID)
        self.assertIn("others lie too far above", result.message)
        self.check_it_serves()

    def test_messages_of_one_update_that_say_different_things(self):
        half = self.push(put(header__more=True, entry__count=3), [SIX_ONES[:12]])
        for name, change in (("place", put(push__place=7)), ("weight", put(push__weight=4.0)),
                             ("step", lambda parts: setattr(parts["push"].step, "step", 1))):
            with self.subTest(name):
                rest = STUBS.PushPullRequest()
                rest.CopyFrom(half)
                change({"push": rest.header.push})
                stream = wire.Stream(STUBS, self.address, "PushPull")
                stream.send(half)
                stream.send(rest)
                code, details = stream.end()
                self.assertEqual(code, INVALID)
                self.assertIn("messages of one request differ", details)
                self.check_it_serves()

    def test_an_oversized_message(self):
        stream = wire.Stream(STUBS, self.address, "PushPull", raw=True)
        stream.send(bytes((256 << 20) + 1))
        code, details = stream.end()
        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("larger than max", details)
        self.check_it_serves()

    def test_parts_of_two_updates_under_one_sequence(self):
        half = self.push(put(header__more=True, entry__count=3), [SIX_ONES[:12]])
        other = self.push(put(entry__begin=3, entry__count=3), [SIX_ONES[:12]])
        stream = wire.Stream(STUBS, self.address, "PushPull")
        stream.send(half)
        stream.send(other)
        code, details = stream.end()
        self.assertEqual(code, INVALID)
        self.assertIn("in one request", details)
        self.check_it_serves()

    def test_a_request_of_many_small_messages_takes_little_memory(self):
        def most():
            with open("/proc/%d/status" % self.cluster.processes["ps", 0].pid) as f:
                return int(re.search(r"VmHWM:\s*(\d+) kB", f.read())[1]) << 10

        part = STUBS.PushPullRequest()
        part.header.sequence = 1
        part.header.more = True
        before = most()
        stream = wire.Stream(STUBS, self.address, "PushPull", raw=True)
        for _ in range(8190):
            stream.send(part.SerializeToString())
        part.header.more = False
        self.assertFalse(STUBS.PushPullResponse.FromString(stream.ask(part.SerializeToString())).header.error.code)
        self.assertLess(most() - before, 32 << 20)
        self.check_it_serves()

    def test_what_is_not_grpc(self):
        host, port = self.address.split(":")
        noise = random.Random(SEED).randbytes(4096)
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        for name, data in (("noise", noise), ("HTTP/1", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
                           ("noise in HTTP/2", preface + noise),
                           ("a huge frame", preface + b"\xff\xff\xff\x04\x00\x00\x00\x00\x00")):
            with self.subTest(name), socket.create_connection((host, int(port))) as connection:
                connection.settimeout(30 * real_cluster.SCALE)
                connection.sendall(data)
                try:
                    while connection.recv(4096):
                        pass
                except ConnectionResetError:
                    pass
                self.check_it_serves()

    def test_layouts_that_make_no_sense(self):
        for name, change, message in LAYOUTS:
            with self.subTest(name):
                with self.assertRaises(AssertionError) as refused:
                    self.chief.assign(layout(change))
                self.assertIn(message, str(refused.exception).replace("\\'", "'").replace('\\"', '"'))
                self.assertEqual(self.chief.assign(layout()), [0, 1])
                self.check_it_serves()

    def test_a_chief_that_is_none(self):
        def control(message):
            stream = wire.Stream(STUBS, self.address, "Control")
            answer = stream.ask(message)
            stream.end()
            self.check_it_serves()
            return answer

        assign = STUBS.ChiefToPs(generation=1, request=4, assign=STUBS.AssignTablets(layout=layout()))
        self.assertIn("not adopted on this connection", control(assign).fenced.why)
        nobody = STUBS.ChiefToPs(request=4, adopt=STUBS.AdoptPs(
            job="x", protocol_version=wire.protocol(STUBS), **wire.checkpoint_directory()))
        self.assertIn("a chief without a generation", control(nobody).status.message)
        stranger = STUBS.ChiefToPs(generation=9, request=4, adopt=STUBS.AdoptPs(
            job="another", protocol_version=wire.protocol(STUBS), **wire.checkpoint_directory()))
        self.assertIn("works for the chief of job by hand", control(stranger).fenced.why)
        lost = STUBS.ChiefToPs(generation=9, request=4, adopt=STUBS.AdoptPs(
            job="by hand", protocol_version=wire.protocol(STUBS), expected=STUBS.TaskId(type="ps", index=3),
            **wire.checkpoint_directory()))
        self.assertIn("TF_CONFIG of the two differ", control(lost).status.message)
        for data in (b"hello", random.Random(SEED).randbytes(500)):
            stream = wire.Stream(STUBS, self.address, "Control", raw=True)
            stream.send(data)
            code, details = stream.end()
            self.assertEqual(code, INVALID)
            self.assertIn("is not a cohort.v1.ChiefToPs", details)
            self.check_it_serves()

    def test_peers_of_another_major_version(self):
        major = self.chief.hello.protocol_version.major
        self.assertGreaterEqual(major, 1)
        adopt = STUBS.AdoptPs(job="by hand", protocol_version=STUBS.ProtocolVersion(major=99, minor=3))
        stream = wire.Stream(STUBS, self.address, "Control")
        refused = stream.ask(STUBS.ChiefToPs(generation=9, request=4, adopt=adopt))
        self.assertIn("the chief speaks protocol 99.3, ps:0 speaks %d." % major, refused.status.message)
        self.assertIn("install the same major version", refused.status.message)
        self.assertEqual(refused.hello.heard_generation, 1)
        stream.end()
        self.check_it_serves()
        for version, code, message in (("99.3", grpc.StatusCode.FAILED_PRECONDITION, "the client speaks protocol 99.3"),
                                       ("new", INVALID, 'is "new", which is not a version')):
            stream = wire.Stream(STUBS, self.address, "PushPull", metadata=[("cohort-protocol-version", version)])
            stream.send(self.push())
            self.assertEqual(stream.end()[0], code)
            self.check_it_serves()
            stream = wire.Stream(STUBS, self.address, "PushPull", metadata=[("cohort-protocol-version", version)])
            self.assertIn(message, stream.end()[1])
        stream = wire.Stream(STUBS, self.address, "PushPull",
                             metadata=[("cohort-protocol-version", "%d.99" % major)])
        self.assertEqual(stream.ask(self.push()).header.pushes[0].status, STUBS.APPLIED)
        stream.end()

    def test_orders_that_cannot_be_carried_out(self):
        for order, message in (
                ({"assign": STUBS.AssignTablets(layout=layout(), timeline=1, term=1,
                                                restore_from=self.directory + "/none/manifest.json")},
                 "none/manifest.json"),
                ({"assign": STUBS.AssignTablets(layout=layout(), ps=5, timeline=1)}, "tablets of ps:5"),
                ({"snapshot": STUBS.TakeSnapshot(cut=1, timeline=9, directory=self.directory)}, "of timeline 9"),
                ({}, "does not know this message")):
            with self.assertRaises(AssertionError) as refused:
                self.chief.ask(**order)
            self.assertIn(message, str(refused.exception))
            self.assertEqual(self.chief.assign(layout()), [0, 1])
            self.check_it_serves()

    def test_there_is_no_such_method(self):
        stream = wire.Stream(STUBS, self.address, "Nothing", raw=True)
        stream.send(b"x")
        code, details = stream.end()
        self.assertEqual(code, grpc.StatusCode.UNIMPLEMENTED)
        self.assertIn("/cohort.v1.ParameterServer/Nothing", details)
        self.check_it_serves()


def square():
    """A program of one argument: its output is x * x."""
    s = STUBS
    x = s.ValueType(dtype=s.FLOAT32, dims=[s.Dim(size=2)])
    return s.Program(
        format_version=1, name="square", values=[x, x], arguments=[s.Argument(name="x", value=0)],
        nodes=[s.Node(op="input", outputs=[0], attrs={"index": s.Attr(i=0)}),
               s.Node(op="mul", inputs=[0, 0], outputs=[1])],
        outputs=[s.Output(name="y", value=1)])


# name, what is changed in a good program, the message.
PROGRAMS = [
    ("a format to come", lambda p: put(p__format_version=9)({"p": p}), "program format 9 is not 1"),
    ("unknown op", lambda p: put(n__op="square_root_of")({"n": p.nodes[1]}), "square_root_of"),
    ("an input that is not made", lambda p: p.nodes[1].inputs.__setitem__(0, 1), "value 1"),
    ("an input beyond", lambda p: p.nodes[1].inputs.__setitem__(0, 99), "99"),
    ("a negative input", lambda p: p.nodes[1].inputs.__setitem__(0, -1), "-1"),
    ("inputs too few", lambda p: p.nodes[1].inputs.pop(), "mul"),
    ("another shape than it has", lambda p: put(d__size=7)({"d": p.values[1].dims[0]}), "mul"),
    ("an output beyond", lambda p: put(o__value=12)({"o": p.outputs[0]}), "12"),
    ("a negative size", lambda p: put(d__size=-2)({"d": p.values[0].dims[0]}), "-2"),
    ("no dtype", lambda p: put(v__dtype=0)({"v": p.values[0]}), "dtype"),
    ("a symbol that is not there", lambda p: put(d__symbol=5)({"d": p.values[0].dims[0]}), "symbol"),
    ("another fingerprint", lambda p: None, "the program sent as ffff"),
]


class HostileWorker(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(Directory())
        self.cluster = self.enterContext(RealCluster(self.directory, ps=1, workers=1))
        self.cluster.start_listening("worker")
        self.stream = wire.Stream(STUBS, self.cluster.cluster["worker"][0], "Control", service="Worker")
        self.request = 0
        self.ask(adopt=STUBS.AdoptWorker(job="by hand", chief_incarnation=7,
                                         protocol_version=wire.protocol(STUBS)))

    def ask(self, **body):
        self.request += 1
        return self.stream.ask(STUBS.ChiefToWorker(generation=1, request=self.request, **body))

    def run_closure(self, **closure):
        """The result of one closure that is dispatched to the worker."""
        self.request += 1
        made = STUBS.Closure(id=self.request, attempt=1, steps=1, **closure)
        result, = self.ask(dispatch=STUBS.Dispatch(closures=[made])).results.results
        self.assertEqual(result.id, made.id)
        return result

    def register_a_good_program(self):
        """Registers `square` under the fingerprint that the worker says it has."""
        refused = self.ask(program=STUBS.RegisterProgram(fingerprint="0" * 32, program=square()))
        fingerprints = re.findall(r"\b[0-9a-f]{32}\b", refused.status.message.replace("0" * 32, ""))
        self.assertEqual(len(fingerprints), 1, refused)
        registered = self.ask(program=STUBS.RegisterProgram(fingerprint=fingerprints[0], program=square()))
        self.assertEqual(registered.status.code, 0, registered)
        return fingerprints[0]

    def check_it_serves(self, program):
        value = STUBS.TensorValue(dtype=STUBS.FLOAT32, dims=[2], data=np.array([3, 4], np.float32).tobytes())
        result = self.run_closure(program=program, arguments=[value])
        self.assertEqual(result.status.code, 0, result)
        np.testing.assert_array_equal(np.frombuffer(result.outputs[0].data, np.float32), [9, 16])

    def test_programs_that_fail_validation(self):
        good = self.register_a_good_program()
        for name, change, message in PROGRAMS:
            with self.subTest(name):
                program = square()
                change(program)
                refused = self.ask(program=STUBS.RegisterProgram(fingerprint="f" * 32, program=program))
                self.assertEqual(refused.status.code, 3, refused)
                self.assertIn(message, refused.status.message)
                self.check_it_serves(good)

    def test_closures_that_cannot_run(self):
        good = self.register_a_good_program()

        def tensor(dims, data, dtype=STUBS.FLOAT32):
            return STUBS.TensorValue(dtype=dtype, dims=dims, data=data)

        for name, closure, message in (
                ("unknown program", {"program": "feed"}, "program feed was never registered"),
                ("unknown dataset", {"program": good, "resource": "nobody"}, "nobody"),
                ("no argument", {"program": good}, "argument"),
                ("another shape", {"program": good, "arguments": [tensor([9], bytes(36))]}, '"x" is float32[2]'),
                ("another dtype", {"program": good, "arguments": [tensor([2], bytes(16), STUBS.INT64)]},
                 "is fed int64[2]"),
                ("torn bytes", {"program": good, "arguments": [tensor([2], bytes(3))]}, "3"),
                ("a huge size", {"program": good, "arguments": [tensor([2**40, 2**40], b"")]}, "a tensor of 0 bytes"),
                ("a negative size", {"program": good, "arguments": [tensor([-2], bytes(8))]}, "-2")):
            with self.subTest(name):
                result = self.run_closure(**closure)
                self.assertNotEqual(result.status.code, 0)
                self.assertIn(message, result.status.message)
                self.check_it_serves(good)

    def test_datasets_that_cannot_be_opened(self):
        good = self.register_a_good_program()
        def dataset_of(name, **config):
            values = {key: STUBS.ConfigValue(s=value) for key, value in config.items()}
            return STUBS.DatasetSpec(source_class=STUBS.ClassConfig(class_name=name, config=values), label="x")

        for dataset, message in ((STUBS.DatasetSpec(), "needs a source"),
                                 (dataset_of("tsv"), 'no source "tsv"'),
                                 (dataset_of("csv"), "needs its argument `path`"),
                                 (dataset_of("csv", path="a", delimiter="ab"), "must be one character"),
                                 (dataset_of("csv", path=self.directory + "/none.csv"), "none.csv does not exist")):
            refused = self.ask(resource=STUBS.CreateResource(name="r", batch_size=4, dataset=dataset))
            self.assertIn(message, refused.status.message)
            self.check_it_serves(good)

    def test_a_chief_of_another_major_version(self):
        stream = wire.Stream(STUBS, self.cluster.cluster["worker"][0], "Control", service="Worker")
        adopt = STUBS.AdoptWorker(job="by hand", protocol_version=STUBS.ProtocolVersion(major=99))
        refused = stream.ask(STUBS.ChiefToWorker(generation=9, request=1, adopt=adopt))
        self.assertIn("the chief speaks protocol 99.0, worker:0 speaks ", refused.status.message)
        self.assertEqual(refused.hello.heard_generation, 1)
        stream.end()
        self.check_it_serves(self.register_a_good_program())

    def test_bytes_that_are_no_message(self):
        good = self.register_a_good_program()
        for data in (b"hello", random.Random(SEED).randbytes(500)):
            stream = wire.Stream(STUBS, self.cluster.cluster["worker"][0], "Control", service="Worker", raw=True)
            stream.send(data)
            code, details = stream.end()
            self.assertEqual(code, INVALID)
            self.assertIn("is not a cohort.v1.ChiefToWorker", details)
            self.check_it_serves(good)


if __name__ == "__main__":
    unittest.main(verbosity=2)
