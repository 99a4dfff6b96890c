# SPDX-License-Identifier: Apache-2.0
"""Sequences whose lengths or positions only a run finds and whose tensors differ in shape: cases for run.py."""
import numpy as np
from onnx import helper, numpy_helper

from models import BOOL, FLOAT, FLOAT16, INT64, body, constant, model, rows, value, yes_no

node = helper.make_node


def tensors(name, kind=FLOAT, shape=None):
    return helper.make_tensor_sequence_value_info(name, kind, shape)


def scalar(number):
    return np.array(number, np.int64)


def three(*nodes, outputs, kind=FLOAT, inputs=(), shapes=(["n", 4], ["m", 4], ["k", 4]), initializers=()):
    """A sequence s of a, b and c, and a place."""
    return model([node("SequenceConstruct", ["a", "b", "c"], ["s"]), *nodes],
                 [value("place", INT64, []), *(value(name, kind, shape) for name, shape in zip("abc", shapes)), *inputs], outputs, initializers)


def three_feeds(*places, rest=(4,), kind=np.float32, sizes=((2, 3, 1), (1, 4, 4), (5, 1, 2)), **others):
    return [{"place": scalar(place), **{name: rows(size, *rest, kind=kind) for name, size in zip("abc", sizes[i % len(sizes)])},
             **{key: scalar(number) for key, number in others.items()}} for i, place in enumerate(places)]


def read_at():
    return three(node("SequenceAt", ["s", "place"], ["t"]), node("Exp", ["t"], ["y"]), outputs=[value("y", FLOAT, ["r", 4])])


def read_at_any_shape():
    """Tensors that differ in both dims."""
    return three(node("SequenceAt", ["s", "place"], ["t"]), node("Neg", ["t"], ["y"]), shapes=(["n", "o"], ["m", "p"], ["k", "q"]),
                 outputs=[value("y", FLOAT, ["r", "c"])])


def insert_and_erase(kind=FLOAT):
    """Read in every way behind it."""
    return three(node("Concat", ["a", "b"], ["d"], axis=0), node("SequenceInsert", ["s", "d", "place"], ["t"]), node("SequenceErase", ["t", "other"], ["u"]),
                 node("ConcatFromSequence", ["u"], ["y"], axis=0), node("SequenceLength", ["u"], ["length"]), node("SequenceAt", ["u", "third"], ["z"]),
                 node("SequenceErase", ["u"], ["v"]), inputs=[value("other", INT64, [])], kind=kind,
                 initializers=[numpy_helper.from_array(scalar(2), "third")],
                 outputs=[value("y", kind, ["r", 4]), value("length", INT64, []), value("z", kind, ["q", 4]), tensors("v", kind)])


def grow_from_slices():
    """A sequence of one shape that gets a tensor of another, in front of a place and at its end."""
    return model([node("SplitToSequence", ["x"], ["s"], axis=0, keepdims=0), node("Concat", ["x", "x"], ["xx"], axis=1),
                  node("ReduceMax", ["xx"], ["long"], axes=[0], keepdims=0), node("SequenceInsert", ["s", "long", "place"], ["t"]),
                  node("SequenceInsert", ["t", "long"], ["u"]), node("ConcatFromSequence", ["u"], ["y"], axis=0)],
                 [value("x", FLOAT, ["n", 3]), value("place", INT64, [])], [value("y", FLOAT, ["r"]), tensors("u")])


def into_an_empty_one():
    """A tensor whose rows a run counts, at a place in a sequence without tensors."""
    return model([constant("zero", np.array([0])), constant("row", np.array([1])), node("Reshape", ["count", "row"], ["end"]),
                  node("Slice", ["x", "zero", "end", "zero"], ["some"]), node("SequenceConstruct", ["x"], ["one"]),
                  node("SequenceErase", ["one"], ["none"]), node("SequenceInsert", ["none", "some", "place"], ["s"]), node("SequenceAt", ["s", "place"], ["y"])],
                 [value("x", FLOAT, ["n", 4]), value("count", INT64, []), value("place", INT64, [])], [value("y", FLOAT, ["r", 4])])


def split(axis, *sizes, shape=("n", "m", 3), joined_along=None):
    """Parts of sizes that a run brings, or of one size that need not divide the dim; read in every way."""
    take, given = ([value("sizes", INT64, list(sizes[0]))], ["x", "sizes"]) if isinstance(sizes[0], tuple) else ([], ["x", "size"])
    constants = [] if take else [numpy_helper.from_array(scalar(sizes[0]), "size")]
    return model([node("SplitToSequence", given, ["s"], axis=axis), node("SequenceAt", ["s", "place"], ["t"]), node("Neg", ["t"], ["y"]),
                  node("ConcatFromSequence", ["s"], ["z"], axis=axis if joined_along is None else joined_along), node("SequenceLength", ["s"], ["length"])],
                 [value("x", FLOAT, list(shape)), *take, value("place", INT64, [])],
                 [value("y", FLOAT, ["a", "b", "c"]), value("z", FLOAT, ["d", "e", "f"]), value("length", INT64, []), tensors("s")], constants)


def appending(*nodes, element="t", begin="none", kind=FLOAT, behind=(), outputs, inputs=(), inserted=("s",), initializers=(), carried=()):
    """A loop whose body makes `element` of x and i, and inserts it."""
    inside = body([*nodes, node("SequenceInsert", ["s", element, *inserted[1:]], ["longer"]), node("Identity", ["on"], ["still"])],
                  [value("i", INT64, []), value("on", BOOL, []), tensors("s", kind)], [value("still", BOOL, []), tensors("longer", kind)], list(initializers))
    return model([node("SequenceEmpty", [], ["none"], dtype=kind), node("SequenceConstruct", ["x", "x"], ["begun"]), *carried,
                  node("Loop", ["count", "", begin], ["all"], body=inside, name="loop"), *behind],
                 [value("count", INT64, []), value("x", FLOAT, ["n", 4]), *inputs], outputs)


ONE_MORE = [constant("one", np.array([1])), constant("zero", np.array([0])), node("Reshape", ["i", "one"], ["row"]), node("Add", ["row", "one"], ["more"]),
            node("Slice", ["x", "zero", "more", "zero"], ["t"])]  # i + 1 rows


def loop_of_more_rows(begin="none", front=False):
    return appending(*ONE_MORE, *[constant("front", scalar(0))] * front, begin=begin, inserted=["s", "front"] if front else ["s"],
                     behind=[node("ConcatFromSequence", ["all"], ["y"], axis=0), node("SequenceLength", ["all"], ["length"]), node("SequenceAt", ["all", "place"], ["z"])],
                     inputs=[value("place", INT64, [])], outputs=[value("y", FLOAT, ["r", 4]), value("length", INT64, []), value("z", FLOAT, ["q", 4])])


def loop_of_some():
    """Only some iterations append, until one finds nothing."""
    longer = body([node("SequenceInsert", ["s", "found"], ["longer"])], [], [tensors("longer", INT64)])
    same = body([node("Identity", ["s"], ["as_long"])], [], [tensors("as_long", INT64)])
    inside = body([node("Gather", ["x", "i"], ["image"], axis=0), node("Greater", ["image", "limit"], ["above"]), node("NonZero", ["above"], ["places"]),
                   constant("first", np.array([0])), node("Gather", ["places", "first"], ["row"], axis=0), constant("flat", np.array([-1])),
                   node("Reshape", ["row", "flat"], ["found"]), node("Size", ["found"], ["number"]), constant("two", scalar(2)), constant("zero", scalar(0)),
                   node("Less", ["two", "number"], ["many"]), node("If", ["many"], ["next"], then_branch=longer, else_branch=same),
                   node("Greater", ["number", "zero"], ["still"])],
                  [value("i", INT64, []), value("on", BOOL, []), tensors("s", INT64)], [value("still", BOOL, []), tensors("next", INT64)])
    return model([node("SequenceEmpty", [], ["none"], dtype=INT64), node("Loop", ["count", "on0", "none"], ["all"], body=inside, name="loop"),
                  node("ConcatFromSequence", ["all"], ["y"], axis=0), node("SequenceLength", ["all"], ["length"])],
                 [value("count", INT64, []), value("on0", BOOL, []), value("limit", FLOAT, []), value("x", FLOAT, ["n", 6])],
                 [value("y", INT64, ["r"]), value("length", INT64, [])])


def loop_of_found():
    """What is found in each image of a batch, collected as detectors do."""
    return appending(node("Gather", ["x", "i"], ["image"], axis=0), node("Greater", ["image", "limit"], ["above"]), node("NonZero", ["above"], ["places"]),
                     node("Transpose", ["places"], ["t"], perm=[1, 0]), kind=INT64,
                     behind=[node("ConcatFromSequence", ["all"], ["y"], axis=0)], inputs=[value("limit", FLOAT, [])],
                     outputs=[value("y", INT64, ["r", 1]), tensors("all", INT64)])


def loop_of_columns():
    """The same not transposed, so that another dim than the first differs."""
    return appending(node("Greater", ["x", "limit"], ["above"]), node("NonZero", ["above"], ["places"]), node("Add", ["places", "i"], ["t"]), kind=INT64,
                     behind=[node("ConcatFromSequence", ["all"], ["y"], axis=1), node("ConcatFromSequence", ["all"], ["z"], axis=0, new_axis=1)],
                     inputs=[value("limit", FLOAT, [])], outputs=[value("y", INT64, [2, "r"]), value("z", INT64, ["l", 2, "c"])])


def loop_doubling():
    """The first tensor goes to the end, twice as long."""
    inside = body([constant("zero", scalar(0)), node("SequenceAt", ["s", "zero"], ["one"]), node("SequenceErase", ["s", "zero"], ["rest"]),
                   node("Concat", ["one", "one"], ["two"], axis=0), node("SequenceInsert", ["rest", "two"], ["next"]), node("Identity", ["on"], ["still"])],
                  [value("i", INT64, []), value("on", BOOL, []), tensors("s")], [value("still", BOOL, []), tensors("next")])
    return three(node("Loop", ["place", "", "s"], ["t"], body=inside), node("ConcatFromSequence", ["t"], ["y"], axis=0),
                 outputs=[value("y", FLOAT, ["r", 4]), tensors("t")])


def loop_reading():
    """A loop that reads one tensor of a sequence in each iteration and appends a part of it to another."""
    inside = body([node("SequenceAt", ["parts", "i"], ["one"]), constant("zero", np.array([0])), constant("end", np.array([-1])),
                   node("Slice", ["one", "zero", "end", "zero"], ["t"]), node("SequenceInsert", ["s", "t"], ["longer"]), node("Identity", ["on"], ["still"])],
                  [value("i", INT64, []), value("on", BOOL, []), tensors("s")], [value("still", BOOL, []), tensors("longer")])
    return model([node("SplitToSequence", ["x", "sizes"], ["parts"], axis=0), node("SequenceLength", ["parts"], ["length"]),
                  node("SequenceEmpty", [], ["none"], dtype=FLOAT), node("Loop", ["length", "", "none"], ["all"], body=inside),
                  node("ConcatFromSequence", ["all"], ["y"], axis=0)],
                 [value("x", FLOAT, ["n", 4]), value("sizes", INT64, ["k"])], [value("y", FLOAT, ["r", 4]), tensors("all")])


def loop_in_loop():
    """Each outer iteration joins what an inner loop collects."""
    inner = body([constant("one", np.array([1])), constant("zero", np.array([0])), node("Reshape", ["j", "one"], ["row"]), node("Add", ["row", "one"], ["more"]),
                  node("Slice", ["x", "zero", "more", "zero"], ["part"]), node("SequenceInsert", ["u", "part"], ["u2"]), node("Identity", ["on2"], ["still2"])],
                 [value("j", INT64, []), value("on2", BOOL, []), tensors("u")], [value("still2", BOOL, []), tensors("u2")])
    return appending(constant("once", scalar(1)), node("Add", ["i", "once"], ["trips"]), node("SequenceEmpty", [], ["empty"], dtype=FLOAT),
                     node("Loop", ["trips", "", "empty"], ["inside"], body=inner), node("ConcatFromSequence", ["inside"], ["t"], axis=0),
                     behind=[node("ConcatFromSequence", ["all"], ["y"], axis=0)], outputs=[value("y", FLOAT, ["r", 4]), tensors("all")])


def choice_of_ragged():
    """Branches that give sequences of other lengths and shapes, one of them none."""
    yes = body([node("Concat", ["a", "b"], ["d"], axis=0), node("SequenceInsert", ["s", "d"], ["four"])], [], [tensors("four")])
    no = body([node("SequenceEmpty", [], ["none"], dtype=FLOAT)], [], [tensors("none")])
    return three(node("If", ["c0"], ["some"], then_branch=yes, else_branch=no), node("SequenceLength", ["some"], ["length"]),
                 node("SequenceInsert", ["some", "c"], ["most"]), node("SequenceAt", ["most", "place"], ["y"]), inputs=[value("c0", BOOL, [])],
                 outputs=[value("length", INT64, []), value("y", FLOAT, ["r", 4])])


def choice_of_parts():
    """One branch splits, the other has tensors of one shape."""
    yes = body([node("SplitToSequence", ["x", "sizes"], ["parts"], axis=1)], [], [tensors("parts")])
    no = body([node("SequenceConstruct", ["x", "x", "x"], ["same"])], [], [tensors("same")])
    return model([node("If", ["c"], ["s"], then_branch=yes, else_branch=no), node("ConcatFromSequence", ["s"], ["y"], axis=1),
                  node("SequenceAt", ["s", "place"], ["z"])],
                 [value("c", BOOL, []), value("x", FLOAT, [2, "n"]), value("sizes", INT64, ["k"]), value("place", INT64, [])],
                 [value("y", FLOAT, [2, "m"]), value("z", FLOAT, [2, "l"])])


def mapped():
    """A map over two sequences and a tensor, whose body makes tensors that differ and ones that do not."""
    inside = body([node("Add", ["p", "w"], ["q"]), node("Concat", ["q", "o"], ["r"], axis=0), node("ReduceSum", ["p"], ["t"], keepdims=0)],
                  [value("p", FLOAT, ["d", 4]), value("o", FLOAT, ["e", 4]), value("w", FLOAT, [4])], [value("r", FLOAT, ["f", 4]), value("t", FLOAT, [])])
    return model([node("SplitToSequence", ["x", "sizes"], ["s"], axis=0), node("SplitToSequence", ["x", "sizes"], ["u"], axis=0),
                  node("SequenceMap", ["s", "u", "w"], ["m", "n1"], body=inside), node("ConcatFromSequence", ["m"], ["y"], axis=0),
                  node("ConcatFromSequence", ["n1"], ["z"], axis=0, new_axis=1)],
                 [value("x", FLOAT, ["n", 4]), value("sizes", INT64, ["k"]), value("w", FLOAT, [4])],
                 [value("y", FLOAT, ["r", 4]), value("z", FLOAT, ["l"]), tensors("m")])


def optional():
    kind = helper.make_optional_type_proto(helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None)))
    return three(node("SequenceErase", ["s", "place"], ["t"]), node("Optional", ["t"], ["o"], type=kind), node("OptionalGetElement", ["o"], ["u"]),
                 node("ConcatFromSequence", ["u"], ["y"], axis=0), outputs=[value("y", FLOAT, ["r", 4])])


def sizes(*numbers):
    return np.array(numbers, np.int64)


def parts(axis, *lists, shape=(5, 4, 3)):
    feeds = []
    for i, numbers in enumerate(lists):
        extents = list(shape)
        extents[axis] = sum(numbers)
        feeds.append({"x": rows(*extents), "sizes": sizes(*numbers), "place": scalar(i % 2 - 1)})
    return feeds


def counted(*counts, n=6, **others):
    return [{"count": scalar(count), "x": rows(n, 4), **others} for count in counts]


CASES = {
    "read_at": (read_at(), three_feeds(0, -1, 1) + three_feeds(2, -3, sizes=((0, 3, 1),))),
    "read_at_any_shape": (read_at_any_shape(), [{"place": scalar(p), "a": rows(2, 3), "b": rows(4, 1), "c": rows(1, q)} for p, q in ((0, 5), (1, 5), (-1, 7), (2, 0))]),
    "insert_and_erase": (insert_and_erase(), three_feeds(0, 3, -1, other=-4) + three_feeds(1, other=3)),
    "insert_and_erase_fp16": (insert_and_erase(FLOAT16), three_feeds(0, -2, other=1, kind=np.float16)),
    "insert_and_erase_int64": (insert_and_erase(INT64), three_feeds(0, -2, other=1, kind=np.int64)),
    "grow_from_slices": (grow_from_slices(), [{"x": rows(n, 3), "place": scalar(p)} for n, p in ((2, 0), (4, -1), (1, 1))]),
    "into_an_empty_one": (into_an_empty_one(), [{"x": rows(n, 4), "count": scalar(count), "place": scalar(0)} for n, count in ((3, 2), (2, 9), (4, 1))]),
    "split_rows": (split(0, (3,), shape=("n", 4, 3)), parts(0, (2, 3, 1), (0, 5, 1))),
    "split_any_number": (split(0, ("k",), shape=("n", 4, 3)), parts(0, (2, 3, 1), (7,), (1, 0, 2, 5, 1))),
    "split_columns": (split(1, ("k",), shape=(5, "n", 3)), parts(1, (2, 3), (1, 0, 2, 5, 1))),
    "split_last": (split(2, (2,), shape=("n", "m", "k")), parts(2, (2, 3), (4, 1), shape=(2, 5, 0))),
    "split_by_4": (split(0, 4, shape=("n", 2, 3)), [{"x": rows(n, 2, 3), "place": scalar(-1)} for n in (4, 9, 3)]),
    "split_columns_by_4": (split(1, 4, shape=("m", "n", 3)), [{"x": rows(2, n, 3), "place": scalar(-1)} for n in (4, 9, 3)]),
    "split_by_any": (split(1, (), shape=(2, "n", 3)), [{"x": rows(2, n, 3), "sizes": scalar(s), "place": scalar(0)} for n, s in ((4, 3), (9, 9), (3, 5), (8, 2))]),
    "join_others": (split(0, (2,), shape=("n", 4, 3), joined_along=1), parts(0, (2, 2), (3, 3))),
    "loop_of_more_rows": (loop_of_more_rows(), counted(1, 5, place=scalar(-1)) + counted(4, place=scalar(1))),
    "loop_begun": (loop_of_more_rows("begun"), counted(1, 5, 0, place=scalar(1))),
    "loop_at_front": (loop_of_more_rows("begun", front=True), counted(1, 5, 0, place=scalar(0))),
    "loop_of_found": (loop_of_found(), counted(1, 6, limit=np.array(0.3, np.float32)) + counted(3, limit=np.array(2, np.float32))),
    "loop_of_some": (loop_of_some(), [{"count": scalar(n), "on0": yes_no(True), "limit": np.array(limit, np.float32), "x": rows(n, 6)}
                                      for n, limit in ((8, 0.1), (12, 0.0), (30, 0.2))]),
    "loop_of_columns": (loop_of_columns(), counted(1, 4, limit=np.array(-0.2, np.float32))),
    "loop_doubling": (loop_doubling(), three_feeds(0, 2, 7)),
    "loop_reading": (loop_reading(), [{"x": rows(sum(s), 4), "sizes": sizes(*s)} for s in ((2, 3), (1, 4, 1, 2), (3,))]),
    "loop_in_loop": (loop_in_loop(), counted(1, 4)),
    "choice_of_ragged": (choice_of_ragged(), [feeds | {"c0": yes_no(c)} for c in (True, False) for feeds in three_feeds(-1, 0)]),
    "choice_of_parts": (choice_of_parts(), [{"c": yes_no(c), "x": rows(2, 6), "sizes": sizes(*s), "place": scalar(-1)} for c, s in ((True, (2, 4)), (False, (1, 2, 3)), (True, (6,)))]),
    "mapped": (mapped(), [{"x": rows(sum(s), 4), "sizes": sizes(*s), "w": rows(4)} for s in ((2, 3), (1, 4, 1, 2), (3,))]),
    "optional": (optional(), three_feeds(0, -1, 1)),
}

# What a run finds to be wrong, and what the error says: the layer and what it found.
FAILING = {
    "at_4": (read_at(), three_feeds(4)[0], ["SequenceAt", "place_in_sequence", "index 4"]),
    "insert_at_5": (insert_and_erase(), three_feeds(5, other=0)[0], ["SequenceInsert", "place_in_sequence"]),
    "erase_at_minus_5": (insert_and_erase(), three_feeds(0, other=-5)[0], ["SequenceErase", "place_in_sequence"]),
    "sizes_of_less": (split(0, ("k",), shape=("n", 4, 3)), {"x": rows(6, 4, 3), "sizes": sizes(2, 3), "place": scalar(0)}, ["sizes_that_add_up_to_the_dim"]),
    "size_of_0": (split(1, (), shape=(2, "n", 3)), {"x": rows(2, 6, 3), "sizes": scalar(0), "place": scalar(0)}, ["size_of_parts_above_0"]),
    "join_of_others": (split(0, (2,), shape=("n", 4, 3), joined_along=1), {"x": rows(5, 4, 3), "sizes": sizes(2, 3), "place": scalar(0)}, ["tensors_of_one_shape"]),
}
