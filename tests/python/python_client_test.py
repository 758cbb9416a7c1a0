#!/usr/bin/env python3
"""A client in Python, generated from proto/, pulls from and pushes to real parameter servers."""
import json
import os
import unittest

import numpy as np

import real_cluster
import wire
from real_cluster import Directory, RealCluster

ROWS, WIDTH = 8, 4


def setUpModule():
    global STUBS
    directory = Directory()
    unittest.addModuleCleanup(directory.__exit__)
    STUBS = wire.generate(directory.path)


def layout(optimizer):
    """A dense variable "w" [3, 2] of fives, and a table [8, 4] in two shards on two tablets."""
    s = STUBS
    made = s.Layout(optimizers=[optimizer])
    made.variables.add(name="w", dtype=s.FLOAT32, dims=[3, 2], trainable=True,
                       initializer=s.InitializerSpec(class_name="Constant", value=5))
    made.variables.add(name="table", dtype=s.FLOAT32, dims=[ROWS, WIDTH], trainable=True, row_reads=True,
                       initializer=s.InitializerSpec(class_name="RandomUniform", minval=-1, maxval=1, seed=3))
    made.shards.add(shard=0, variable=0, row_begin=0, rows=3, tablet=0)
    made.shards.add(shard=1, variable=1, row_begin=0, rows=ROWS // 2, tablet=0)
    made.shards.add(shard=2, variable=1, row_begin=ROWS // 2, rows=ROWS // 2, tablet=1)
    made.tablets.add(tablet=0, ps=0)
    made.tablets.add(tablet=1, ps=0)
    return made


class Client:
    """Pulls and pushes over one PushPull stream."""

    def __init__(self, address, generation=1):
        self._stream = wire.Stream(STUBS, address, "PushPull")
        self._generation = generation
        self._sequence = 0
        self.timeline, self.term, self.watermark = 1, 1, 0

    def _request(self):
        self._sequence += 1
        request = STUBS.PushPullRequest()
        request.header.sequence = self._sequence
        request.header.generation = self._generation
        request.header.settled_watermark = self.watermark
        return request

    def _answers(self, request):
        """The messages that answer one request."""
        answers = [self._stream.ask(request)]
        while answers[-1].header.more:
            answers.append(self._stream.receive())
        assert all(a.header.sequence == self._sequence for a in answers)
        return answers

    def send_part(self, request):
        """Sends a part of a request; further parts follow under the same sequence."""
        request.header.more = True
        self._stream.send(request)

    def push(self, closure, entries, weight=1.0, ordinal=0, attempt=1, parts=1):
        """Pushes {tablet: [(shard, keys or None, values)]}; the results by tablet.

        With parts=2 the values of the (dense) entries travel in two messages of one request.
        """
        request = None
        for part in range(parts):
            request = request or self._request()
            push = request.header.push
            push.id.closure, push.id.ordinal = closure, ordinal
            push.attempt, push.place, push.timeline, push.weight = attempt, closure, self.timeline, weight
            for tablet, pushed in sorted(entries.items()):
                section = push.sections.add(tablet=tablet, term=self.term)
                for shard, keys, values in pushed:
                    flat = np.array_split(np.asarray(values, np.float32).ravel(), parts)
                    entry = section.entries.add(shard=shard, kind=STUBS.GRADIENT, sparse=keys is not None)
                    entry.begin = 0 if keys is not None else sum(f.size for f in flat[:part])
                    entry.count = len(keys) if keys is not None else flat[part].size
                    if keys is not None:
                        request.payload.append(np.asarray(keys, np.int64).tobytes())
                    request.payload.append(flat[part].tobytes())
            if part + 1 < parts:
                self.send_part(request)
                header = request.header
                request = STUBS.PushPullRequest()
                request.header.sequence, request.header.generation = header.sequence, header.generation
        return {r.tablet: r for answer in self._answers(request) for r in answer.header.pushes}

    def pull(self, entries):
        """Pulls {tablet: [(shard, keys or None)]}; ({shard: flat array}, results by tablet)."""
        request = self._request()
        for tablet, pulled in sorted(entries.items()):
            section = request.header.pull.sections.add(tablet=tablet, term=self.term)
            for shard, keys in pulled:
                section.entries.add(shard=shard, rows=keys is not None, count=len(keys or []))
                if keys is not None:
                    request.payload.append(np.asarray(keys, np.int64).tobytes())
        values, results = {}, {}
        for answer in self._answers(request):
            payload = iter(answer.payload)
            for result in answer.header.pulls:
                results[result.tablet] = result
                for entry in result.entries:
                    part = np.frombuffer(next(payload), np.float32)
                    values[entry.shard] = np.concatenate([values.get(entry.shard, part[:0]), part])
        return values, results


class PythonClient(unittest.TestCase):
    """One cohort-ps, and the test as its chief and its worker."""

    def setUp(self):
        self.directory = self.enterContext(Directory())
        self.cluster = self.enterContext(RealCluster(self.directory, ps=1, workers=1))
        self.cluster.start_listening("ps", 0, ["--apply_log", self.cluster.apply_log(0)])
        self.address = self.cluster.cluster["ps"][0]
        self.chief = wire.Chief(STUBS, self.address)

    def serve(self, name, **arguments):
        self.assertEqual(self.chief.assign(layout(wire.optimizer(STUBS, name, **arguments))), [0, 1])
        return Client(self.address)

    def status(self, results):
        return {tablet: STUBS.SectionStatus.Name(r.status) for tablet, r in results.items()}

    def everything(self, client):
        values, results = client.pull({0: [(0, None), (1, None)], 1: [(2, None)]})
        self.assertEqual(self.status(results), {0: "APPLIED", 1: "APPLIED"})
        return (values[0].reshape(3, 2), np.concatenate([values[1], values[2]]).reshape(ROWS, WIDTH))

    def test_hello_says_who_it_is(self):
        hello = self.chief.hello
        self.assertEqual((hello.task.type, hello.task.index, list(hello.tablets)), ("ps", 0, []))
        self.assertEqual(hello.fingerprint.device_kind, "cpu")
        self.assertGreater(hello.incarnation, 0)

    def test_a_push_moves_the_weights_by_exactly_sgd(self):
        client = self.serve("SGD", learning_rate=0.5)
        w, table = self.everything(client)
        np.testing.assert_array_equal(w, np.full((3, 2), 5, np.float32))
        self.assertTrue((np.abs(table) <= 1).all() and np.unique(table).size > ROWS)
        gradient = np.arange(6, dtype=np.float32)
        rows = np.arange(8, dtype=np.float32).reshape(2, WIDTH)
        results = client.push(0, {0: [(0, None, gradient), (1, [1, 3], rows)], 1: [(2, [0, 2], -rows)]},
                              weight=4.0)
        self.assertEqual(self.status(results), {0: "APPLIED", 1: "APPLIED"})
        self.assertEqual([results[t].version for t in (0, 1)], [1, 1])
        after_w, after_table = self.everything(client)
        np.testing.assert_array_equal(after_w, w - np.float32(0.5) * (gradient / 4).reshape(3, 2))
        expected = table.copy()
        expected[[1, 3]] -= np.float32(0.5) * (rows / 4)
        expected[[4, 6]] += np.float32(0.5) * (rows / 4)
        np.testing.assert_array_equal(after_table, expected)
        # Rows by their keys are the same rows.
        picked, _ = client.pull({1: [(2, [3, 0])]})
        np.testing.assert_array_equal(picked[2].reshape(2, WIDTH), expected[[7, 4]])

    def test_momentum_and_rmsprop_are_keras_rules(self):
        gradients = [np.linspace(-1, 1, 6, dtype=np.float32) * k for k in (1, -2, 3)]
        client = self.serve("SGD", learning_rate=0.1, momentum=0.9, nesterov=True)
        w, velocity = np.full(6, 5, np.float64), np.zeros(6)
        for closure, g in enumerate(gradients):
            client.push(closure, {0: [(0, None, g), (1, [], [])], 1: [(2, [], [])]})
            velocity = 0.9 * velocity - 0.1 * g
            w += 0.9 * velocity - 0.1 * g
        np.testing.assert_allclose(self.everything(client)[0].ravel(), w, rtol=1e-6)

        client = self.serve("RMSprop", learning_rate=0.01, rho=0.9, epsilon=1e-7)
        w, mean_square = np.full(6, 5, np.float64), np.zeros(6)
        for closure, g in enumerate(gradients):
            client.push(closure, {0: [(0, None, g), (1, [], [])], 1: [(2, [], [])]})
            mean_square = 0.9 * mean_square + 0.1 * g * g
            w -= 0.01 * g / np.sqrt(mean_square + 1e-7)
        np.testing.assert_allclose(self.everything(client)[0].ravel(), w, rtol=1e-6)

    def test_an_update_id_is_applied_once(self):
        client = self.serve("SGD", learning_rate=1.0)
        entries = {0: [(0, None, np.ones(6))], 1: [(2, [0], np.ones(WIDTH))]}
        client.push(3, entries, attempt=1)
        once = self.everything(client)
        again = client.push(3, entries, attempt=2)
        self.assertEqual(self.status(again), {0: "DUPLICATE", 1: "DUPLICATE"})
        self.assertEqual([again[t].applied_attempt for t in (0, 1)], [1, 1])
        np.testing.assert_array_equal(self.everything(client)[0], once[0])
        self.assertEqual(self.status(client.push(3, entries, ordinal=1)), {0: "APPLIED", 1: "APPLIED"})
        # Only the chief can settle closures.
        client.watermark = 2**63
        self.assertEqual(self.status(client.push(4, entries)), {0: "APPLIED", 1: "APPLIED"})
        self.chief.settle(6)
        self.assertEqual(self.status(client.push(5, entries)), {0: "SETTLED", 1: "SETTLED"})
        self.assertEqual([v[4] for v in self.cluster.verdicts()],
                         ["applied"] * 2 + ["duplicate"] * 2 + ["applied"] * 4 + ["settled"] * 2)

    def test_an_old_timeline_term_or_chief_is_fenced(self):
        self.serve("SGD", learning_rate=1.0)
        self.chief.assign(layout(wire.optimizer(STUBS, "SGD", learning_rate=1.0)), timeline=2, term=5)
        entries = {0: [(0, None, np.ones(6))]}
        client = Client(self.address)
        client.term = 5
        for timeline, term in ((1, 5), (2, 1)):
            client.timeline, client.term = timeline, term
            fenced = client.push(9, entries)[0]
            self.assertEqual(fenced.status, STUBS.FENCED)
            self.assertEqual((fenced.timeline, fenced.term), (2, 5))
        client.timeline, client.term = 2, 5
        newer = wire.Chief(STUBS, self.address, generation=2)
        self.assertEqual(client.push(9, entries)[0].status, STUBS.FENCED)
        heir = Client(self.address, generation=2)
        heir.timeline, heir.term = 2, 5
        self.assertEqual(heir.push(9, entries)[0].status, STUBS.APPLIED)
        w, _ = heir.pull({0: [(0, None)]})
        np.testing.assert_array_equal(w[0], np.full(6, 4, np.float32))
        newer.finish()
        self.assertEqual(self.cluster.wait("ps"), 0)

    def test_a_push_in_two_messages_is_one_update(self):
        client = self.serve("SGD", learning_rate=1.0)
        results = client.push(1, {0: [(0, None, np.arange(6))]}, parts=2)
        self.assertEqual((results[0].status, results[0].version), (STUBS.APPLIED, 1))
        np.testing.assert_array_equal(self.everything(client)[0].ravel(),
                                      5 - np.arange(6, dtype=np.float32))

    def test_a_tablet_that_is_not_here_has_moved(self):
        client = self.serve("SGD", learning_rate=1.0)
        self.assertEqual(client.push(1, {9: [(0, None, np.ones(6))]})[9].status, STUBS.MOVED)
        self.assertEqual(client.pull({9: [(0, None)]})[1][9].status, STUBS.MOVED)


class PlainReader(unittest.TestCase):
    """A reader beside a cluster that trains: it belongs to no chief and disturbs no task."""

    def test_it_sees_the_weights_of_a_running_job_change(self):
        with Directory() as directory, RealCluster(directory) as cluster:
            cluster.start_servers_and_workers()
            job = os.path.join(directory, "job.yaml")
            with open(os.path.join(real_cluster.EXAMPLES, "recommender.yaml"), encoding="utf-8") as f:
                text = f.read()
            with open(job, "w", encoding="utf-8") as f:
                f.write(text.replace("epochs: 4", "epochs: 100000"))
            checkpoints = os.path.join(directory, "checkpoints")
            cluster.start("chief", 0, [job, "--checkpoint_dir", checkpoints, "--log_dir", directory])
            manifest = os.path.join(checkpoints, "ckpt-1-1-0", "manifest.json")
            real_cluster.until(lambda: cluster.text("chief"), lambda: os.path.exists(manifest))
            with open(manifest, encoding="utf-8") as f:
                plan = json.load(f)["layout"]
            table = [i for i, v in enumerate(plan["variables"]) if v["name"] == "embedding/embeddings"]
            shards = [s for s in plan["shards"] if s.get("variable", 0) == table[0]]
            self.assertEqual([int(s["rows"]) for s in shards], [4, 4])
            home = {t.get("tablet", 0): t.get("ps", 0) for t in plan["tablets"]}
            for shard in shards:
                number, tablet = shard.get("shard", 0), shard.get("tablet", 0)
                reader = Client(cluster.cluster["ps"][home[tablet]], generation=0)
                reader.term = 0
                first, results = reader.pull({tablet: [(number, None)]})
                self.assertEqual(first[number].size, 4 * 20)
                seen = results[tablet].version

                def moved():
                    now, later = reader.pull({tablet: [(number, None)]})
                    return later[tablet].version > seen and (now[number] != first[number]).any()

                real_cluster.until("the version never rose", moved)


if __name__ == "__main__":
    unittest.main(verbosity=2)
