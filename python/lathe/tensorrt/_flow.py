# SPDX-License-Identifier: Apache-2.0
"""ILoop and IIfConditional. What they hold is found from what depends on their inputs; inside of the network a loop's values stand for
those of its first iteration, so that shapes can be asked for before the loop is complete."""
import lathe
import numpy as np
from lathe import Elementwise

from . import _types as t
from ._network import ILayer, INetworkDefinition, NotSupported, Scope


class IRecurrenceLayer(ILayer):
    TYPE = t.LayerType.RECURRENCE

    def _made_of(self):
        return self._inputs[:1]

    _reads = _made_of  # the next value is the loop's, which its outputs read

    def _emit(self, nb, inputs):
        return inputs[0]


class IIteratorLayer(ILayer):
    TYPE, FIELDS = t.LayerType.ITERATOR, dict(axis=0, reverse=False)

    def _at(self, nb, x, position):
        return nb.gather(x, position, self.axis)

    def _emit(self, nb, inputs):
        return self._at(nb, inputs[0], np.array(0, np.int64))


class ITripLimitLayer(ILayer):
    TYPE, OUTPUTS, FIELDS = t.LayerType.TRIP_LIMIT, 0, dict(kind=t.TripLimit.COUNT)

    def _emit(self, nb, inputs):
        return []


class ILoopOutputLayer(ILayer):
    TYPE, FIELDS = t.LayerType.LOOP_OUTPUT, dict(axis=0, kind=t.LoopOutput.LAST_VALUE)

    def _reads(self):
        loop = self._loop
        return self._inputs + [i for part in (*loop._recurrences, *loop._iterators, *loop._limits) for i in part._inputs]

    def _emit(self, nb, inputs):
        return self._loop._results_of(nb)[self]


class ILoop:
    def __init__(self, network):
        self._network, self.name = network, "loop"
        self._recurrences, self._iterators, self._limits, self._outputs, self._made = [], [], [], [], (None, {})

    def add_recurrence(self, initial_value):
        self._recurrences.append(self._network._add(IRecurrenceLayer, [initial_value]))
        return self._recurrences[-1]

    def add_iterator(self, tensor, axis=0, reverse=False):
        self._iterators.append(self._network._add(IIteratorLayer, [tensor], axis=axis, reverse=reverse))
        return self._iterators[-1]

    def add_trip_limit(self, tensor, kind):
        self._limits.append(self._network._add(ITripLimitLayer, [tensor], kind=kind))
        return self._limits[-1]

    def add_loop_output(self, tensor, kind, axis=0):
        self._outputs.append(self._network._add(ILoopOutputLayer, [tensor], kind=kind, axis=axis, _loop=self))
        self._network._changed()
        return self._outputs[-1]

    def _results_of(self, nb):
        if self._made[0] is not nb:
            self._made = (nb, self._make(nb))
        return self._made[1]

    def _trips(self, nb):
        counts = [x for x in self._limits if x.kind == t.TripLimit.COUNT]
        if counts:
            return nb.reshape(nb.cast(self._network._value(counts[0].get_input(0)), "int64"), [])
        if self._iterators:
            iterator = self._iterators[0]
            return nb.gather(nb.shape(self._network._value(iterator.get_input(0))), np.array(iterator.axis, np.int64))
        return None

    def _make(self, nb):
        network, sources = self._network, {*self._recurrences, *self._iterators}
        for r in self._recurrences:
            if r.num_inputs < 2:
                raise lathe.InputError("its next value is not set", where=f"recurrence '{r.name}'", hint="call set_input(1, tensor)")
        trips = self._trips(nb)
        whiles = [x for x in self._limits if x.kind == t.TripLimit.WHILE]
        start = [network._value(r.get_input(0)) for r in self._recurrences]
        first = network._value(whiles[0].get_input(0)) if whiles else None

        def body(inner, iteration, carried):
            values = {r.get_output(0): v for r, v in zip(self._recurrences, carried)}
            for it in self._iterators:
                place = iteration
                if it.reverse:
                    place = inner.elementwise(Elementwise.SUB, inner.elementwise(Elementwise.SUB, trips, 1), iteration)
                values[it.get_output(0)] = it._at(inner, network._value(it.get_input(0)), place)
            scope = Scope(network, inner, values, sources)
            following = [scope.value(r.get_input(1)) for r in self._recurrences]
            scanned = [scope.value(o.get_input(0)) for o in self._outputs if o.kind != t.LoopOutput.LAST_VALUE]
            if not whiles:
                return following, scanned
            # The condition of the next iteration, on the values that this one gives.
            ahead = Scope(network, inner, {r.get_output(0): v for r, v in zip(self._recurrences, following)}, sources)
            return following, scanned, inner.reshape(ahead.value(whiles[0].get_input(0)), [])

        first = None if first is None else nb.reshape(first, [])
        results = nb.loop(trips, first, start, body, name=self.name)
        carried = dict(zip((r.get_output(0) for r in self._recurrences), results))
        scanned = iter(results[len(start):])
        return {o: self._output(nb, o, carried, scanned) for o in self._outputs}

    def _output(self, nb, output, carried, scanned):
        if output.kind == t.LoopOutput.LAST_VALUE:
            if output.get_input(0) not in carried:
                raise NotSupported("LoopOutput.LAST_VALUE of a tensor that is no recurrence")
            return carried[output.get_input(0)]
        y = next(scanned)
        if output.kind == t.LoopOutput.REVERSE:
            y = nb.slice(y, [-1], [-(1 << 31)], [0], [-1])
        order = list(range(1, len(y.shape)))
        return nb.transpose(y, order[:output.axis] + [0] + order[output.axis:]) if output.axis else y


class IConditionLayer(ILayer):
    TYPE, OUTPUTS = t.LayerType.CONDITION, 0

    def _emit(self, nb, inputs):
        return []


class IIfConditionalInputLayer(ILayer):
    TYPE = t.LayerType.CONDITIONAL_INPUT

    def _emit(self, nb, inputs):
        return inputs[0]


class IIfConditionalOutputLayer(ILayer):
    TYPE = t.LayerType.CONDITIONAL_OUTPUT

    def _reads(self):
        conditional = self._conditional
        return self._inputs + [i for part in (conditional._condition, *conditional._inputs) for i in part._inputs]

    def _emit(self, nb, inputs):
        network, conditional = self._network, self._conditional

        def branch(tensor):
            def fill(body):
                values = {i.get_output(0): network._value(i.get_input(0)) for i in conditional._inputs}
                return [Scope(network, body, values, set(conditional._inputs)).value(tensor)]
            return fill

        condition = nb.reshape(network._value(conditional._condition.get_input(0)), [])
        return nb.if_else(condition, branch(self.get_input(0)), branch(self.get_input(1)), name=self.name)[0]


class IIfConditional:
    def __init__(self, network):
        self._network, self._inputs, self._condition, self.name = network, [], None, "conditional"

    def set_condition(self, condition):
        self._condition = self._network._add(IConditionLayer, [condition])
        return self._condition

    def add_input(self, tensor):
        self._inputs.append(self._network._add(IIfConditionalInputLayer, [tensor]))
        return self._inputs[-1]

    def add_output(self, true_subgraph_output, false_subgraph_output):
        return self._network._add(IIfConditionalOutputLayer, [true_subgraph_output, false_subgraph_output], _conditional=self)


INetworkDefinition.add_loop = lambda self: ILoop(self)
INetworkDefinition.add_if_conditional = lambda self: IIfConditional(self)
