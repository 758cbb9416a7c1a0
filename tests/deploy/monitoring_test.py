#!/usr/bin/env python3
"""Prometheus itself checks the alert rules, and evaluates them and the dashboard on a cluster that trains."""
import json
import os
import re
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

from debian_tools import tool
from real_cluster import EXAMPLES, SOURCE, Directory, RealCluster, dies_with_parent, free_ports, run, until

MONITORING = os.path.join(SOURCE, "deploy", "monitoring")
ALERTS = os.path.join(MONITORING, "alerts.yml")
UNIT_TESTS = os.path.join(SOURCE, "tests", "deploy", "alerts")
ROLES = ("chief", "worker", "ps", "evaluator")
PROMTOOL = tool("prometheus", "usr/bin/promtool")
PROMETHEUS = tool("prometheus", "usr/bin/prometheus")
# Panels that may be empty: nothing of the kind has happened in the cluster of this test.
MAY_BE_EMPTY = ("cohort_ps_snapshot_seconds",)


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def alerts():
    """[(name, expression, annotations as text)] of the rules."""
    parts = re.split(r"^ +- alert: (\w+)$", read(ALERTS), flags=re.M)[1:]
    found = []
    for name, body in zip(parts[::2], parts[1::2]):
        expression = re.search(r"^ +expr: (.*?)^ +(?:for|labels):", body, re.M | re.S).group(1)
        found.append((name, " ".join(expression.replace(">-", "").split()), body))
    return found


def panel_expressions():
    """[(panel, expression)] of the dashboard, with the variables' values."""
    found = []
    for panel in json.loads(read(MONITORING, "dashboard.json"))["panels"]:
        for target in panel.get("targets", ()):
            found.append((panel["title"], target["expr"].replace("$__rate_interval", "30s").replace("$run", ".*")))
    return found


def names_in(expression):
    return set(re.findall(r"\b(?:cohort|process)_\w+", expression))


class Rules(unittest.TestCase):
    def promtool(self, *arguments):
        done = run([PROMTOOL, *arguments], cwd=MONITORING)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_prometheus_accepts_the_rules_and_the_example(self):
        self.assertIn("SUCCESS: %d rules found" % len(alerts()), self.promtool("check", "rules", "alerts.yml"))
        self.promtool("check", "config", "prometheus.yml")

    def test_prometheus_accepts_the_relabeling_for_kubernetes(self):
        # Debian's Prometheus is built without the discovery of Kubernetes.
        text = read(MONITORING, "prometheus-kubernetes.yml")
        static = text.replace("kubernetes_sd_configs:\n      - role: pod", "static_configs:\n      - targets: [a:1]")
        self.assertNotEqual(static, text)
        with Directory() as directory:
            for name, content in (("prometheus.yml", static), ("alerts.yml", read(ALERTS))):
                with open(os.path.join(directory, name), "w", encoding="utf-8") as f:
                    f.write(content)
            self.promtool("check", "config", os.path.join(directory, "prometheus.yml"))

    def test_each_alert_links_to_its_section_of_the_runbook(self):
        runbook = read(SOURCE, "docs", "operations.md").split("\n## Runbook\n")[1]
        sections = re.findall(r"^### (\w+)$\n\n(?=\S)", runbook, re.M)
        self.assertEqual(sorted(sections), sorted(name for name, _, _ in alerts()))
        for name, _, body in alerts():
            # GitHub and Grafana make anchors of headings so.
            self.assertIn("\n          runbook: docs/operations.md#%s\n" % name.lower(), body)

    def test_each_alert_has_a_unit_test_in_which_it_fires_and_one_in_which_it_does_not(self):
        names = [name for name, _, _ in alerts()]
        self.assertEqual(sorted(names), sorted(name.removesuffix(".yml") for name in os.listdir(UNIT_TESTS)))
        for name in names:
            text = read(UNIT_TESTS, name + ".yml")
            self.assertIn("alertname: %s\n        exp_alerts:\n" % name, text)
            self.assertIn("alertname: %s\n        exp_alerts: []\n" % name, text)
        self.promtool("test", "rules", *(os.path.join(UNIT_TESTS, name + ".yml") for name in names))


class OnACluster(unittest.TestCase):
    """A cluster that trains, scraped as the example says."""

    @classmethod
    def setUpClass(cls):
        cls.directory = cls.enterClassContext(Directory())
        cls.cluster = cls.enterClassContext(RealCluster(cls.directory, ps=1, workers=1))
        job = os.path.join(cls.directory, "job.yaml")
        with open(job, "w", encoding="utf-8") as f:
            f.write(read(EXAMPLES, "recommender.yaml").replace("epochs: 4", "epochs: 100000"))
        checkpoints = os.path.join(cls.directory, "checkpoints")
        admin = ["--admin_port", "0"]
        cls.cluster.start_listening("ps", arguments=admin)
        cls.cluster.start_listening("worker", arguments=admin)
        cls.cluster.start("chief", 0, [*admin, "--checkpoint_dir", checkpoints, "--log_dir", cls.directory, job])
        cls.cluster.start("evaluator", 0, [*admin, "--checkpoint_dir", checkpoints])
        cls.ports = {}
        for role in ROLES:
            found = until(lambda role=role: cls.cluster.text(role),
                          lambda role=role: re.search(r"admin_port=(\d+)", cls.cluster.text(role)))
            cls.ports[role] = int(found.group(1))
        until("no evaluation", lambda: re.search(r"^cohort_evaluator_evaluations_total [1-9]",
                                                 cls.metrics("evaluator"), re.M))

    @classmethod
    def metrics(cls, role):
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % cls.ports[role], timeout=10) as answer:
            return answer.read().decode()

    def test_prometheus_finds_no_fault_in_the_metrics_of_any_task(self):
        for role in ROLES:
            with self.subTest(role):
                done = run([PROMTOOL, "check", "metrics"], input=self.metrics(role))
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_each_metric_of_the_dashboard_and_the_rules_is_served(self):
        served = {name for role in ROLES for name in re.findall(r"^(\w+)(?:\{| )", self.metrics(role), re.M)}
        used = set().union(*(names_in(e) for _, e in panel_expressions()), *(names_in(e) for _, e, _ in alerts()))
        self.assertGreater(len(used), 40)
        self.assertEqual(used - served, set())

    def test_prometheus_evaluates_each_panel_and_each_rule(self):
        port = free_ports(1)[0]
        config = read(MONITORING, "prometheus.yml").replace("10s", "1s")
        for role in ROLES:
            config, count = re.subn(r'targets: \[.*\]\n( +labels: \{run: recommender, role: %s\})' % role,
                                    r'targets: ["127.0.0.1:%d"]\n\1' % self.ports[role], config)
            self.assertEqual(count, 1)
        path = os.path.join(self.directory, "prometheus.yml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(config.replace("- alerts.yml", "- " + ALERTS))
        with open(os.path.join(self.directory, "prometheus.log"), "wb") as log:
            server = subprocess.Popen(
                dies_with_parent([PROMETHEUS, "--config.file=" + path, "--web.listen-address=127.0.0.1:%d" % port,
                                  "--storage.tsdb.path=" + os.path.join(self.directory, "tsdb")]),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)

        def api(path, **query):
            try:
                url = "http://127.0.0.1:%d/api/v1/%s?%s" % (port, path, urllib.parse.urlencode(query))
                with urllib.request.urlopen(url, timeout=10) as answer:
                    return json.load(answer)["data"]
            except urllib.error.HTTPError as error:
                if error.code == 503:  # it is starting
                    return None
                raise AssertionError("%s %s: %s" % (path, query, error.read().decode())) from None
            except OSError:
                return None

        def asked(expression):
            data = api("query", query=expression)
            return data["result"] if data else []

        # Rates need two scrapes of each task.
        until(lambda: read(self.directory, "prometheus.log"),
              lambda: len(asked("count_over_time(up[1m]) >= 3 and up == 1")) == len(ROLES))
        self.assertEqual({r["metric"]["role"] for r in asked('up{run="recommender"}')}, set(ROLES))
        for panel, expression in panel_expressions():
            with self.subTest(panel, expression=expression):
                result = asked(expression)
                if not any(name in expression for name in MAY_BE_EMPTY):
                    self.assertTrue(result)
        rules = until("no rule was evaluated", lambda: [
            rule for group in (api("rules") or {"groups": []})["groups"] for rule in group["rules"]
            if rule["health"] != "unknown"])
        self.assertEqual([(rule["name"], rule["health"]) for rule in rules],
                         [(name, "ok") for name, _, _ in alerts()])
        self.assertEqual([alert["labels"]["alertname"] for alert in api("alerts")["alerts"]
                          if alert["state"] == "firing"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
