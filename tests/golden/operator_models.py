"""Models of Keras 3 with functions of keras.ops, masks and attention: the cases of operator_models.json.gz.

Each case is a function that returns a model, the columns of its data, its labels and what it is compiled with. Sizes of
heads are powers of 4, because Keras rounds their roots to float32, in float64 too.
"""
import keras
import numpy as np
from keras import layers, ops
from keras.src.applications.convnext import LayerScale
from keras.src.applications.inception_resnet_v2 import CustomScaleLayer

# Functions of one tensor [batch, 4, 6], unless a shape stands beside them.
FUNCTIONS = {
    "add_number": lambda x: x + 1,
    "add_tensor": lambda x: x + x * 0.5,
    "subtract_from_number": lambda x: 1 - x,
    "multiply_constant": lambda x: x * np.linspace(-1, 1, 6).astype("float32"),
    "add_constant_matrix": lambda x: ops.add(np.arange(24, dtype="float32").reshape(4, 6) / 24, x),
    "divide": lambda x: 1.0 / (x * x + 1.0) + x / 3,
    "true_divide": lambda x: ops.true_divide(x, 2),
    "divide_no_nan": lambda x: ops.divide_no_nan(x, ops.relu(x - 0.1)),
    "power": lambda x: ops.power(ops.abs(x) + 0.5, 1.7) + x**2,
    "power_of_tensor": lambda x: ops.power(ops.abs(x) + 0.5, x),
    "floor_divide": lambda x: ops.floor_divide(x, 0.3) + x,
    "mod": lambda x: ops.mod(x, 0.25) + x,
    "square_sqrt": lambda x: ops.sqrt(ops.square(x) + 0.1) + ops.rsqrt(x * x + 0.2),
    "exp_log": lambda x: ops.exp(x) + ops.log(ops.abs(x) + 0.1) + ops.log1p(ops.abs(x)) + ops.expm1(x),
    "logarithms": lambda x: ops.log2(ops.abs(x) + 1) + ops.log10(ops.abs(x) + 1) + ops.exp2(x),
    "negative_abs": lambda x: ops.negative(ops.absolute(x)) + -x,
    "maximum_minimum": lambda x: ops.maximum(x, 0.1) + ops.minimum(x, ops.square(x)),
    "trigonometric": lambda x: ops.sin(x) + ops.cos(x) + ops.tan(x * 0.3) + ops.arctan(x),
    "hyperbolic": lambda x: ops.sinh(x) + ops.cosh(x) + ops.tanh(x) + ops.erf(x),
    "rounding": lambda x: x + ops.floor(x * 3) + ops.ceil(x * 3) + ops.round(x * 3) + ops.sign(x) + ops.trunc(x * 3),
    "logaddexp": lambda x: ops.logaddexp(x, x * x),
    "reciprocal": lambda x: ops.reciprocal(x * x + 1),
    "comparisons": lambda x: x * (ops.cast(x > 0.1, "float32") + ops.cast(x <= 0.3, "float32")
                                  + ops.cast(ops.equal(x, x), "float32") + ops.cast(ops.not_equal(x, 0), "float32")
                                  + ops.cast(x >= 0, "float32") + ops.cast(ops.less(x, 0.2), "float32")),
    "logical": lambda x: x * ops.cast(ops.logical_or(ops.logical_and(x > -0.2, x < 0.4), ops.logical_not(x > -0.5)),
                                      "float32"),
    "logical_xor": lambda x: x * ops.cast(ops.logical_xor(x > 0, x > 0.3), "float32"),
    "where": lambda x: ops.where(x > 0, x, 0.5 * x) + ops.where(x < 0.2, 0, x),
    "clip": lambda x: ops.clip(x, -0.2, 0.3),
    "stop_gradient": lambda x: x * ops.stop_gradient(x),
    "likes": lambda x: x + ops.ones_like(x) * 0.5 + ops.zeros_like(x) + ops.full_like(x, 0.25),
    "isfinite": lambda x: x * ops.cast(ops.isfinite(x), "float32") + ops.cast(ops.isnan(x), "float32"),
    "sum_mean": lambda x: ops.sum(x, axis=1) + ops.mean(x, axis=-2),
    "mean_of_all": lambda x: x - ops.mean(x) + ops.mean(x, axis=(1, 2), keepdims=True),
    "max_min": lambda x: ops.max(x, axis=1) + ops.min(x, axis=1) + ops.amax(x, axis=1) - ops.amin(x, axis=1),
    "prod": lambda x: ops.prod(x + 1, axis=1),
    "var_std": lambda x: ops.var(x, axis=-1) + ops.std(x, axis=2),
    "logsumexp": lambda x: ops.logsumexp(x, axis=1) + ops.logsumexp(x, axis=1, keepdims=True)[:, 0],
    "any_all": lambda x: x + ops.cast(ops.any(x > 0.5, axis=1, keepdims=True), "float32")
               + ops.cast(ops.all(x > -0.5, axis=-1, keepdims=True), "float32"),
    "argmax": lambda x: x + ops.cast(ops.argmax(x, axis=1), "float32")[:, None]
              + ops.cast(ops.argmin(x, axis=-1, keepdims=True), "float32"),
    "norm": lambda x: ops.norm(x, axis=-1) + ops.norm(x, ord=1, axis=-1),
    "normalize": lambda x: ops.normalize(x, axis=-1),
    "moments": lambda x: ops.add(*ops.moments(x, axes=[1])),
    "reshape": lambda x: ops.reshape(x, (-1, 3, 8)),
    "reshape_flat": lambda x: ops.reshape(x, (-1, 24)),
    "transpose": lambda x: ops.transpose(x, (0, 2, 1)),
    "swapaxes": lambda x: ops.swapaxes(x, 1, 2) + ops.moveaxis(x, 1, -1),
    "expand_squeeze": lambda x: ops.squeeze(ops.expand_dims(x, 1), 1) + ops.squeeze(x[:, :1], axis=1)[:, None],
    "concatenate": lambda x: ops.concatenate([x, x * x], axis=-1),
    "concatenate_steps": lambda x: ops.concatenate([x, x * x], axis=1),
    "stack": lambda x: ops.stack([x, x * x, x + 1], axis=1),
    "split": lambda x: ops.multiply(*ops.split(x, 2, axis=-1)),
    "split_at": lambda x: ops.split(x, [1, 3], axis=1)[1] + ops.split(x, [1, 3], axis=1)[2][:, :1],
    "unstack": lambda x: ops.unstack(x, axis=1)[0] * ops.unstack(x, axis=1)[3],
    "slices": lambda x: x[:, 0] + x[:, -1] + x[:, 1:3, ...][:, 1],
    "slices_more": lambda x: ops.concatenate([x[:, ::2], x[:, None, 1], x[..., ::-1][:, :1]], axis=1),
    "slice": lambda x: ops.take(x, [0, 2, -1], axis=1),
    "flip_roll": lambda x: ops.flip(x, axis=1) + ops.roll(x, 2, axis=-1),
    "repeat_tile": lambda x: ops.repeat(x, 2, axis=1) + ops.tile(x, (1, 2, 1)),
    "pad": lambda x: ops.pad(x, ((0, 0), (1, 2), (0, 1))) + ops.pad(x, [[0, 0], [2, 1], [1, 0]], "constant", 0.5),
    "pad_mirrored": lambda x: ops.pad(x, ((0, 0), (2, 1), (1, 2)), "reflect")
                    + ops.pad(x, ((0, 0), (1, 2), (2, 1)), "symmetric"),
    "triangles": lambda x: ops.tril(x) + ops.triu(x, k=1) * 2,
    "cumsum": lambda x: ops.cumsum(x, axis=1) + ops.cumsum(x, axis=-1),
    "take_along_axis": lambda x: ops.take_along_axis(x, ops.argmax(x, axis=-1, keepdims=True), axis=-1),
    "matmul": lambda x: ops.matmul(x, ops.transpose(x, (0, 2, 1))),
    "matmul_constant": lambda x: ops.matmul(x, np.linspace(-1, 1, 12).reshape(6, 2).astype("float32")),
    "matmul_of_rank_4": lambda x: ops.matmul(ops.reshape(x, (-1, 2, 2, 6)), ops.reshape(x, (-1, 2, 6, 2))),
    "dot_tensordot": lambda x: ops.dot(x, np.ones((6, 3), "float32")) + ops.tensordot(x, np.ones((6, 3), "float32"), 1),
    "einsum": lambda x: ops.einsum("btd,bsd->bts", x, x),
    "einsum_of_three": lambda x: ops.einsum("btd,bsd,bte->bse", x, x, x * x),
    "einsum_of_one": lambda x: ops.einsum("btd->bd", x) + ops.einsum("...d->d...", x)[0][:, :1],
    "one_hot": lambda x: ops.one_hot(ops.argmax(x, axis=-1), 6) * x,
    "softmax": lambda x: ops.softmax(x) + ops.log_softmax(x, axis=-1) + ops.softmax(x, axis=1),
    "activations": lambda x: ops.relu(x) + ops.relu6(x) + ops.sigmoid(x) + ops.silu(x) + ops.gelu(x) + ops.elu(x)
                   + ops.selu(x) + ops.softplus(x) + ops.softsign(x) + ops.leaky_relu(x, 0.1),
    "more_activations": lambda x: ops.hard_sigmoid(x) + ops.hard_silu(x) + ops.hard_tanh(x) + ops.celu(x)
                        + ops.log_sigmoid(x) + ops.squareplus(x)
                        + ops.hard_shrink(x, 0.2) + ops.soft_shrink(x, 0.1) + ops.tanh_shrink(x)
                        + ops.threshold(x, 0.1, 0.3) + ops.sparse_plus(x) + ops.sparse_sigmoid(x),
    "glu": lambda x: ops.glu(x),
    "max_pool": lambda x: ops.max_pool(x, 2, strides=1, padding="same") + ops.average_pool(x, 2, 1, padding="same"),
}


def real(shape, position, name=None):
    tensor = keras.Input(shape, name=name or "column_%d" % position)
    return tensor, {"column": tensor.name, "kind": "real", "dims": list(shape), "bound": 0, "position": position}


def ids(length, bound, position):
    tensor = keras.Input((length,), dtype="int64", name="column_%d" % position)
    return tensor, {"column": tensor.name, "kind": "ids", "dims": [length], "bound": bound, "position": position}


def head(tensor, units=2):
    """An output of `units` for each record, whatever the tensor is, and its label."""
    tensor = layers.Flatten()(tensor) if len(tensor.shape) != 2 else tensor
    tensor = layers.Dense(units, name="answer")(tensor)
    return tensor, {"column": "label_0", "kind": "real", "dims": [units], "bound": 0, "position": 9}


def of_function(function):
    tensor, column = real((4, 6), 0)
    hidden = layers.Dense(6, name="hidden")(tensor)
    end, label = head(function(hidden))
    return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}


def sequence_loss(loss, units, activation, kind, metrics=()):
    """Masked steps count neither in the loss nor in metrics that are means."""
    def build():
        tensor, column = ids(5, 6, 0)
        x = layers.Embedding(6, 4, mask_zero=True, name="table")(tensor)
        end = layers.Dense(units, activation=activation, name="answer")(layers.LayerNormalization(name="norm")(x))
        dims = [5] if kind == "ids" else [5, units]
        label = {"column": "label_0", "kind": kind, "dims": dims, "bound": units if kind == "ids" else 0, "position": 9}
        return keras.Model(tensor, end), [column], [label], {"loss": loss, "metrics": list(metrics)}
    return build


def two_masked_outputs():
    tensor, column = ids(5, 6, 0)
    x = layers.Embedding(6, 4, mask_zero=True, name="table")(tensor)
    first = layers.Dense(2, name="first")(x)
    second = layers.Dense(3, name="second")(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(tensor, [first, second])
    labels = [{"column": "label_0", "kind": "real", "dims": [5, 2], "bound": 0, "position": 9},
              {"column": "label_1", "kind": "real", "dims": [3], "bound": 0, "position": 8}]
    return model, [column], labels, {"loss": ["mean_squared_error", "mean_absolute_error"], "loss_weights": [0.7, 1.2]}


def explicit_masks():
    tensor, column = real((5, 3), 0)
    x = layers.Dense(3, name="hidden")(tensor)
    mask = ops.any(ops.greater(tensor, 0.2), axis=-1)
    x = layers.GlobalAveragePooling1D()(x, mask=mask)
    end, label = head(x)
    return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}


def masking():
    tensor, column = real((5, 2), 0)
    x = layers.Masking(0.0)(layers.ReLU()(tensor))
    x = layers.Dense(3, name="hidden", use_bias=False)(x)
    end, label = head(layers.Activation("tanh")(x))
    return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}


def attention(make, masked=False, **call):
    """A layer of attention over two sequences of different lengths."""
    def build():
        first, column = ids(5, 7, 0)
        # Keras counts the queries twice in the shape of scores.
        second, other = ids(5 if "return_attention_scores" in call else 4, 7, 1)
        table = layers.Embedding(7, 6, mask_zero=masked, name="table")
        query, value = table(first), table(second)
        x = make(query, value, **call)
        x, *more = x if isinstance(x, (list, tuple)) else [x]
        x = layers.LayerNormalization(name="norm")(x)
        # Queries that are masked attend to nothing in particular.
        x = layers.GlobalAveragePooling1D()(x)
        more = [layers.Flatten()(m) for m in more]
        end, label = head(layers.Concatenate()([x, *more]) if more else x)
        return keras.Model([first, second], end), [column, other], [label], {"loss": "mean_squared_error"}
    return build


def self_attention(causal):
    """A block of a transformer, as text is classified with it."""
    tensor, column = ids(6, 9, 0)
    x = layers.Embedding(9, 8, name="table")(tensor)
    positions = layers.Embedding(6, 8, name="positions")(ops.cumsum(ops.ones_like(tensor), axis=1) - 1)
    x = x + positions
    attended = layers.MultiHeadAttention(2, 4, name="attention")(x, x, use_causal_mask=causal)
    x = layers.LayerNormalization(name="norm_1")(x + attended)
    y = layers.Dense(8, name="up", activation="gelu")(x)
    x = layers.LayerNormalization(name="norm_2")(x + layers.Dense(8, name="down")(y))
    end, label = head(ops.mean(x, axis=1))
    return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}


def masked_block():
    """Masks pass MultiHeadAttention, and it takes them from its inputs."""
    tensor, column = ids(6, 5, 0)
    x = layers.Embedding(5, 8, mask_zero=True, name="table")(tensor)
    attended = layers.MultiHeadAttention(2, 4, name="attention")(x, x)
    x = layers.LayerNormalization(name="norm_1")(layers.Add()([x, attended]))
    end, label = head(layers.Concatenate()([layers.GlobalAveragePooling1D()(x),
                                            layers.GlobalAveragePooling1D()(attended)]))
    return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}


def layers_of_sequences():
    tensor, column = real((4, 5), 0)
    x = layers.TimeDistributed(layers.Dense(3, activation="tanh", name="each"), name="by_step")(tensor)
    x = layers.EinsumDense("abc,cd->abd", output_shape=(4, 4), bias_axes="d", activation="tanh", name="einsum")(x)
    x = layers.EinsumDense("...x,xyz->...yz", output_shape=(2, 3), bias_axes="yz", name="heads")(x)
    x = layers.RMSNormalization(name="rms")(x)
    x = layers.EinsumDense("abcd,bce->aed", output_shape=(3, 3), name="other")(x)
    end, label = head(x)
    return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}


def time_distributed_images():
    tensor, column = real((3, 6, 6, 2), 0)
    x = layers.TimeDistributed(layers.Conv2D(3, 3, activation="relu", name="conv"), name="by_step")(tensor)
    x = layers.TimeDistributed(layers.GlobalAveragePooling2D(), name="pool")(x)
    end, label = head(x)
    return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}


def nested_with_operators():
    start = keras.Input((4,))
    inner = keras.Model(start, ops.tanh(layers.Dense(4, name="inside")(start)) * 2 + start, name="inner")
    tensor, column = real((4,), 0)
    x = inner(inner(tensor) - 0.5)
    a, b = ops.split(x, 2, axis=-1)
    end, label = head(ops.concatenate([b, a * b], axis=1))
    return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}


def scale_layers():
    """The layers that ConvNeXt and InceptionResNetV2 have for themselves."""
    tensor, column = real((3, 4), 0)
    x = layers.Dense(4, name="hidden")(tensor)
    x = LayerScale(0.1, 4, name="scaled")(x)
    x = CustomScaleLayer(0.17, name="sum")([x, tensor])
    end, label = head(x)
    return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}


def heads(**config):
    def call(query, value, **call_arguments):
        return layers.MultiHeadAttention(num_heads=2, key_dim=4, name="attention", **config)(query, value,
                                                                                              **call_arguments)
    return call


def with_attention_mask(query, value):
    allowed = ops.greater(ops.einsum("btd,bsd->bts", query, value), -0.01)
    return layers.MultiHeadAttention(2, 4, name="attention")(query, value, attention_mask=allowed)


def with_key(query, value):
    key = layers.Dense(4, name="keys")(value)
    return layers.MultiHeadAttention(2, 4, value_dim=5, output_shape=4, name="attention")(query, value, key)


def sequences(length=5, masked=False):
    """Two sequences as vectors, with the columns of their ids; the first one with steps that are masked."""
    first, column = ids(length, 6, 0)
    second, other = ids(4, 6, 1)
    x = layers.Embedding(6, 3, mask_zero=masked, name="source")(first)
    y = layers.Embedding(6, 3, mask_zero=masked, name="target")(second)
    return [first, second], [column, other], x, y


def encoder_and_decoder(make, masked=False, **config):
    """What translates: the decoder begins with the states of the encoder, and has one answer for each step."""
    def build():
        inputs, columns, x, y = sequences(masked=masked)
        _, *states = make(4, return_state=True, name="encoder", **config)(x)
        y, *more = make(4, return_sequences=True, return_state=True, name="decoder", **config)(
            y, initial_state=states if len(states) > 1 else states[0])
        end = layers.Dense(6, activation="softmax", name="answer")(y)
        other = layers.Dense(2, name="other")(layers.Concatenate()(more) if len(more) > 1 else more[0])
        labels = [{"column": "label_0", "kind": "ids", "dims": [4], "bound": 6, "position": 9},
                  {"column": "label_1", "kind": "real", "dims": [2], "bound": 0, "position": 8}]
        return keras.Model(inputs, [end, other]), columns, labels, {
            "loss": ["sparse_categorical_crossentropy", "mean_squared_error"]}
    return build


def both_directions(make, masked=False, **config):
    def build():
        inputs, columns, x, y = sequences(masked=masked)
        forward, backward, *states = layers.Bidirectional(
            make(3, return_sequences=True, return_state=True, **config), merge_mode=None, name="both")(x)
        again = layers.Bidirectional(make(3, **config), merge_mode="sum", name="again")(y, initial_state=states)
        end, label = head(layers.Concatenate()([layers.GlobalAveragePooling1D()(forward),
                                                layers.GlobalMaxPooling1D()(backward), again]))
        return keras.Model(inputs, end), columns, [label], {"loss": "mean_squared_error"}
    return build


def cells_with_states():
    tensor, column = real((4, 3), 0)
    cells = lambda: [layers.LSTMCell(3, name="first"), layers.GRUCell(2, name="second")]  # noqa: E731
    y, *states = layers.RNN(cells(), return_state=True, name="encoder")(tensor)
    states = [s for state in states for s in (state if isinstance(state, (list, tuple)) else [state])]
    end, label = head(layers.Concatenate()([y, *states]))
    return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}


def conv_lstm(rank, **config):
    def build():
        make = [layers.ConvLSTM1D, layers.ConvLSTM2D, layers.ConvLSTM3D][rank - 1]
        tensor, column = real((3,) + (4, 5, 3)[:rank] + (2,), 0)
        if config.get("return_state"):
            x, *states = make(2, 2, padding="same", name="frames", **config)(tensor)
            x = make(2, 2, padding="same", name="next")(tensor, initial_state=states) + x
        else:
            x = make(2, 2, name="frames", **config)(tensor)
        end, label = head(x)
        return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}
    return build


def reversible(**config):
    """A language model with one table for its words and its answers."""
    def build():
        tensor, column = ids(4, 6, 0)
        table = layers.ReversibleEmbedding(6, 5, name="table", **config)
        x = layers.Dense(5, activation="tanh", name="hidden")(table(tensor))
        end = layers.Activation("softmax", name="answer")(table(x, reverse=True))
        label = {"column": "label_0", "kind": "ids", "dims": [4], "bound": 6, "position": 9}
        return keras.Model(tensor, end), [column], [label], {"loss": "sparse_categorical_crossentropy"}
    return build


def spectral(make, **config):
    def build():
        tensor, column = real((5, 4, 3), 0)
        x = layers.SpectralNormalization(make(), name="normalized", **config)(tensor)
        end, label = head(layers.Activation("tanh")(x))
        return keras.Model(tensor, end), [column], [label], {"loss": "mean_squared_error"}
    return build


CASES = {"function_" + name: (lambda f=f: of_function(f)) for name, f in FUNCTIONS.items()}
CASES.update({
    "masked_mse": sequence_loss("mean_squared_error", 3, None, "real", ["mean_absolute_error"]),
    "masked_classes": sequence_loss("sparse_categorical_crossentropy", 3, "softmax", "ids", ["accuracy"]),
    "masked_bits": sequence_loss("binary_crossentropy", 1, "sigmoid", "bits", ["binary_accuracy"]),
    "two_masked_outputs": two_masked_outputs,
    "explicit_masks": explicit_masks,
    "masking": masking,
    "heads": attention(heads()),
    "heads_masked": attention(heads(), masked=True),
    "heads_causal": attention(heads(), use_causal_mask=True),
    "heads_masked_causal": attention(heads(), masked=True, use_causal_mask=True),
    "heads_scores": attention(heads(), return_attention_scores=True),
    "heads_gate_window": attention(heads(use_gate=True, sliding_window=2, use_bias=False)),
    "heads_attention_mask": attention(with_attention_mask),
    "heads_key": attention(with_key),
    "group_query": attention(lambda q, v: layers.GroupQueryAttention(4, 4, 2, name="attention")(q, v)),
    "group_query_causal": attention(lambda q, v: layers.GroupQueryAttention(4, 4, 2, name="attention")(
        q, v, use_causal_mask=True), masked=True),
    "attention": attention(lambda q, v: layers.Attention(name="attention")([q, v])),
    "attention_masked": attention(lambda q, v: layers.Attention(name="attention")([q, v]), masked=True),
    "attention_causal": attention(lambda q, v: layers.Attention(use_scale=True, name="attention")(
        [q, v], use_causal_mask=True, return_attention_scores=True)),
    "attention_concat": attention(lambda q, v: layers.Attention(score_mode="concat", name="attention")([q, v, v])),
    "additive_attention": attention(lambda q, v: layers.AdditiveAttention(name="attention")([q, v]), masked=True),
    "self_attention": lambda: self_attention(False),
    "self_attention_causal": lambda: self_attention(True),
    "masked_block": masked_block,
    "layers_of_sequences": layers_of_sequences,
    "time_distributed_images": time_distributed_images,
    "nested_with_operators": nested_with_operators,
    "scale_layers": scale_layers,
    "encoder_decoder_lstm": encoder_and_decoder(layers.LSTM),
    "encoder_decoder_gru": encoder_and_decoder(layers.GRU),
    "encoder_decoder_rnn": encoder_and_decoder(layers.SimpleRNN),
    "encoder_decoder_lstm_masked": encoder_and_decoder(layers.LSTM, masked=True),
    "encoder_decoder_gru_masked": encoder_and_decoder(layers.GRU, masked=True, go_backwards=True),
    "encoder_decoder_rnn_masked": encoder_and_decoder(layers.SimpleRNN, masked=True, zero_output_for_mask=True),
    "encoder_decoder_unrolled": encoder_and_decoder(layers.LSTM, masked=True, recurrent_activation="tanh"),
    "both_directions_lstm": both_directions(layers.LSTM),
    "both_directions_gru_masked": both_directions(layers.GRU, masked=True),
    "both_directions_unrolled": both_directions(layers.GRU, masked=True, reset_after=False),
    "cells_with_states": cells_with_states,
    "conv_lstm_1d": conv_lstm(1, return_sequences=True, strides=2),
    "conv_lstm_2d": conv_lstm(2, padding="same", go_backwards=True, return_sequences=True),
    "conv_lstm_2d_states": conv_lstm(2, return_state=True),
    "conv_lstm_3d": conv_lstm(3, use_bias=False),
    "spectral_dense": spectral(lambda: layers.Dense(4, kernel_regularizer="l2")),
    "spectral_conv": spectral(lambda: layers.Conv2D(2, 3, name="conv"), power_iterations=3),
    "spectral_frozen": spectral(lambda: layers.Dense(4, trainable=False, name="inside")),
    "reversible": reversible(),
    "reversible_untied": reversible(tie_weights=False, logit_soft_cap=0.5),
    "reversible_masked": reversible(mask_zero=True),
})

# Further functions; they stand last, so that the other cases keep their seeds.
MORE_FUNCTIONS = {
    "sort": lambda x: ops.sort(x, axis=1) + ops.sort(x) * x,
    "argsort": lambda x: x * ops.cast(ops.argsort(x, axis=1), "float32") + ops.cast(ops.argsort(x, axis=-1), "float32"),
    "top_k": lambda x: ops.top_k(x, 3)[0] * ops.cast(ops.top_k(x, 3)[1], "float32"),
    "take_sorted": lambda x: ops.take_along_axis(x * x, ops.argsort(x, axis=1), axis=1)
                   + ops.take_along_axis(x, ops.top_k(x, 6)[1], axis=-1),
    "inverse_trigonometric": lambda x: ops.arcsin(ops.tanh(x)) + ops.arccos(ops.tanh(x * 0.5)) + ops.arctan2(x, ops.flip(x, axis=1))
                             + ops.arctan2(-x, x * x + 0.1),
    "inverse_hyperbolic": lambda x: ops.arcsinh(x * 3) + ops.arccosh(x * x + 1.5) + ops.arctanh(ops.tanh(x) * 0.9),
    "cumprod": lambda x: ops.cumprod(x + 1, axis=1) + ops.cumprod(x, axis=-1),
}
CASES.update({"function_" + name: (lambda f=f: of_function(f)) for name, f in MORE_FUNCTIONS.items()})
