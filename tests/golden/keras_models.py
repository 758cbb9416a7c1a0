"""Keras models from the `model` and `compile` sections of a job file, given as dictionaries."""
import keras
import numpy as np
import tensorflow as tf

import golden_data


_UNIFORM = keras.src.backend.random.uniform


class RecordedMasks:
    """Stands in for the random bits of Keras' Dropout and recurrent cells: known masks.

    A mask keeps where uniform(mask_seed, i) >= rate, and is scaled by 1 / (1 - rate) as Keras' is. Masks
    are numbered in the order of the layers, and in the order in which a layer asks for them.
    """

    def __init__(self, model):
        self.masks = []  # (rate, shape of a record, variable)
        self.of_generator = {}
        self.calls = {}
        for layer in model.layers:
            part = getattr(layer, "cell", layer)
            if not hasattr(part, "seed_generator"):
                continue
            own = []
            for rate, shape in _mask_shapes(layer, part):
                variable = tf.Variable(0.0, shape=tf.TensorShape(None), dtype=keras.config.floatx())
                self.masks.append((rate, shape, variable))
                own.append(variable)
            self.of_generator[id(part.seed_generator)] = own
        keras.src.backend.random.dropout = self._dropout
        keras.src.backend.random.uniform = self._uniform

    def _dropout(self, inputs, rate, noise_shape=None, seed=None):
        own = self.of_generator[id(seed)]
        call = self.calls[id(seed)] = self.calls.get(id(seed), -1) + 1  # each trace asks for all
        return inputs * tf.ensure_shape(own[call % len(own)], inputs.shape)

    def _uniform(self, shape, minval=0.0, maxval=1.0, dtype=None, seed=None):
        """For AlphaDropout, which keeps what is not below the rate: 0 or more than 1."""
        own = self.of_generator.get(id(seed))
        if not own:
            return _UNIFORM(shape, minval, maxval, dtype, seed)
        return tf.reshape(own[0], shape)

    def record(self, seed, step, size):
        for number, (rate, shape, variable) in enumerate(self.masks):
            u = golden_data.uniform(golden_data.mask_seed(seed, step, number), size * int(np.prod(shape)))
            variable.assign(((u >= rate) / (1.0 - rate)).reshape((size, *shape)))


def _mask_shapes(layer, part):
    """The rate and the shape for one record of each mask of a layer, of which `part` may be the cell."""
    if isinstance(layer, (keras.layers.Dropout, keras.layers.AlphaDropout)):
        return [(layer.rate, layer.output.shape[1:])] if layer.rate > 0 else []
    if part is layer:
        return []
    count = getattr(part, "dropout_mask_count", 1)
    inputs = layer.input[0] if isinstance(layer.input, list) else layer.input  # with its mask
    masks = [(part.dropout, inputs.shape[2:]), (part.recurrent_dropout, (part.units,))]
    return [mask for mask in masks for _ in range(count) if mask[0] > 0]


def _patches(layer, volumes):
    """The windows of pooling, [..., taps, channels]; zeros where they are outside."""
    patches = tf.extract_volume_patches(volumes, [1, *layer.pool_size, 1], [1, *layer.strides, 1],
                                        layer.padding.upper())
    taps, channels = int(np.prod(layer.pool_size)), volumes.shape[-1]
    return tf.reshape(patches, (-1, *patches.shape[1:4], taps, channels))


# TensorFlow's own ops take no float64. The maximum is that of padding "valid".
keras.layers.MaxPooling3D.call = lambda layer, x: tf.reduce_max(_patches(layer, x), axis=4)
keras.layers.AveragePooling3D.call = lambda layer, x: (
    tf.reduce_sum(_patches(layer, x), axis=4) / tf.reduce_sum(_patches(layer, tf.ones_like(x)), axis=4))


def _fields(inputs):
    """[batch, fields, d] of inputs [batch, d] and [batch, fields, d]."""
    return keras.ops.concatenate([x if len(x.shape) == 3 else keras.ops.expand_dims(x, 1) for x in
                                  (inputs if isinstance(inputs, list) else [inputs])], axis=1)


class FeatureInteraction(keras.layers.Layer):
    """DotInteraction of keras_rs: the rows of the lower triangle of all dot products."""

    def __init__(self, self_interaction=False, **keywords):
        super().__init__(**keywords)
        self.self_interaction = self_interaction

    def call(self, inputs):
        vectors = _fields(inputs)
        products = keras.ops.matmul(vectors, keras.ops.transpose(vectors, (0, 2, 1)))
        n = vectors.shape[1]
        places = [row * n + column for row in range(n) for column in range(row + self.self_interaction)]
        return keras.ops.take(keras.ops.reshape(products, (-1, n * n)), places, axis=-1)


class FactorizationMachine(keras.layers.Layer):
    """The second-order term of a factorization machine, as a sum over pairs."""

    def call(self, inputs):
        v = keras.ops.unstack(_fields(inputs), axis=1)
        pairs = [keras.ops.sum(v[i] * v[j], axis=-1, keepdims=True) for i in range(len(v)) for j in range(i)]
        return sum(pairs[1:], pairs[0])


class CrossLayer(keras.layers.Layer):
    """FeatureCross of keras_rs, with its kernels in the layer itself."""

    def __init__(self, projection_dim=None, diag_scale=0.0, use_bias=True, pre_activation=None,
                 kernel_regularizer=None, bias_regularizer=None, **keywords):
        super().__init__(**keywords)
        self.projection_dim, self.diag_scale, self.use_bias = projection_dim, diag_scale, use_bias
        self.pre_activation = keras.activations.get(pre_activation)
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer

    def build(self, shape):
        features = (shape[0] if isinstance(shape[0], (list, tuple)) else shape)[-1]
        rows = self.projection_dim or features
        weight = lambda name, dims, regularizer: self.add_weight(name=name, shape=dims, regularizer=regularizer)
        if self.projection_dim:
            self.projection = weight("projection", (features, rows), self.kernel_regularizer)
        self.kernel = weight("kernel", (rows, features), self.kernel_regularizer)
        self.bias = weight("bias", (features,), self.bias_regularizer) if self.use_bias else 0.0

    def call(self, inputs):
        x0, x = inputs if isinstance(inputs, (list, tuple)) else (inputs, inputs)
        y = keras.ops.matmul(x, self.projection) if self.projection_dim else x
        y = self.pre_activation(keras.ops.matmul(y, self.kernel) + self.bias)
        return x0 * (y + self.diag_scale * x) + x


class EmbeddingBag(keras.layers.Layer):
    """The sum, mean or sqrtn of tf.nn.embedding_lookup_sparse over padded lists."""

    def __init__(self, input_dim, output_dim, combiner="mean", padding=None, **keywords):
        super().__init__(**keywords)
        self.input_dim, self.output_dim, self.combiner, self.padding = input_dim, output_dim, combiner, padding

    def build(self, shape):
        self.embeddings = self.add_weight(name="embeddings", shape=(self.input_dim, self.output_dim))

    def call(self, inputs):
        ids, weights = inputs if isinstance(inputs, (list, tuple)) else (inputs, None)
        rows = keras.ops.take(self.embeddings, ids, axis=0)
        factors = keras.ops.ones_like(rows[..., 0]) if weights is None else weights
        if self.padding is not None:
            factors = keras.ops.where(keras.ops.equal(ids, self.padding), 0.0, factors)
        total = keras.ops.sum(rows * keras.ops.expand_dims(factors, -1), axis=1)
        if self.combiner == "sum":
            return total
        divisor = (keras.ops.sum(factors, axis=1, keepdims=True) if self.combiner == "mean" else
                   keras.ops.sqrt(keras.ops.sum(factors * factors, axis=1, keepdims=True)))
        return keras.ops.divide_no_nan(total, divisor)


# Layers that Keras lacks, written with keras.ops.
OWN_LAYERS = {layer.__name__: layer for layer in
              (FeatureInteraction, FactorizationMachine, CrossLayer, EmbeddingBag)}


def build(model_spec):
    """A functional keras.Model; layers carry the names of the specification."""
    tensors, inputs, made = {}, [], {}
    previous = None
    for layer in model_spec["layers"]:
        cls, name = layer["class_name"], layer["name"]
        if cls == "Input":
            t = keras.Input(shape=tuple(layer["shape"]), dtype=layer.get("dtype") or None, name=name)
            inputs.append(t)
        else:
            sources = [tensors[n] for n in layer.get("inputs", [previous])]
            made[name] = made[layer["shares"]] if "shares" in layer else _layer(layer)
            t = made[name](sources if len(sources) > 1 or cls == "Concatenate" else sources[0])
        tensors[name] = t
        previous = name
    return keras.Model(inputs, tensors[previous])


def _layer(spec):
    """The layer of a specification: its keys are Keras' arguments."""
    config = {key: value for key, value in spec.items() if key not in ("class_name", "inputs")}
    if spec["class_name"] == "Reshape":
        config["target_shape"] = tuple(config.pop("shape"))
    cls = OWN_LAYERS.get(spec["class_name"]) or getattr(keras.layers, spec["class_name"])
    return cls(**{k: _part(v) for k, v in config.items()})


def _part(value):
    """An argument; {"LSTMCell": {"units": 3}} is a layer or a cell."""
    if isinstance(value, list):
        return [_part(item) for item in value]
    if isinstance(value, dict) and len(value) == 1 and hasattr(keras.layers, next(iter(value))):
        ((name, config),) = value.items()
        return getattr(keras.layers, name)(**{k: _part(v) for k, v in config.items()})
    return value


def sum_equal_rows(optimizer):
    """Sums the rows of a sparse gradient that have the same index before the optimizer sees them.

    Keras 3 on TensorFlow squares repeated rows one by one (keras/src/backend/tensorflow/sparse.py), so
    that Adam and RMSprop see a sum of squares where the dense gradient has the square of a sum. tf_keras
    sums them first, and so does Cohort.
    """
    apply = optimizer.apply

    def deduplicate(grad):
        if not isinstance(grad, tf.IndexedSlices):
            return grad
        keys, place = tf.unique(grad.indices)
        values = tf.math.unsorted_segment_sum(grad.values, place, tf.shape(keys)[0])
        return tf.IndexedSlices(values, keys, grad.dense_shape)

    optimizer.apply = lambda grads, variables=None: apply([deduplicate(g) for g in grads], variables)
    return optimizer


def loss_name(compile_spec):
    """The name of Keras' function: "huber" of "huber" and of {"Huber": {"delta": 0.5}}."""
    loss = compile_spec["loss"]
    return keras.src.utils.naming.to_snake_case(loss if isinstance(loss, str) else next(iter(loss)))


def make_loss(compile_spec):
    loss, name = compile_spec["loss"], loss_name(compile_spec)
    arguments = {} if isinstance(loss, str) else dict(next(iter(loss.values())))
    if compile_spec.get("from_logits") and name.endswith("crossentropy"):
        arguments["from_logits"] = True
    return getattr(keras.losses, "".join(word.capitalize() for word in name.split("_")))(**arguments)


def compile_model(model, spec):
    optimizer = spec["optimizer"]
    config = {k: (bool(v) if k in ("nesterov", "centered", "amsgrad") else v)
              for k, v in optimizer.get("config", {}).items()}
    model.compile(loss=make_loss(spec), metrics=list(spec.get("metrics", [])),
                  optimizer=sum_equal_rows(
                      getattr(keras.optimizers, optimizer["class_name"])(**config)))


def set_weights(model, seed):
    for i, v in enumerate(model.trainable_variables):
        scale = 0.5 if len(v.shape) > 1 else 0.1
        v.assign(golden_data.tensor(golden_data.weight_seed(seed, i), v.shape, -scale, scale))
    for i, v in enumerate(state_of(model)):
        v.assign(golden_data.tensor(golden_data.weight_seed(seed, STATE + i), v.shape, 0.5, 1.5))


STATE = 100  # the number of the first variable that no optimizer changes


def state_of(model):
    """The variables that no optimizer changes: moving statistics, and those of frozen layers."""
    return [v for v in model.non_trainable_variables if "float" in v.dtype]


def batch(model_spec, compile_spec, output_units, seed, step, size):
    """Inputs in the order of the Input layers, and the labels."""
    inputs, position = [], 0
    bounds = {}
    tables = {layer["name"]: layer for layer in model_spec["layers"]}
    for layer in model_spec["layers"]:
        if layer["class_name"] in ("Embedding", "EmbeddingBag"):
            source = layer["inputs"][0]
            bounds[source] = tables[layer.get("shares", layer["name"])]["input_dim"]
    for layer in model_spec["layers"]:
        if layer["class_name"] != "Input":
            continue
        shape = (size, *layer["shape"])
        s = golden_data.input_seed(seed, step, position)
        if layer.get("dtype") == "int64":
            inputs.append(golden_data.integers(s, shape, bounds[layer["name"]]))
        else:
            inputs.append(golden_data.tensor(s, shape))
        position += 1
    s = golden_data.input_seed(seed, step, 9)
    loss = loss_name(compile_spec)
    if loss == "binary_crossentropy":
        labels = golden_data.integers(s, (size, output_units), 2).astype(np.float64)
    elif loss == "sparse_categorical_crossentropy":
        labels = golden_data.integers(s, (size,), output_units)
    elif loss == "categorical_crossentropy":
        labels = np.eye(output_units)[golden_data.integers(s, (size,), output_units)]
    else:
        labels = golden_data.tensor(s, (size, output_units))
    return inputs, labels
