# SPDX-License-Identifier: Apache-2.0
"""What Lathe raises."""
import enum


class ErrorCode(enum.IntEnum):
    """What failed, in the codes and numbers of TensorRT's ErrorCode, and one more."""

    SUCCESS = 0  # of no error
    UNSPECIFIED_ERROR = 1  # a build that was stopped
    INTERNAL_ERROR = 2  # a bug in Lathe
    INVALID_ARGUMENT = 3  # a model, file, name, shape or value is wrong
    INVALID_CONFIG = 4  # options of a build that contradict each other, or that the model cannot have
    FAILED_ALLOCATION = 5  # out of memory, or an allocator gave none
    FAILED_INITIALIZATION = 6  # a device, library or thread does not start
    FAILED_EXECUTION = 7  # a file or the device failed in use
    FAILED_COMPUTATION = 8  # no error of Lathe has it
    INVALID_STATE = 9  # the object is not ready for the call: in use, without memory or shapes
    UNSUPPORTED_STATE = 10  # the model is right, and Lathe does not have what it asks for
    NOT_ON_THIS_HARDWARE = 11  # this device cannot do it, another can


class Error(Exception):
    """The base of all errors of Lathe. str() is all parts in one line; parts that are not known are empty.

    what: what is wrong. where: the tensor, node or file. why: expected and found. hint: what to do. node, op_type: the layer of the
    model that the error is about and its operator. code: an ErrorCode, for programs that go on differently for each.
    """

    _code = ErrorCode.UNSPECIFIED_ERROR

    def __init__(self, what, where="", why="", hint="", node="", op_type="", code=None):
        self.what, self.where, self.why, self.hint, self.node, self.op_type = what, where, why, hint, node, op_type
        self.code = self._code if code is None else ErrorCode(code)
        message = ": ".join(part for part in (where, what, why) if part)
        super().__init__(f"{message} ({hint})" if hint else message)


class InputError(Error, ValueError):
    """The model, a file, a shape or an argument is wrong or not supported."""

    _code = ErrorCode.INVALID_ARGUMENT


class InternalError(Error, RuntimeError):
    """A bug in Lathe."""

    _code = ErrorCode.INTERNAL_ERROR


class DeviceError(Error, OSError):
    """A file, the device or memory failed."""

    _code = ErrorCode.FAILED_EXECUTION

    def __str__(self):
        return self.args[0]


class Cancelled(Error):
    """A build that was stopped. What it has measured is in the timing cache."""
