#!/usr/bin/env python3
"""The model of scaling predicts the published figures, and docs/scaling.svg is what it draws."""
import contextlib
import io
import os
import unittest

import scaling_model

DOCS = os.path.join(os.environ["COHORT_SOURCE_DIR"], "docs")


class ScalingTest(unittest.TestCase):
    def test_published_figures_are_within_20_percent(self):
        with contextlib.redirect_stdout(io.StringIO()) as table:
            wrong = scaling_model.check()
        self.assertEqual(wrong, [], table.getvalue())

    def test_a_prediction_that_is_away_is_named(self):
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertIn(("tf_flowers", "K80", 2, 128), scaling_model.check(most_error=0.1))

    def test_the_plot_is_current(self):
        with open(os.path.join(DOCS, "scaling.svg"), encoding="utf-8") as file:
            self.assertEqual(file.read(), scaling_model.plot())


if __name__ == "__main__":
    unittest.main()
