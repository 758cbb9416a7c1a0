"""Random models of Keras 3 or tf_keras from a seed: nested and shared ones, with several inputs and outputs."""
import random

ACTIVATIONS = ["relu", "sigmoid", "tanh", "softmax", "linear"]
# Loss, whether a prediction is a probability, metrics that suit it.
LOSSES = [
    ("mean_squared_error", "linear", []),
    ("mean_absolute_error", "tanh", []),
    ("binary_crossentropy", "sigmoid", ["accuracy"]),
    ("sparse_categorical_crossentropy", "softmax", ["accuracy", "sparse_categorical_accuracy"]),
    ("categorical_crossentropy", "softmax", ["categorical_accuracy"]),
]


class Drawer:
    """Makes one model. `inputs` and `labels` describe the columns that it is trained on."""

    def __init__(self, keras, seed):
        self.keras, self.layers, self.rng = keras, keras.layers, random.Random(seed)
        self.inputs, self.labels = [], []
        self.is_keras_2 = keras.__version__.startswith("2")

    def chance(self, share):
        return self.rng.random() < share

    def input(self, shape, bound=0):
        kind = {"dtype": "int64"} if bound else {}
        name = {"name": "column_%d" % len(self.inputs)} if self.chance(0.5) else {}
        tensor = self.keras.Input(tuple(shape), **kind, **name)
        self.inputs.append({"tensor": tensor, "dims": list(shape), "bound": bound})
        return tensor

    # ---------------------------------------------------------------- layers

    def dense(self, units=None, activation=None, **more):
        rng = self.rng
        config = dict(units=units or rng.randint(1, 6), activation=activation or rng.choice(ACTIVATIONS),
                      use_bias=self.chance(0.8), **more)
        if self.chance(0.3):
            config["kernel_initializer"] = rng.choice(
                [self.keras.initializers.RandomNormal(stddev=0.1), "ones", "random_uniform"])
        if self.chance(0.1):
            config["activation"] = getattr(self.keras.activations, config["activation"])
        layer = self.layers.Dense(**config)
        if self.chance(0.08):
            layer.trainable = False
        return layer

    def simple(self, shape):
        """A layer that suits one record of this shape, and the shape that it makes."""
        rng, layers = self.rng, self.layers
        kinds = ["dense", "dense", "activation", "dropout", "reshape"]
        if len(shape) > 1:
            kinds += ["flatten", "average", "max_pooling"]
        kind = rng.choice(kinds)
        if kind == "dense":
            layer = self.dense()
            return layer, [*shape[:-1], layer.units]
        if kind == "activation":
            return layers.Activation(rng.choice(ACTIVATIONS)), shape
        if kind == "dropout":
            return layers.Dropout(0.0), shape
        if kind == "reshape":
            size = 1
            for n in shape:
                size *= n
            width = rng.choice([n for n in range(1, size + 1) if size % n == 0])
            target = [size // width, width] if self.chance(0.5) else [size]
            return layers.Reshape(tuple(target)), target
        if kind == "flatten":
            return layers.Flatten(), [shape[0] * shape[1]]
        if kind == "average":
            return layers.GlobalAveragePooling1D(), [shape[1]]
        size = rng.randint(1, shape[0])
        return layers.MaxPooling1D(size), [(shape[0] - size) // size + 1, shape[1]]

    def to_vector(self, tensor):
        return tensor if len(tensor.shape) == 2 else self.layers.Flatten()(tensor)

    # ---------------------------------------------------------------- models

    def sequential(self, shape, depth, **more):
        layers = [self.keras.Input(tuple(shape))]
        for _ in range(self.rng.randint(1, 3)):
            if depth > 0 and self.chance(0.25):
                layer, shape = self.nested(shape, depth - 1)
            else:
                layer, shape = self.simple(shape)
            layers.append(layer)
        return self.keras.Sequential(layers, **more), shape

    def nested(self, shape, depth):
        """A model with one input and one output, and the shape that it makes."""
        if self.chance(0.5):
            return self.sequential(shape, depth)
        tensor = start = self.keras.Input(tuple(shape))
        for _ in range(self.rng.randint(1, 3)):
            tensor = self.step(tensor, depth)
        return self.keras.Model(start, tensor), list(tensor.shape[1:])

    def step(self, tensor, depth):
        """A layer or a small subgraph after a tensor."""
        rng, shape = self.rng, list(tensor.shape[1:])
        if depth > 0 and self.chance(0.3):
            model, _ = self.nested(shape, depth - 1)
            return model(tensor)
        if len(shape) == 2 and self.chance(0.3):
            return self.recurrent(tensor)
        if self.chance(0.25):
            if self.is_keras_2:
                return self.tensorflow_function(tensor)
            return self.attention(tensor) if len(shape) == 2 and self.chance(0.4) else self.operator(tensor)
        if self.chance(0.2):
            # One layer called twice.
            layer = self.dense(units=shape[-1])
            return layer(layer(tensor)) if self.chance(0.5) else self.layers.Add()([layer(tensor), tensor])
        if self.chance(0.15):
            other = self.dense(units=shape[-1])(tensor)
            return rng.choice([self.layers.Add, self.layers.Multiply, self.layers.Concatenate])()([tensor, other])
        layer, _ = self.simple(shape)
        return layer(tensor)

    def operator(self, tensor):
        """A function of keras.ops, or Python's operators."""
        ops, shape = self.keras.ops, list(tensor.shape[1:])
        choices = [
            lambda: tensor * 0.5 + 1,
            lambda: 1 - tensor,
            lambda: tensor + self.dense(units=shape[-1])(tensor),
            lambda: tensor / (1 + ops.abs(tensor)),
            lambda: ops.tanh(tensor) * ops.sigmoid(tensor),
            lambda: ops.where(tensor > 0.1, tensor, 0.2 * tensor),
            lambda: ops.concatenate([tensor, ops.square(tensor)], axis=-1),
            lambda: ops.maximum(tensor, -0.3) - ops.mean(tensor, axis=-1, keepdims=True),
            lambda: ops.softmax(tensor, axis=-1) + ops.clip(tensor, -0.5, 0.5),
            # In the other order Keras takes [5, 1] for a bias of five features.
            lambda: tensor[..., :1] + tensor[..., ::-1],
            lambda: ops.expand_dims(ops.reshape(tensor, (-1, shape[0] * (shape[1] if len(shape) > 1 else 1))), -1),
        ]
        if len(shape) == 2:
            choices += [
                lambda: ops.mean(tensor, axis=1),
                lambda: ops.transpose(tensor, (0, 2, 1)),
                lambda: tensor[:, 0],
                lambda: ops.matmul(tensor, ops.transpose(tensor, (0, 2, 1))),
                lambda: ops.einsum("btd,bsd->bts", tensor, tensor),
                lambda: ops.add(*ops.split(ops.concatenate([tensor, tensor * tensor], axis=1), 2, axis=1)),
            ]
        made = self.rng.choice(choices)()
        return ops.squeeze(made, -1) if len(made.shape) > 3 else made

    def tensorflow_function(self, tensor):
        """A function of TensorFlow, or Python's operators: Keras 2 makes layers of them."""
        import tensorflow as tf
        shape = list(tensor.shape[1:])
        choices = [
            lambda: tensor * 0.5 + 1,
            lambda: 1 - tensor,
            lambda: tensor + self.dense(units=shape[-1])(tensor),
            lambda: tensor / (1 + tf.abs(tensor)),
            lambda: tf.tanh(tensor) * tf.sigmoid(tensor),
            lambda: tf.where(tensor > 0.1, tensor, 0.2 * tensor),
            lambda: tf.concat([tensor, tf.square(tensor)], axis=-1),
            lambda: tf.maximum(tensor, -0.3) - tf.reduce_mean(tensor, axis=-1, keepdims=True),
            lambda: tf.nn.softmax(tensor) + tf.clip_by_value(tensor, -0.5, 0.5),
            lambda: tf.reverse(tensor, [-1]) + tensor[(slice(None),) * len(shape) + (slice(0, 1),)],
            lambda: tf.reshape(tensor, (-1, shape[0] * (shape[1] if len(shape) > 1 else 1))),
            lambda: tf.nn.relu(tensor) - tf.nn.elu(-tensor),
            lambda: tf.add_n([tensor, tf.nn.gelu(tensor, approximate=True), tf.nn.leaky_relu(tensor)]),
            lambda: tf.math.l2_normalize(tensor, axis=-1) * tf.exp(-tensor),
        ]
        if len(shape) == 2:
            choices += [
                lambda: tf.reduce_mean(tensor, axis=1),
                lambda: tf.transpose(tensor, (0, 2, 1)),
                lambda: tensor[:, 0],
                lambda: tf.matmul(tensor, tensor, transpose_b=True),
                lambda: tensor @ tf.transpose(tensor, (0, 2, 1)),
                lambda: tf.add(*tf.split(tf.concat([tensor, tensor * tensor], axis=1), 2, axis=1)),
                lambda: tf.squeeze(tf.expand_dims(tensor, 1), 1) + tf.reverse(tensor, [1]),
                lambda: tf.pad(tensor, [[0, 0], [1, 0], [0, 0]]),
                lambda: tf.stack([tensor[:, 0], tensor[:, -1]], axis=1),
                lambda: tf.cumsum(tensor, axis=1),
            ]
        return self.rng.choice(choices)()

    def recurrent(self, tensor):
        """Recurrence over the steps of a tensor: one layer, both directions, or an encoder and its decoder."""
        rng, layers = self.rng, self.layers
        make = rng.choice([layers.LSTM, layers.GRU, layers.SimpleRNN])
        units = rng.randint(1, 4)
        config = {"go_backwards": self.chance(0.2), "use_bias": self.chance(0.8)}
        if make is not layers.SimpleRNN and self.chance(0.2):
            config["recurrent_activation"] = "tanh"  # step by step
        if make is layers.GRU and self.chance(0.3):
            config["reset_after"] = False
        sequences = self.chance(0.6)
        kind = rng.choice(["plain", "plain", "two", "apart", "states", "decoder", "decoder", "two_states", "cells"])
        if kind == "plain":
            return make(units, return_sequences=sequences, **config)(tensor)
        if kind == "two":
            mode = rng.choice(["concat", "sum", "mul", "ave"])
            return layers.Bidirectional(make(units, return_sequences=sequences, **config), merge_mode=mode)(tensor)
        if kind == "apart":
            both = layers.Bidirectional(make(units, return_sequences=sequences, **config), merge_mode=None)(tensor)
            return layers.Concatenate()(list(both))
        if kind == "states":
            y, *states = make(units, return_state=True, **config)(tensor)
            return layers.Concatenate()([y, *states])
        if kind == "cells":
            cells = [layers.LSTMCell(units), layers.GRUCell(rng.randint(1, 4))]
            y, *states = layers.RNN(cells, return_sequences=sequences, return_state=True)(tensor)
            if sequences:
                return y
            ends = []
            for state in states:  # Keras 2 has a list for each cell
                ends += state if isinstance(state, (list, tuple)) else [state]
            return layers.Concatenate()([y, *ends])
        if kind == "two_states":
            _, *states = layers.Bidirectional(make(units, return_state=True, **config))(tensor)
            return layers.Bidirectional(make(units, return_sequences=sequences, **config))(
                self.dense()(tensor), initial_state=states)
        _, *states = make(units, return_sequences=self.chance(0.5), return_state=True, **config)(tensor)
        states = states if len(states) > 1 else states[0]
        return make(units, return_sequences=sequences, **config)(self.dense()(tensor), initial_state=states)

    def video(self):
        """The input of a layer that convolves the steps of images or sequences, and its output."""
        rng, rank = self.rng, self.rng.choice([1, 2])
        make = self.layers.ConvLSTM1D if rank == 1 else self.layers.ConvLSTM2D
        tensor = self.input([rng.randint(1, 3)] + [rng.randint(2, 4) for _ in range(rank)] + [rng.randint(1, 2)])
        more = {"strides": 2} if self.chance(0.3) else {}
        made = make(rng.randint(1, 2), 2, padding=rng.choice(["same", "valid"]), return_sequences=self.chance(0.5),
                    **more)(tensor)
        return self.layers.Flatten()(made)

    def attention(self, tensor):
        rng, layers = self.rng, self.layers
        # In float64, Keras rounds the root of the size to float32, unless it is exact. The gradient of the bias of a key
        # is 0, of which Adam would take the rounding errors.
        heads, size = rng.randint(1, 3), rng.choice([1, 4])
        kind = rng.choice(["heads", "heads", "group", "dot", "additive", "by_step"])
        causal = self.chance(0.4)
        if kind == "heads":
            return layers.MultiHeadAttention(heads, size, use_bias=False)(
                tensor, tensor, use_causal_mask=causal)
        if kind == "group":
            return layers.GroupQueryAttention(size, 2 * heads, heads, use_bias=False)(tensor, tensor, use_causal_mask=causal)
        if kind == "dot":
            return layers.Attention()([tensor, tensor], use_causal_mask=causal)
        if kind == "additive":
            return layers.AdditiveAttention()([tensor, tensor])
        return layers.TimeDistributed(self.dense())(tensor)

    def towers(self):
        """Several inputs that go through the same layers."""
        count = self.rng.randint(2, 3)
        if self.chance(0.5):
            bound, size = self.rng.randint(2, 12), self.rng.randint(1, 5)
            table = self.layers.Embedding(bound, size)
            made = [table(self.input([self.rng.randint(1, 4)], bound)) for _ in range(count)]
            return [self.layers.GlobalAveragePooling1D()(t) for t in made]
        shape = [self.rng.randint(1, 6)]
        model, _ = self.nested(shape, 1)
        return [model(self.input(shape)) for _ in range(count)]

    def pair(self, tensors):
        """A nested model of several inputs and two outputs."""
        inputs = [self.keras.Input(tuple(t.shape[1:])) for t in tensors]
        joined = self.layers.Concatenate()(inputs) if len(inputs) > 1 else inputs[0]
        model = self.keras.Model(inputs, [self.dense()(joined), self.dense()(joined)])
        return model(tensors if len(tensors) > 1 else tensors[0])

    def head(self, tensor, number):
        """An output with its loss, and the column that is its label."""
        loss, activation, metrics = self.rng.choice(LOSSES)
        units = self.rng.randint(2, 4) if "categorical" in loss else self.rng.randint(1, 3)
        by_step = loss == "mean_squared_error" and len(tensor.shape) == 3
        if not by_step:
            tensor = self.to_vector(tensor)
        tensor = self.dense(units=units, activation=activation, name="answer_%d" % number)(tensor)
        dims = list(tensor.shape[1:])
        kind = {"binary_crossentropy": "bits", "sparse_categorical_crossentropy": "ids",
                "categorical_crossentropy": "one_hot"}.get(loss, "real")
        self.labels.append({"column": "label_%d" % number, "kind": kind, "dims": [] if kind == "ids" else dims,
                            "bound": units if kind == "ids" else 0})
        return tensor, loss, [m for m in metrics if self.chance(0.7)]

    def functional(self):
        rng = self.rng
        tensors = []
        if self.chance(0.4):
            tensors += self.towers()
        while not tensors or (len(tensors) < 3 and self.chance(0.3)):
            if self.chance(0.1):
                tensors.append(self.video())
            elif self.chance(0.3):
                bound = rng.randint(2, 12)
                ids = self.input([rng.randint(1, 4)], bound)
                if self.chance(0.3):
                    rows = self.layers.Embedding(bound, rng.randint(1, 5), mask_zero=True)(ids)
                    make = rng.choice([self.layers.LSTM, self.layers.GRU, self.layers.SimpleRNN])
                    tensors.append(make(rng.randint(1, 4), go_backwards=self.chance(0.3))(rows))
                else:
                    rows = self.layers.Embedding(bound, rng.randint(1, 5))(ids)
                    tensors.append(self.recurrent(rows) if self.chance(0.5) else rows)
            else:
                tensors.append(self.input([rng.randint(1, 4) for _ in range(rng.randint(1, 2))]))
        tensors = [self.step(t, 2) if self.chance(0.7) else t for t in tensors]
        if self.chance(0.25):
            tensors = list(self.pair([self.to_vector(t) for t in tensors]))
        elif len(tensors) > 1:
            tensors = [self.layers.Concatenate()([self.to_vector(t) for t in tensors])]
        # Every tensor leads to an output.
        heads = max(len(tensors), rng.choice([1, 1, 2, 3]))
        ends = [self.head(tensors[i % len(tensors)], i) for i in range(heads)]
        return self.keras.Model([i["tensor"] for i in self.inputs], [e[0] for e in ends]), ends

    def draw(self):
        if not self.chance(0.3):
            return self.functional()
        shape = [self.rng.randint(1, 5) for _ in range(self.rng.randint(1, 2))]
        model, _ = self.sequential(shape, 2)
        tensor, loss, metrics = self.head(model.outputs[0], 0)
        # The layers of the head, after those of the model.
        layers = []
        if len(model.outputs[0].shape) == 3 and loss != "mean_squared_error":
            layers.append(self.layers.Flatten())
        layers.append(self.dense(units=tensor.shape[-1], name="last",
                                 activation={l: a for l, a, _ in LOSSES}[loss]))
        for layer in layers:
            model.add(layer)
        self.inputs = [{"tensor": model.inputs[0], "dims": shape, "bound": 0}]
        return model, [(None, loss, metrics)]

    def compile_arguments(self, ends, names):
        """loss, loss_weights and metrics of Keras' compile: strings, objects, lists and mappings."""
        rng = self.rng
        losses = [loss for _, loss, _ in ends]
        metrics = [m for _, _, m in ends]
        if len(ends) == 1:
            return {"loss": losses[0], "metrics": metrics[0]}
        arguments = {"loss": losses, "metrics": metrics}
        if self.chance(0.5):
            arguments["loss_weights"] = [round(rng.uniform(0.2, 2), 3) for _ in ends]
        if self.chance(0.5) and len(set(names)) == len(names):
            arguments = {key: dict(zip(names, value)) for key, value in arguments.items()}
        return arguments

    def optimizer(self):
        return self.rng.choice([
            ("SGD", {"learning_rate": 0.1}),
            ("SGD", {"learning_rate": 0.05, "momentum": 0.9, "nesterov": True}),
            ("Adam", {"learning_rate": 0.01}),
            ("RMSprop", {"learning_rate": 0.01}),
        ])
