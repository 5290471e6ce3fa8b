#!/usr/bin/python3
"""What cannot run on a machine is passed over there, but fails in CI and says why."""

import os
import unittest
from unittest import mock

from tilekv_testing import pass_over


class PassOverTest(unittest.TestCase):
    def test_a_test_that_cannot_run_is_skipped(self):
        for without in ({}, {"CI": ""}):
            with mock.patch.dict(os.environ, without, clear=True):
                with self.assertRaisesRegex(unittest.SkipTest, "needs root"):
                    pass_over("needs root")

    def test_in_ci_it_fails_and_says_why(self):
        with mock.patch.dict(os.environ, {"CI": "1"}, clear=True):
            with self.assertRaisesRegex(AssertionError, "needs root"):
                pass_over("needs root")


if __name__ == "__main__":
    unittest.main(verbosity=2)
