"""One graph for a model that computes something else in training than in evaluation and prediction."""

from __future__ import annotations

import json
from typing import Any, Callable

from cohort._graph import Graph, TraceError, owner


def of_both(training: Graph, inference: Graph, identity: Callable[[Any], Any]) -> Graph:
    """Returns `training` with the layers of `inference` that it lacks. An ops.in_training chooses between two outputs that differ.

    identity: names the variable of the framework, of an entry of Graph.variables.
    Raises TraceError if the graphs cannot be one model.
    """
    if training.output_shapes != inference.output_shapes:
        raise TraceError(f"{training.name}: its outputs have the shapes {training.output_shapes} in training and {inference.output_shapes} "
                         f"in inference, and must be the same: return the further outputs always, or compute what only training needs in the loss")
    merged = _Merged(training, inference, identity)
    before = list(training.outputs)
    for i, name in enumerate(inference.outputs):
        if merged.names[name] != before[i]:
            training.outputs[i] = training.op("in_training", [before[i], merged.names[name]])
    if len(before) > 1:
        training.output_names = training.output_names or before
    training.prune()
    kept = {next(iter(layer.values()))["name"] for layer in training.layers}
    training.values = {key: value for key, value in training.values.items() if owner(key, kept) is not None}
    training.variables = {key: variable for key, variable in training.variables.items() if key in training.values}
    return training


class _Merged:
    """Adds the layers of a graph to another one that has most of them.

    names: the layer in the result for each layer of the graph.
    """

    def __init__(self, target: Graph, source: Graph, identity: Callable[[Any], Any]) -> None:
        self.target = target
        self.source = source
        self.names: dict[str, str] = {}
        self._roots = self._roots_of(source, identity)
        self._target_roots = self._roots_of(target, identity)
        self._by_variables = {variables: root for root, variables in self._target_roots.items()}
        self._placed = {variable: root for root, variables in self._target_roots.items() for variable in variables}
        self._known: dict[tuple, list[str]] = {}
        for layer in target.layers:
            ((kind, body),) = layer.items()
            self._known.setdefault(self._signature(kind, body, self._target_roots, {}), []).append(body["name"])
        for layer in source.layers:
            ((kind, body),) = layer.items()
            self.names[body["name"]] = self._place(kind, dict(body))

    @staticmethod
    def _roots_of(graph: Graph, identity: Callable[[Any], Any]) -> dict[str, tuple]:
        """The variables of each layer that has some."""
        layers = {next(iter(layer.values()))["name"] for layer in graph.layers}
        roots: dict[str, list[Any]] = {}
        for key, variable in graph.variables.items():
            roots.setdefault(owner(key, layers) or key, []).append(identity(variable))
        return {root: tuple(variables) for root, variables in roots.items()}

    def _signature(self, kind: str, body: dict[str, Any], roots: dict[str, tuple], names: dict[str, str]) -> tuple:
        """What a layer computes, with the names of the result."""
        inputs = tuple(names.get(name, name) for name in body.get("inputs", []))
        masks = tuple(names.get(name, name) for name in body.get("masks", []))
        root = body.get("shares", body["name"])
        config = {key: value for key, value in body.items() if key not in ("name", "inputs", "masks", "shares")}
        if root in roots:  # a further call has the arguments of the first one
            config = {key: value for key, value in config.items() if key == "input_names"}
        if kind == "Input":
            config["name"] = body["name"]
        return kind, inputs, masks, roots.get(root), json.dumps(config, sort_keys=True, default=str)

    def _place(self, kind: str, body: dict[str, Any]) -> str:
        """The layer that computes the same, or a new one."""
        signature = self._signature(kind, body, self._roots, self.names)
        known = self._known.get(signature, [])
        if known:
            name = body["name"] if body["name"] in known else known[0]
            if len(known) > 1:  # another layer of the same kind, such as a second dropout, is another one here, too
                known.remove(name)
            return name
        name = body.pop("name")
        for key in ("inputs", "masks"):
            if key in body:
                body[key] = [self.names.get(item, item) for item in body[key]]
        root = body.get("shares", name)
        variables = self._roots.get(root)
        if variables is None:
            made = self.target.add(kind, name, **body)
        elif variables in self._by_variables:
            shared = self._by_variables[variables]
            self._check_kind(kind, shared, variables)
            call = {key: body[key] for key in ("masks", "input_names") if key in body}
            made = self.target.add(kind, f"{shared}:call", body.get("inputs"), shares=shared, **call)
        else:
            made = self._add_first(kind, name, body, variables)
        self._known.setdefault(signature, []).append(made)
        return made

    def _add_first(self, kind: str, name: str, body: dict[str, Any], variables: tuple) -> str:
        """A layer with variables that training does not read."""
        for variable in variables:
            if variable in self._placed:
                raise self._misplaced(variable, self._placed[variable], f"{name} ({kind})")
        made = self.target.add(kind, name, **body)
        layers = {next(iter(layer.values()))["name"] for layer in self.source.layers}
        for key in [key for key in self.source.variables if (owner(key, layers) or key) == name]:
            self.target.values[made + key[len(name):]] = self.source.values[key]
            self.target.variables[made + key[len(name):]] = self.source.variables[key]
        self._by_variables[variables] = made
        return made

    def _check_kind(self, kind: str, shared: str, variables: tuple) -> None:
        first = next(k for layer in self.target.layers for k, body in layer.items() if body["name"] == shared)
        if first != kind:
            raise self._misplaced(variables[0], f"{shared} ({first})", kind)

    def _misplaced(self, variable: Any, first: str, second: str) -> TraceError:
        return TraceError(f"{self.target.name}: a variable is that of {first} in training and that of {second} in inference: read it in the same "
                          f"way in both, for example by the same layer")
