#!/usr/bin/env python3
"""A small MobileNetV2 for images of 32 x 32 pixels: writes its JSON, or trains it with Keras.

    keras_small_mobilenet.py --write_json FILE
    keras_small_mobilenet.py --images DIRECTORY --seed 1    (prints the accuracy on the last tenth of the images)

DIRECTORY is made by tests/data/make_image_files.py. Moving averages have momentum 0.9: in a few hundred steps those of
keras.applications, with 0.999, would still be half of their first values.
"""
import argparse
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras  # noqa: E402

SIDE = 32
EPOCHS = 20
BATCH = 64


def description():
    """The JSON of the model, with pixels from 0 to 255 as its input."""
    base = keras.applications.MobileNetV2(input_shape=(SIDE, SIDE, 3), alpha=0.35, weights=None, classes=10)
    model = json.loads(keras.Sequential(
        [keras.Input((SIDE, SIDE, 3)), keras.layers.Rescaling(1 / 127.5, -1), base]).to_json())

    def set_momentum(node):
        if isinstance(node, dict):
            if node.get("class_name") == "BatchNormalization":
                node["config"]["momentum"] = 0.9
            for value in node.values():
                set_momentum(value)
        elif isinstance(node, list):
            for value in node:
                set_momentum(value)
    set_momentum(model)
    return json.dumps(model)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write_json")
    parser.add_argument("--images")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.write_json:
        with open(args.write_json, "w", encoding="utf-8") as f:
            f.write(description())
        return
    keras.utils.set_random_seed(args.seed)
    subsets = [keras.utils.image_dataset_from_directory(
        os.path.join(args.images, "folder"), image_size=(SIDE, SIDE), batch_size=BATCH, validation_split=0.1,
        subset=subset, seed=1, verbose=False) for subset in ("training", "validation")]
    model = keras.models.model_from_json(description())
    model.compile(optimizer=keras.optimizers.Adam(0.001), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(subsets[0], epochs=EPOCHS, verbose=0)
    print(model.evaluate(subsets[1], verbose=0)[1])


if __name__ == "__main__":
    main()
