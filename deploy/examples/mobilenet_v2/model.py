#!/usr/bin/env python3
"""Writes model.json: MobileNetV2 as keras.applications makes it, after layers that make its input of MNIST's images.

For color images of another size, the model alone is enough:

    model = keras.applications.MobileNetV2(weights=None, alpha=0.35, input_shape=(96, 96, 3), classes=10)
"""
import keras
from keras import layers

network = keras.applications.MobileNetV2(weights=None, alpha=0.35, input_shape=(32, 32, 1), classes=10)
for layer in network.layers:
    if isinstance(layer, layers.BatchNormalization):
        layer.momentum = 0.9  # the moving statistics of 0.999 need thousands of steps
model = keras.Sequential([keras.Input((28, 28), name="image"), layers.Reshape((28, 28, 1)), layers.ZeroPadding2D(2),
                          layers.Rescaling(2.0, -1.0), network], name="mobilenet")

with open("model.json", "w", encoding="utf-8") as f:
    f.write(model.to_json() + "\n")
