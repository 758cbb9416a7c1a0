"""Random valid models over the whole list of layers, from a seed."""
import random

ACTIVATIONS = ["relu", "sigmoid", "tanh", "softmax", "linear"]


class Drawer:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.layers = []
        self.counter = 0

    def add(self, cls, result, inputs=None, **config):
        self.counter += 1
        layer = {"class_name": cls, "name": f"l{self.counter}_{cls.lower()}", **config}
        if inputs:
            layer["inputs"] = inputs
        self.layers.append(layer)
        return layer["name"], result

    def dense(self, node, units=None):
        name, shape = node
        units = units or self.rng.randint(1, 7)
        return self.add("Dense", [*shape[:-1], units], [name], units=units,
                        activation=self.rng.choice(ACTIVATIONS), use_bias=self.rng.random() < 0.8)

    def branch(self):
        """An input and what follows until it is one vector per example."""
        rng = self.rng
        kind = rng.choice(["vector", "matrix", "ids"])
        if kind == "vector":
            d = rng.randint(1, 8)
            node = self.add("Input", [d], shape=[d])
        elif kind == "matrix":
            t, d = rng.randint(1, 4), rng.randint(1, 5)
            node = self.add("Input", [t, d], shape=[t, d])
        else:
            t = rng.randint(1, 5)
            node = self.add("Input", [t], shape=[t], dtype="int64")
            d = rng.randint(1, 6)
            node = self.add("Embedding", [t, d], [node[0]], input_dim=rng.randint(2, 12), output_dim=d)
        while len(node[1]) > 1:
            node = self.reduce(node)
        return node

    def reduce(self, node):
        rng, (name, shape) = self.rng, node
        choice = rng.choice(["flatten", "average", "reshape", "dense", "activation"])
        if choice == "flatten":
            return self.add("Flatten", [shape[0] * shape[1]], [name])
        if choice == "average":
            return self.add("GlobalAveragePooling1D", [shape[1]], [name])
        if choice == "reshape":
            return self.add("Reshape", [shape[0] * shape[1]], [name], shape=[shape[0] * shape[1]])
        if choice == "activation":
            return self.add("Activation", shape, [name], activation=rng.choice(ACTIVATIONS))
        return self.dense(node)

    def body(self, node):
        rng = self.rng
        for _ in range(rng.randint(0, 3)):
            choice = rng.choice(["dense", "dense", "activation", "dropout", "reshape"])
            name, shape = node
            if choice == "dense":
                node = self.dense(node)
            elif choice == "activation":
                node = self.add("Activation", shape, [name], activation=rng.choice(ACTIVATIONS))
            elif choice == "dropout":
                node = self.add("Dropout", shape, [name], rate=0.0)
            elif shape[0] % 2 == 0:
                node = self.add("Reshape", [shape[0] // 2, 2], [name], shape=[shape[0] // 2, 2])
                node = self.add("Flatten", shape, [node[0]])
        return node


def draw(seed):
    d = Drawer(seed)
    rng = d.rng
    branches = [d.branch() for _ in range(rng.choice([1, 1, 2, 3]))]
    node = branches[0]
    if len(branches) > 1:
        node = d.add("Concatenate", [sum(b[1][0] for b in branches)], [b[0] for b in branches], axis=-1)
    node = d.body(node)
    loss = rng.choice(["binary_crossentropy", "sparse_categorical_crossentropy", "mean_squared_error"])
    from_logits = loss != "mean_squared_error" and rng.random() < 0.4
    units = rng.randint(2, 5) if loss == "sparse_categorical_crossentropy" else rng.randint(1, 3)
    activation = "linear"
    if loss == "binary_crossentropy" and not from_logits:
        activation = "sigmoid"
    if loss == "sparse_categorical_crossentropy" and not from_logits:
        activation = "softmax"
    node = d.add("Dense", [units], [node[0]], units=units, activation=activation, use_bias=True)
    if activation != "linear" and rng.random() < 0.3:
        # Something between the activation and the loss: the loss works on probabilities.
        d.add("Reshape", [units], [node[0]], shape=[units])
    metrics = {"binary_crossentropy": ["binary_accuracy"],
               "sparse_categorical_crossentropy": ["sparse_categorical_accuracy"]}.get(loss, [])
    optimizer = rng.choice([
        {"class_name": "SGD", "config": {"learning_rate": 0.1}},
        {"class_name": "SGD", "config": {"learning_rate": 0.05, "momentum": 0.9, "nesterov": 1}},
        {"class_name": "Adam", "config": {"learning_rate": 0.01}},
        {"class_name": "RMSprop", "config": {"learning_rate": 0.01}},
    ])
    return {"name": f"random_{seed}", "seed": seed, "output_units": units,
            "model": {"layers": d.layers},
            "compile": {"loss": loss, "from_logits": from_logits, "metrics": metrics,
                        "optimizer": optimizer}}
