#!/usr/bin/python3
"""docs/operations.md names every metric and every event of the server's log, with its type or its
fields, and none that is not there.

    operations_test.py SOURCE-DIRECTORY
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path()

METRIC = re.compile(r'(BuildHistogram|BuildCounter|BuildGauge|Gauges)\((?:\)\s*\.Name\()?\s*'
                    r'"(tilekv_[a-z0-9_]+)"')
METRIC_NAME = re.compile(r'"(tilekv_[a-z0-9_]+)"')
METRIC_TYPES = {"BuildHistogram": "histogram", "BuildCounter": "counter", "BuildGauge": "gauge",
                "Gauges": "gauge"}
STRING = r'"(?:[^"\\]|\\.)*"'
# A call up to its end: a ';' that stands in no string.
EVENT = re.compile(r'LogEvent\((?:[^";]|%s)*;' % STRING)
EVENT_NAME = re.compile(r'LogEvent\([^"]*"([a-z_]+)"')
FIELD = re.compile(r'\{\s*"([a-z_]+)"\s*,')
CODE = re.compile(r"`([^`]+)`")


def server_sources():
    for path in sorted((ROOT / "server").glob("*.cc")):
        if not path.name.endswith("_test.cc"):
            yield path.read_text(encoding="utf-8")


def rows_under(heading):
    """The cells of each row of the table under a heading, its head left out."""
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text,
                        re.MULTILINE | re.DOTALL)
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in section.group(1).splitlines() if line.startswith("| `")]
    return rows


def without_repeats(test, names):
    test.assertEqual(len(names), len(set(names)), f"twice in the document: {names}")
    return set(names)


class Metrics(unittest.TestCase):
    def in_code(self):
        return {name: METRIC_TYPES[kind]
                for source in server_sources() for kind, name in METRIC.findall(source)}

    def test_every_name_in_the_code_is_read_with_its_type(self):
        names = {name for source in server_sources() for name in METRIC_NAME.findall(source)}
        self.assertEqual(names, set(self.in_code()))
        self.assertIn("tilekv_calls_total", names)

    def test_the_document_has_every_metric_once_and_no_other(self):
        names = [CODE.findall(row[0])[0] for row in rows_under("Metrics")]
        self.assertEqual(without_repeats(self, names), set(self.in_code()))

    def test_the_document_has_their_types(self):
        documented = {CODE.findall(row[0])[0]: row[1] for row in rows_under("Metrics")}
        self.assertEqual(documented, self.in_code())


class Events(unittest.TestCase):
    def in_code(self):
        """{name: fields}"""
        events = {}
        for source in server_sources():
            for call in EVENT.findall(source):
                name = EVENT_NAME.match(call)
                if name is not None:  # else it is the definition
                    events.setdefault(name.group(1), set()).update(FIELD.findall(call))
        return events

    def test_every_event_in_the_code_is_read(self):
        events = self.in_code()
        calls = sum(len(EVENT_NAME.findall(source)) for source in server_sources())
        self.assertEqual(calls, sum(EVENT_NAME.match(call) is not None
                                    for source in server_sources()
                                    for call in EVENT.findall(source)))
        self.assertIn("serving", events)
        self.assertIn("grpc", events["serving"])

    def test_the_document_has_every_event_once_and_no_other(self):
        names = [CODE.findall(row[0])[0] for row in rows_under("Log")]
        self.assertEqual(without_repeats(self, names), set(self.in_code()))

    def test_the_document_has_their_fields(self):
        documented = {CODE.findall(row[0])[0]: set(CODE.findall(row[2]))
                      for row in rows_under("Log")}
        self.assertEqual(documented, self.in_code())


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1))
    unittest.main()
