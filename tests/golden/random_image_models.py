"""Random valid models of convolutions over images and sequences, from a seed."""
import random

import random_models

# Without gelu, and UpSampling2D without bilinear: Keras computes parts of both in float32, also if floatx is float64.
# It rounds slopes and offsets to float32, too, so those below are sums of few powers of 2.
ACTIVATIONS = ["relu", "sigmoid", "tanh", "elu", "softplus", "silu", "linear"]
MOST_ELEMENTS = 600  # a record has at most about as many between two layers


class _Drawer(random_models.Drawer):
    def __init__(self, seed):
        super().__init__(seed)
        self.rank = 0  # 1: sequences, 2: images

    # ---------------------------------------------------------------- arguments

    def per_axis(self, low, high):
        """One number for all axes, or a list with one for each."""
        if self.rank == 1 or self.rng.random() < 0.5:
            return self.rng.randint(low, high)
        return [self.rng.randint(low, high) for _ in range(2)]

    def each(self, value):
        return value if isinstance(value, list) else [value] * self.rank

    def window(self, shape, strides, dilates=True):
        """kernel_size, strides, padding, dilation_rate, and the shape that they make of the spatial axes."""
        rng, spatial = self.rng, shape[:-1]
        size = self.per_axis(1, 3)
        step = self.per_axis(1, 2) if strides and rng.random() < 0.4 else 1
        rate = 1
        # Keras' strides and dilations exclude each other.
        if dilates and self.each(step) == [1] * self.rank and rng.random() < 0.25:
            rate = self.per_axis(1, 2)
        reach = [(k - 1) * r + 1 for k, r in zip(self.each(size), self.each(rate))]
        fits = all(n >= r for n, r in zip(spatial, reach))
        padding = rng.choice(["valid", "same"]) if fits else "same"
        steps = self.each(step)
        if padding == "same":
            out = [-(-n // s) for n, s in zip(spatial, steps)]
        else:
            out = [(n - r) // s + 1 for n, r, s in zip(spatial, reach, steps)]
        return {"kernel_size": size, "strides": step, "padding": padding, "dilation_rate": rate}, out

    def name(self, cls):
        return f"{cls}{self.rank}D"

    # ---------------------------------------------------------------- layers

    def conv(self, node, filters=None, same=False):
        rng, (source, shape) = self.rng, node
        window, out = self.window(shape, strides=not same)
        filters = filters or rng.randint(1, 6)
        if same:
            window["padding"], out = "same", shape[:-1]
        elif self.rank == 1 and window["strides"] == 1 and rng.random() < 0.2:
            window["padding"], out = "causal", shape[:-1]
        # TensorFlow has no gradient of dilated groups on CPUs.
        if not same and window["dilation_rate"] == 1 and rng.random() < 0.2:
            window["groups"] = rng.choice([g for g in range(1, shape[-1] + 1) if shape[-1] % g == 0])
            filters = window["groups"] * rng.randint(1, 2)
        return self.add(self.name("Conv"), [*out, filters], [source], filters=filters, **window,
                        activation=rng.choice(ACTIVATIONS), use_bias=rng.random() < 0.7)

    def depthwise(self, node):
        rng, (source, shape) = self.rng, node
        window, out = self.window(shape, strides=True)
        window["strides"] = max(self.each(window["strides"]))  # TensorFlow's are equal
        if window["padding"] == "same":
            out = [-(-n // window["strides"]) for n in shape[:-1]]
        else:
            out = [(n - (k - 1) * r - 1) // window["strides"] + 1 for n, k, r in zip(
                shape[:-1], self.each(window["kernel_size"]), self.each(window["dilation_rate"]))]
        multiplier = rng.randint(1, 2)
        if rng.random() < 0.5:
            return self.add(self.name("DepthwiseConv"), [*out, shape[-1] * multiplier], [source],
                            depth_multiplier=multiplier, **window, activation=rng.choice(ACTIVATIONS),
                            use_bias=rng.random() < 0.7)
        filters = rng.randint(1, 5)
        return self.add(self.name("SeparableConv"), [*out, filters], [source], filters=filters,
                        depth_multiplier=multiplier, **window, activation=rng.choice(ACTIVATIONS),
                        use_bias=rng.random() < 0.7)

    def transpose(self, node):
        rng, (source, shape) = self.rng, node
        size, step = self.per_axis(1, 3), self.per_axis(1, 2)
        padding = rng.choice(["valid", "same"])
        pairs = list(zip(shape[:-1], self.each(size), self.each(step)))
        out = [n * s if padding == "same" else n * s + max(k - s, 0) for n, k, s in pairs]
        filters = rng.randint(1, 4)
        return self.add(f"Conv{self.rank}DTranspose", [*out, filters], [source], filters=filters, kernel_size=size,
                        strides=step, padding=padding, activation=rng.choice(ACTIVATIONS),
                        use_bias=rng.random() < 0.7)

    def pool(self, node):
        rng, (source, shape) = self.rng, node
        window, out = self.window(shape, strides=True, dilates=False)
        size = window.pop("kernel_size")
        del window["dilation_rate"]
        cls = self.name(rng.choice(["MaxPooling", "AveragePooling"]))
        return self.add(cls, [*out, shape[-1]], [source], pool_size=size, **window)

    def borders(self, node):
        """Padding or cropping, in one of Keras' three forms."""
        rng, (source, shape) = self.rng, node
        sides = [[rng.randint(0, 2), rng.randint(0, 2)] for _ in range(self.rank)]
        form = rng.choice(["all", "axis", "side"])
        if form == "all":
            sides = [[sides[0][0]] * 2 for _ in sides]
        elif form == "axis" and self.rank == 2:
            sides = [[a, a] for a, _ in sides]
        cls = rng.choice(["ZeroPadding", "Cropping"])
        if cls == "Cropping" and any(sum(side) >= n for side, n in zip(sides, shape)):
            cls = "ZeroPadding"
        sign = 1 if cls == "ZeroPadding" else -1
        value = sides if self.rank == 2 else sides[0]
        if form == "all":
            value = sides[0][0]
        elif form == "axis" and self.rank == 2:
            value = [a for a, _ in sides]
        key = "padding" if cls == "ZeroPadding" else "cropping"
        return self.add(self.name(cls), [*[n + sign * sum(s) for n, s in zip(shape, sides)], shape[-1]], [source],
                        **{key: value})

    def enlarge(self, node):
        rng, (source, shape) = self.rng, node
        size = self.per_axis(1, 2)
        return self.add(self.name("UpSampling"), [*[n * s for n, s in zip(shape, self.each(size))], shape[-1]],
                        [source], size=size)

    def element_wise(self, node):
        rng, (source, shape) = self.rng, node
        cls, config = rng.choice([
            ("Activation", {"activation": rng.choice(ACTIVATIONS)}),
            ("ReLU", {"negative_slope": 0.125}), ("LeakyReLU", {"negative_slope": 0.25}), ("ELU", {"alpha": 0.75}),
            ("PReLU", {"shared_axes": list(range(1, self.rank + 1))}),
            ("Rescaling", {"scale": 0.5, "offset": 0.125}), ("Dropout", {"rate": 0.0})])
        return self.add(cls, shape, [source], **config)

    def normalize(self, node):
        rng, (source, shape) = self.rng, node
        return self.add("BatchNormalization", shape, [source], momentum=rng.choice([0.9, 0.99]),
                        epsilon=rng.choice([0.001, 0.01]), center=rng.random() < 0.8, scale=rng.random() < 0.8)

    def residual(self, node):
        other = self.conv(node, filters=node[1][-1], same=True)
        if self.rng.random() < 0.5:
            other = self.normalize(other)
        cls = self.rng.choice(["Add", "Add", "Multiply", "Average", "Maximum"])
        return self.add(cls, node[1], [node[0], other[0]])

    def branches(self, node):
        parts = [self.conv(node, same=True) for _ in range(self.rng.randint(1, 2))]
        if self.rng.random() < 0.4:
            parts.append(node)
        if len(parts) < 2:
            parts.append(self.conv(node, same=True))
        return self.add("Concatenate", [*node[1][:-1], sum(p[1][-1] for p in parts)], [p[0] for p in parts], axis=-1)

    # ---------------------------------------------------------------- the model

    def images(self):
        rng = self.rng
        self.rank = rng.choice([1, 2, 2])
        sides = [rng.randint(5, 12)] if self.rank == 1 else [rng.randint(4, 7), rng.randint(4, 7)]
        shape = [*sides, rng.randint(1, 4)]
        node = self.add("Input", shape, shape=shape)
        kinds = [self.conv] * 5 + [self.depthwise] * 3 + [self.transpose] + [self.pool] * 2 + [self.borders] * 2 + [
            self.enlarge, self.element_wise, self.element_wise, self.normalize, self.normalize, self.residual,
            self.residual, self.branches, self.branches]
        node = self.conv(node)
        for _ in range(rng.randint(3, 7)):
            size = 1
            for n in node[1]:
                size *= n
            node = self.pool(node) if size > MOST_ELEMENTS else rng.choice(kinds)(node)
        return node

    def to_vector(self, node):
        source, shape = node
        size = 1
        for n in shape:
            size *= n
        cls = self.rng.choice(["Flatten", "GlobalAveragePooling", "GlobalMaxPooling"])
        if cls == "Flatten":
            return self.add(cls, [size], [source])
        return self.add(self.name(cls), [shape[-1]], [source])


def draw(seed):
    """A case of random_image_models.json.gz, without its results."""
    drawer = _Drawer(seed)
    rng = drawer.rng
    node = drawer.to_vector(drawer.images())
    loss = rng.choice(["sparse_categorical_crossentropy", "mean_squared_error", "binary_crossentropy"])
    activation = {"sparse_categorical_crossentropy": "softmax", "binary_crossentropy": "sigmoid"}.get(loss, "linear")
    units = rng.randint(2, 4)
    drawer.add("Dense", [units], [node[0]], units=units, activation=activation)
    # Only SGD: the gradient of a bias before BatchNormalization consists of rounding errors, and Adam and RMSprop make
    # steps of full size out of it.
    optimizer = rng.choice([{"learning_rate": 0.1}, {"learning_rate": 0.05, "momentum": 0.9}])
    return {"name": f"images_{seed}", "seed": seed, "output_units": units, "model": {"layers": drawer.layers},
            "compile": {"loss": loss, "from_logits": False, "metrics": [],
                        "optimizer": {"class_name": "SGD", "config": optimizer}}}
