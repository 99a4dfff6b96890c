# SPDX-License-Identifier: Apache-2.0
"""Loggers, and the errors that calls which answer None or False leave behind."""
import enum
import sys

import lathe

from ._types import ErrorCodeTRT

class _Severity(enum.IntEnum):
    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = range(5)
    __str__ = enum.Enum.__str__


class ILogger:
    """Derive from it and define log(severity, msg)."""

    Severity = _Severity
    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = _Severity

    def __init__(self, min_severity=_Severity.WARNING):
        self.min_severity = min_severity

    def log(self, severity, msg):
        raise NotImplementedError


class Logger(ILogger):
    """Writes what is at least as severe as min_severity to stderr."""

    def log(self, severity, msg):
        if severity <= self.min_severity:
            print(f"[TRT] [{'IEWIV'[severity] if severity else 'F'}] {msg}", file=sys.stderr)


class IErrorRecorder:
    """Derive from it: has_overflowed, num_errors, get_error_code, get_error_desc, clear, report_error(code, desc)."""

    MAX_DESC_LENGTH = 127


def code_of(error):
    """The code that TensorRT's recorder has for an error of Lathe."""
    return getattr(ErrorCodeTRT, error.code.name, ErrorCodeTRT.UNSUPPORTED_STATE)


def told(logger, recorder, error, code=None):
    """A failed call says why: a line of the log, an entry of the recorder. An error of Lathe brings its code."""
    logger.log(_Severity.ERROR, str(error))
    if recorder is not None:
        code = code_of(error) if isinstance(error, lathe.Error) else ErrorCodeTRT.UNSPECIFIED_ERROR if code is None else code
        recorder.report_error(code, str(error)[:IErrorRecorder.MAX_DESC_LENGTH])


def line_of(logger):
    """What Lathe calls with its numbers of severities, which are TensorRT's."""
    return lambda severity, text: logger.log(_Severity(severity), text)
