#!/usr/bin/env python3
"""Writes model.json: a Keras model with a nested model and two outputs, and what it is compiled with."""
import keras
from keras import layers

names = keras.Input((3,), dtype="int64", name="features")
body = keras.Sequential([layers.GlobalAveragePooling1D(), layers.Dense(16, activation="relu")], name="body")
hidden = body(layers.Embedding(8, 20)(names))
outputs = [layers.Dense(1, activation="sigmoid", name=name)(hidden) for name in ("yes", "no")]
model = keras.Model(names, outputs, name="recommender")
model.compile(optimizer=keras.optimizers.RMSprop(0.01), loss="binary_crossentropy",
              metrics={"yes": ["accuracy"], "no": ["accuracy"]}, loss_weights={"yes": 1.0, "no": 0.5})

with open("model.json", "w", encoding="utf-8") as f:
    f.write(model.to_json(indent=1) + "\n")
