# SPDX-License-Identifier: Apache-2.0
import contextlib
import sys


@contextlib.contextmanager
def without_arguments():
    """KServe parses the command line of whatever program imports it."""
    words, sys.argv = sys.argv, sys.argv[:1]
    try:
        yield
    finally:
        sys.argv = words
