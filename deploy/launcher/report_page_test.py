#!/usr/bin/env python3
"""Trains a small job, and lets headless Chromium draw its report and a comparison of two runs.

Skipped (77) without Chromium: apt-get install chromium. COHORT_TEST_KEEP=1 prints where the screenshots are.
"""
import html.parser
import os
import re
import shutil
import struct
import sys
import tempfile
import unittest
import zlib

from real_cluster import program, run

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
# A page shows the whole file, with its comments.
EVIL = "</pre><script>document.title='broken'</script>"
JOB = """# EVIL
name: recommender
model:
  sequential:
    - Input: {shape: [3], dtype: int64, feature: features}
    - Embedding: {input_dim: 8, output_dim: 4}
    - GlobalAveragePooling1D
    - Dense: {units: 1, activation: sigmoid}
compile:
  loss: binary_crossentropy
  optimizer:
    Adam: {learning_rate: {ExponentialDecay: {initial_learning_rate: RATE, decay_steps: 50, decay_rate: 0.9}}}
  metrics: [accuracy, AUC]
data:
  batch_size: 32
  visitation: exactly_once
  train:
    generator: {name: recommender, records: 3200, seed: 1}
    transforms:
      - column: features
        lookup: string
        vocabulary: [avenger, ironman, batman, hulk, spiderman, kingkong, wonder_woman]
      - {column: label, equals: "yes"}
    label: label
  validation:
    generator: {name: recommender, records: 320, seed: 2}
    transforms:
      - column: features
        lookup: string
        vocabulary: [avenger, ironman, batman, hulk, spiderman, kingkong, wonder_woman]
      - {column: label, equals: "yes"}
    label: label
fit: {epochs: 6}
report: {every_steps: 10}
"""


def pixels(path):
    """The rows of a PNG of 8-bit RGB or RGBA, as bytes, and its bytes per pixel."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", path
    at, packed, width, height, kind = 8, b"", 0, 0, 0
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if name == b"IHDR":
            width, height, depth, kind = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and kind in (2, 6), (depth, kind)
        elif name == b"IDAT":
            packed += body
        at += size + 12
    deep = 3 if kind == 2 else 4
    raw, stride = zlib.decompress(packed), width * deep
    rows, before = [], bytes(stride)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride if kind else 0):
            left = line[i - deep] if i >= deep else 0
            corner = before[i - deep] if i >= deep else 0
            up = before[i]
            guess = left + up - corner
            paeth = min((left, up, corner), key=lambda v: abs(guess - v))
            line[i] = (line[i] + (0, left, up, (left + up) // 2, paeth)[kind]) & 255
        before = bytes(line)
        rows.append(before)
    return rows, deep


def colors(path):
    """{color: number of pixels} of a screenshot."""
    counts = {}
    rows, deep = pixels(path)
    for row in rows:
        for i in range(0, len(row), deep):
            color = row[i:i + 3]
            counts[color] = counts.get(color, 0) + 1
    return counts


class References(html.parser.HTMLParser):
    """The tags of a page, and the addresses that it names."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href", "xlink:href", "action", "data")]


class ReportPage(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cohort-test.")
        if os.environ.get("COHORT_TEST_KEEP") == "1":
            print("kept:", self.directory)
        else:
            self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def train(self, name, rate):
        with open(self.path(name + ".yaml"), "w", encoding="utf-8") as f:
            f.write(JOB.replace("RATE", rate).replace("EVIL", EVIL))
        done = run([program("cohort"), "local", "--workers", "2", "--run_dir", self.path(name),
                    self.path(name + ".yaml")], limit_s=100)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("page        %s/logs/report.html" % self.path(name), done.stdout)

    def draw(self, page):
        """Draws a page, and returns its document as the browser has it."""
        base = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                "--force-device-scale-factor=1", "--no-first-run", "--user-data-dir=" + self.path("browser"),
                "--window-size=1240,3000"]
        address = "file://" + page
        shot = run([*base, "--screenshot=" + page + ".png", address], {"HOME": self.directory}, limit_s=60)
        self.assertTrue(os.path.exists(page + ".png"), shot.stderr)
        document = run([*base, "--dump-dom", address], {"HOME": self.directory}, limit_s=60)
        self.assertEqual(document.returncode, 0, document.stderr)
        return document.stdout

    def check_lines(self, page, lines):
        """The drawing has the colors of the first `lines` of the palette."""
        found = colors(page + ".png")
        for color in ("2f6fdb", "e07b1f")[:lines]:
            self.assertGreater(found.get(bytes.fromhex(color), 0), 100, (page, color))

    def test_a_browser_draws_the_report_and_the_comparison(self):
        self.train("slow", "0.001")
        self.train("fast", "0.02")
        page = self.path("slow/logs/report.html")
        with open(page, encoding="utf-8") as f:
            text = f.read()
        parts = References(text)
        self.assertFalse(parts.addresses)
        self.assertNotIn("script", parts.tags)
        document = self.draw(page)
        self.assertIn("<title>recommender</title>", document)
        self.assertIn("&lt;/pre&gt;&lt;script&gt;document.title=", document)
        for chart in ("loss", "accuracy", "AUC", "learning rate", "throughput", "steps of each worker", "ROC, validation"):
            self.assertRegex(document, "<h3>%s[^<]*</h3>" % re.escape(chart))
        self.assertIn("confusion matrix, validation", document)
        self.assertNotIn("Not in this page", document)
        self.check_lines(page, 2)

        again = run([program("cohort"), "report", self.path("slow"), "--html", self.path("again.html")])
        self.assertEqual(again.returncode, 0, again.stderr)
        both = run([program("cohort"), "compare", self.path("slow"), self.path("fast"), "--html",
                    self.path("both.html")])
        self.assertEqual(both.returncode, 0, both.stderr)
        self.assertRegex(both.stdout, r"initial_learning_rate +0\.001 +0\.02")
        self.assertIn("<h3>loss, validation</h3>", self.draw(self.path("both.html")))
        self.check_lines(self.path("both.html"), 2)


if __name__ == "__main__":
    if CHROMIUM is None:
        print("skipped: Chromium is not installed: apt-get install chromium")
        sys.exit(77)
    unittest.main(verbosity=2)
