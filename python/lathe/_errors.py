# SPDX-License-Identifier: Apache-2.0
"""What Lathe raises."""


class Error(Exception):
    """The base of all errors of Lathe. str() is all parts in one line; parts that are not known are empty.

    what: what is wrong. where: the tensor, node or file. why: expected and found. hint: what to do. node, op_type: the layer of the
    model that the error is about and its operator.
    """

    def __init__(self, what, where="", why="", hint="", node="", op_type=""):
        self.what, self.where, self.why, self.hint, self.node, self.op_type = what, where, why, hint, node, op_type
        message = ": ".join(part for part in (where, what, why) if part)
        super().__init__(f"{message} ({hint})" if hint else message)


class InputError(Error, ValueError):
    """The model, a file, a shape or an argument is wrong or not supported."""


class InternalError(Error, RuntimeError):
    """A bug in Lathe."""


class DeviceError(Error, OSError):
    """A file, the device or memory failed."""

    def __str__(self):
        return self.args[0]


class Cancelled(Error):
    """A build that was stopped. What it has measured is in the timing cache."""
