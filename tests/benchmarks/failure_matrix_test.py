#!/usr/bin/env python3
"""The table of docs/failures.md has what failure_matrix.py measures. Usage: failure_matrix_test.py [Table|Cells]"""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# pylint: disable=wrong-import-position
import failure_matrix


def page():
    with open(failure_matrix.PAGE, encoding="utf-8") as f:
        return f.read()


class Table(unittest.TestCase):
    def test_the_page_has_each_cell_and_no_other(self):
        self.assertEqual(list(failure_matrix.page_rows(page())),
                         [(cell.dies, cell.strategy) for cell in failure_matrix.cells()])

    def test_a_cell_that_differs_is_found(self):
        rows = [["server", "async", "nothing", "no", "each update once", "0.10", "0"]]
        text = failure_matrix.BEGIN + "| a |\n|---|\n%s" + failure_matrix.END
        same = text % failure_matrix.line_of([*rows[0][:5], "9.99", "7"])  # times are not compared
        self.assertEqual(failure_matrix.differences(rows, same), [])
        for column, value in ((2, "work since the checkpoint"), (3, "yes"), (4, "the same bits"), (1, "sync")):
            other = [*rows[0]]
            other[column] = value
            self.assertEqual(len(failure_matrix.differences(rows, text % failure_matrix.line_of(other))), 1)


class Cells(unittest.TestCase):
    def test_every_cell_is_as_documented(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "failure_matrix.py")
        done = subprocess.run([sys.executable, script, "--kills", "1", "--compare"], check=False)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
