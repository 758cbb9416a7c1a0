#!/usr/bin/env python3
"""Writes images.json with the real Keras; it needs Pillow, too.

    build/venv-keras/bin/python tests/golden/make_image_golden.py

transforms: what Keras' layers make of images. Random layers get ranges of a single value, so that they are
not random. augmented: what each of the layers of RandAugment makes of an image. perspectives, displaced, mixes: what
Keras makes of images with given corners, shifts, partners and weights. model: the JSON of a model with all
layers for images. decoded: what tf.io.decode_image makes of small files, which are stored. folder: which files
keras.utils.image_dataset_from_directory reads, in which order and with which labels.
"""
import io
import json
import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from PIL import Image  # noqa: E402

import golden_data  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL, ODD, GRAY = [6, 8, 3], [7, 5, 2], [5, 5, 1]

# Class, arguments, shape of the image, training.
CASES = [
    ("Resizing", {"height": 9, "width": 12}, SMALL, True),
    ("Resizing", {"height": 4, "width": 3}, SMALL, True),
    ("Resizing", {"height": 3, "width": 11}, ODD, True),
    ("Resizing", {"height": 6, "width": 8}, SMALL, True),
    ("Resizing", {"height": 9, "width": 12, "interpolation": "nearest"}, SMALL, True),
    ("Resizing", {"height": 4, "width": 3, "interpolation": "nearest"}, ODD, True),
    ("Resizing", {"height": 4, "width": 4, "crop_to_aspect_ratio": True}, SMALL, True),
    ("Resizing", {"height": 9, "width": 3, "crop_to_aspect_ratio": True}, ODD, True),
    ("Resizing", {"height": 4, "width": 4, "pad_to_aspect_ratio": True, "fill_value": 9.0,
                  "interpolation": "nearest"}, SMALL, True),
    ("Resizing", {"height": 5, "width": 9, "pad_to_aspect_ratio": True, "interpolation": "nearest"}, ODD, True),
    ("CenterCrop", {"height": 4, "width": 5}, SMALL, True),
    ("CenterCrop", {"height": 3, "width": 4}, ODD, False),
    ("CenterCrop", {"height": 9, "width": 4}, SMALL, True),
    ("RandomCrop", {"height": 9, "width": 12}, SMALL, True),
    ("RandomFlip", {"mode": "horizontal"}, SMALL, False),
    ("RandomRotation", {"factor": 0.3}, SMALL, False),
    ("RandomZoom", {"height_factor": 0.3}, SMALL, False),
    ("RandomZoom", {"height_factor": [0.3, 0.3]}, SMALL, True),
    ("RandomZoom", {"height_factor": [-0.4, -0.4]}, ODD, True),
    ("RandomZoom", {"height_factor": [0.5, 0.5], "width_factor": [-0.25, -0.25]}, SMALL, True),
    ("Rescaling", {"scale": 0.0078431372549, "offset": -1.0}, SMALL, True),
]
COLORS = ("AutoContrast", "ContrastLimitedAdaptiveHistogramEqualization", "Equalization", "RandomColorDegeneration", "RandomColorJitter", "RandomGaussianBlur",
          "RandomSharpness", "RandomBrightness", "RandomContrast", "RandomErasing", "RandomGrayscale", "RandomHue",
          "RandomInvert", "RandomPosterization", "RandomSaturation", "Solarization")
CASES += [
    ("AutoContrast", {}, SMALL, True),
    ("AutoContrast", {"value_range": [0, 400]}, ODD, False),
    ("RandomBrightness", {"factor": [0.2, 0.2]}, SMALL, True),
    ("RandomBrightness", {"factor": [-0.5, -0.5], "value_range": [0, 400]}, ODD, True),
    ("RandomBrightness", {"factor": 0.2}, SMALL, False),
    # Keras accepts these bounds, and 1 - -0.5 is 1 + 0.5.
    ("RandomContrast", {"factor": [-0.5, 0.5]}, SMALL, True),
    ("RandomContrast", {"factor": 0.0}, ODD, True),
    ("RandomSaturation", {"factor": [0.3, 0.3]}, SMALL, True),
    ("RandomSaturation", {"factor": [0.8, 0.8], "value_range": [0, 1]}, SMALL, True),
    ("RandomHue", {"factor": [1.0, 1.0]}, SMALL, True),
    ("RandomHue", {"factor": 0.5}, SMALL, False),
    ("RandomGrayscale", {"factor": 1.0}, SMALL, True),
    ("RandomGrayscale", {"factor": 0.0}, SMALL, True),
    ("RandomInvert", {"factor": [1.0, 1.0]}, ODD, True),
    ("RandomInvert", {"factor": 0.0}, SMALL, True),
    ("RandomPosterization", {"factor": [3, 3]}, SMALL, True),
    ("RandomPosterization", {"factor": [7, 7], "value_range": [0, 510]}, SMALL, True),
    ("Solarization", {}, SMALL, True),
    ("RandomErasing", {"scale": [1.0, 1.0], "factor": [1.0, 1.0], "fill_value": [1, 300, 7]}, SMALL, True),
    ("RandomErasing", {"factor": 0.0}, SMALL, True),
    ("RandomShear", {"x_factor": 0.0}, SMALL, True),
]
CASES += [
    ("ContrastLimitedAdaptiveHistogramEqualization", {"tile_grid_size": [2, 2]}, SMALL, True),
    ("ContrastLimitedAdaptiveHistogramEqualization", {"tile_grid_size": [3, 2], "clip_limit": 0.0}, ODD, True),
    ("ContrastLimitedAdaptiveHistogramEqualization", {"tile_grid_size": [2, 3], "value_range": [0, 400],
                                                      "clip_limit": 20.0}, SMALL, True),
    ("Equalization", {}, SMALL, True),
    ("Equalization", {"bins": 64}, ODD, True),
    ("Equalization", {"value_range": [0, 400], "bins": 16}, SMALL, True),
    ("Equalization", {}, SMALL, False),
    ("RandomColorDegeneration", {"factor": [0.4, 0.4]}, SMALL, True),
    ("RandomColorDegeneration", {"factor": [-0.5, -0.5]}, SMALL, True),
    ("RandomColorJitter", {"brightness_factor": [0.1, 0.1], "contrast_factor": [-0.3, 0.3],
                           "saturation_factor": [0.6, 0.6], "hue_factor": [1.0, 1.0]}, SMALL, True),
    ("RandomColorJitter", {"contrast_factor": [-0.5, 0.5]}, ODD, True),
    ("RandomColorJitter", {"brightness_factor": 0.5}, SMALL, False),
    ("RandomElasticTransform", {"factor": 0.0}, SMALL, True),
    ("RandomGaussianBlur", {"factor": [1.0, 1.0], "sigma": [0.7, 0.7]}, SMALL, True),
    ("RandomGaussianBlur", {"factor": [1.0, 1.0], "kernel_size": 5, "sigma": [1.0, 1.0]}, ODD, True),
    ("RandomGaussianBlur", {"factor": [1.0, 1.0], "kernel_size": [3, 5], "sigma": [0.9, 0.9]}, SMALL, True),
    ("RandomGaussianBlur", {"factor": 0.0, "value_range": [50, 150]}, SMALL, True),
    ("RandomPerspective", {"scale": 0.0}, SMALL, True),
    ("RandomSharpness", {"factor": [0.0, 0.0]}, SMALL, True),
    ("RandomSharpness", {"factor": [1.0, 1.0]}, ODD, True),
    ("RandomSharpness", {"factor": [0.3, 0.3], "value_range": [20, 200]}, SMALL, True),
]
for mode in ("reflect", "wrap", "constant", "nearest"):
    for interpolation in ("bilinear", "nearest"):
        how = {"fill_mode": mode, "interpolation": interpolation, "fill_value": 7.5}
        CASES.append(("RandomRotation", {"factor": [0.1, 0.1], **how}, SMALL, True))
        CASES.append(("RandomRotation", {"factor": [-0.37, -0.37], **how}, ODD, True))
        CASES.append(("RandomZoom", {"height_factor": [0.9, 0.9], **how}, GRAY, True))
        CASES.append(("RandomTranslation", {"height_factor": [0.4, 0.4], "width_factor": [-0.3, -0.3], **how},
                      ODD, True))


def rounded(values):
    return [round(float(v), 4) for v in np.asarray(values).ravel()]


def transforms():
    made = []
    for seed, (name, config, shape, training) in enumerate(CASES, 1):
        image = golden_data.integers(seed, shape, 256).astype(np.uint8)
        layer = getattr(keras.layers, name)(**config)
        if name in COLORS or "pad_to_aspect_ratio" in config:  # these layers fail for bytes, or compute in them
            image = image.astype(np.float32)
        out = layer(image[None], training=training) if name.startswith(("Random", "Solar", "Equal")) else layer(image[None])
        made.append({"class_name": name, "config": config, "seed": seed, "shape": shape, "training": training,
                     "out": list(out.shape[1:]), "values": rounded(out)})
    return made


def augmented():
    """With the factor 0, five of the layers change nothing, and the others are not random."""
    layer = keras.layers.RandAugment(factor=0.0, num_ops=1)
    image = golden_data.integers(77, SMALL, 256).astype(np.float32)
    layer.build((None, *SMALL))
    outs = []
    for i, name in enumerate(layer._AUGMENT_LAYERS):
        transformation = layer.get_random_transformation(image[None])
        transformation["layer_idxes"] = np.array([i])
        out = layer.transform_images(image[None], transformation)
        outs.append({"class_name": name, "values": rounded(out)})
    return {"seed": 77, "shape": SMALL, "outs": outs}


def perspectives():
    made = []
    for seed, (shape, interpolation, moves) in enumerate([
            (SMALL, "bilinear", [0, 0, -1.5, 0.5, 1, -2, 1, 0.25]), (SMALL, "nearest", [1, 0.5, -2, 1, 0, -1, -1, -1]),
            (ODD, "bilinear", [0, 0, 1.25, 0, 0, 2, 0.5, -1])], 1):
        image = golden_data.integers(seed, shape, 256).astype(np.float32)
        right, bottom = shape[1] - 1, shape[0] - 1
        start = np.array([[0, 0], [right, 0], [0, bottom], [right, bottom]], np.float32)
        end = start + np.array(moves, np.float32).reshape(4, 2)
        out = keras.ops.image.perspective_transform(image, start, end, interpolation=interpolation, fill_value=7.5)
        made.append({"seed": seed, "shape": shape, "interpolation": interpolation, "start": start.ravel().tolist(),
                     "end": end.ravel().tolist(), "values": rounded(out)})
    return made


def displaced():
    made = []
    for seed, mode in enumerate(("reflect", "wrap", "constant", "nearest"), 1):
        for order, interpolation in enumerate(("nearest", "bilinear")):
            height, width, channels = SMALL
            image = golden_data.integers(seed, SMALL, 256).astype(np.float32)
            shifts = (golden_data.integers(seed + 10, [2, height, width], 1600).astype(np.float32) - 800) / 128
            y, x = np.mgrid[0:height, 0:width].astype(np.float32)
            out = np.stack([keras.ops.image.map_coordinates(image[..., c], [y + shifts[0], x + shifts[1]], order, mode, 7.5)
                            for c in range(channels)], axis=-1)
            made.append({"seed": seed, "shape": SMALL, "fill_mode": mode, "interpolation": interpolation,
                         "down": rounded(shifts[0]), "right": rounded(shifts[1]), "values": rounded(out)})
    return made


def mixes():
    shape, order = [4, *SMALL], [2, 1, 3, 0]
    images = golden_data.integers(5, shape, 256).astype(np.float32)
    labels = np.eye(3, dtype=np.float32)[[0, 1, 2, 1]]
    weights = np.array([0.25, 0.5, 0.875, 1.0], np.float32)
    mix_up = keras.layers.MixUp()
    given = {"mix_weight": weights, "permutation_order": np.array(order)}
    made = {"seed": 5, "shape": shape, "partners": order, "labels": rounded(labels), "MixUp": {
        "weights": weights.tolist(), "images": rounded(mix_up.transform_images(images, given)),
        "labels": rounded(mix_up.transform_labels(labels, given))}}
    cut_mix = keras.layers.CutMix()
    boxes = np.array([[0.5, 4.5, 1, 3.25], [0, 8, 0, 6], [2, 2, 3, 3], [6.2, 7.9, 0, 5]], np.float32)
    masks, cut_weights = cut_mix._generate_batch_mask(shape, tuple(boxes.T))
    given = {"permutation_order": np.array(order), "batch_masks": masks, "mix_weight": cut_weights}
    made["CutMix"] = {"boxes": boxes.ravel().tolist(), "weights": rounded(cut_weights),
                      "images": rounded(cut_mix.transform_images(images, given)),
                      "labels": rounded(cut_mix.transform_labels(labels, given))}
    return made


def model():
    """A model with all layers for images before its first convolution, and their names."""
    layers = keras.layers
    augment = [
        layers.AugMix(), layers.AutoContrast(), layers.CenterCrop(30, 30),
        layers.ContrastLimitedAdaptiveHistogramEqualization(), layers.CutMix(), layers.Equalization(),
        layers.MixUp(), layers.RandAugment(), layers.RandomBrightness(0.1), layers.RandomColorDegeneration(0.2),
        layers.RandomColorJitter(brightness_factor=0.2, hue_factor=(0.0, 0.1)), layers.RandomContrast((0.1, 0.2)),
        layers.RandomCrop(28, 28), layers.RandomElasticTransform(), layers.RandomErasing(), layers.RandomFlip("horizontal"),
        layers.RandomGaussianBlur(), layers.RandomGrayscale(), layers.RandomHue(0.1), layers.RandomInvert(0.1),
        layers.RandomPerspective(), layers.RandomPosterization(4), layers.RandomRotation(0.1, seed=3),
        layers.RandomSaturation(0.5), layers.RandomSharpness(0.3), layers.RandomShear(0.1, 0.2),
        layers.RandomTranslation(0.1, (-0.2, 0.3)), layers.RandomZoom(0.1), layers.Resizing(24, 24), layers.Solarization()]
    pipeline = [layers.RandomFlip(), layers.RandomZoom(0.2, 0.1)]
    made = keras.Sequential([layers.Rescaling(1.0), keras.Sequential(augment, name="augment"), layers.Pipeline(pipeline),
                             layers.Rescaling(1 / 255), layers.Conv2D(2, 3), layers.Flatten(), layers.Dense(1)])
    # Keras cannot build a model with Equalization, so the shape is written here.
    text = json.loads(made.to_json())
    text["config"]["build_input_shape"] = [None, 32, 32, 3]
    names = ["Reshape", "Rescaling"] + [type(layer).__name__ for layer in augment + pipeline]
    return {"json": json.dumps(text), "transforms": names}


def picture(height, width):
    """Smooth, so that JPEG keeps it."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([20 + 15 * x, 200 - 12 * y, 100 + 5 * x + 7 * y], axis=-1).clip(0, 255).astype(np.uint8)


def files():
    image = Image.fromarray(picture(9, 11))
    alpha = Image.fromarray(np.concatenate([picture(5, 4), np.full((5, 4, 1), 77, np.uint8)], axis=-1))
    deep = Image.fromarray((np.arange(20).reshape(4, 5) * 3200).astype(np.uint16))
    kinds = [("JPEG, 4:2:0", image, "JPEG", {"quality": 90, "subsampling": 2}),
             ("JPEG, 4:4:4, progressive", image, "JPEG", {"quality": 80, "subsampling": 0, "progressive": True}),
             ("JPEG, gray", image.convert("L"), "JPEG", {"quality": 90}),
             ("PNG, RGB", image, "PNG", {}),
             ("PNG, gray", image.convert("L"), "PNG", {}),
             ("PNG, alpha", alpha, "PNG", {}),
             ("PNG, palette", image.quantize(5), "PNG", {}),
             ("PNG, 1 bit", image.convert("1"), "PNG", {}),
             ("PNG, 16 bits", deep, "PNG", {})]
    for name, picture_, encoding, options in kinds:
        out = io.BytesIO()
        picture_.save(out, encoding, **options)
        yield name, out.getvalue()


def decoded():
    made = []
    for name, data in files():
        case = {"name": name, "bytes": data.hex(), "decoded": {}}
        for channels in (1, 3, 4):
            # TensorFlow gives an image of few colors the alpha of their largest number, which is nearly none.
            if channels == 4 and name in ("PNG, palette", "PNG, 1 bit"):
                continue
            try:
                image = tf.io.decode_image(data, channels=channels, expand_animations=False).numpy()
            except tf.errors.InvalidArgumentError:  # TensorFlow decodes no JPEG with alpha
                continue
            case["decoded"][str(channels)] = {"shape": list(image.shape), "values": image.ravel().tolist()}
        made.append(case)
    return made


def listing(root, **options):
    dataset = keras.utils.image_dataset_from_directory(root, batch_size=1, verbose=False, **options)
    paths = [os.path.relpath(path, root) for path in dataset.file_paths]
    labels = {"b": 1, "a": 0, "c": 2}
    return paths, [labels[path.split("/")[0]] for path in paths]


def folder():
    with tempfile.TemporaryDirectory() as root:
        names = ["b/2.png", "b/10.png", "b/deep/1.PNG", "a/x.jpg", "a/.hidden.png", "c/1.jpeg", "c/2.png", "a/z.png",
                 "c/note.txt", ".cache/1.png"]
        for i, name in enumerate(names):
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            encoding = "JPEG" if ".j" in name else "PNG"
            Image.fromarray(picture(6 + i, 9)).save(os.path.join(root, name), encoding)
        paths, labels = listing(root, shuffle=False)
        split = {subset: listing(root, validation_split=0.4, subset=subset, seed=123)[0]
                 for subset in ("training", "validation")}
    return {"names": names, "paths": paths, "labels": labels, "split": split}


def main():
    golden = {"keras": keras.__version__, "transforms": transforms(), "augmented": augmented(),
              "perspectives": perspectives(), "displaced": displaced(), "mixes": mixes(), "model": model(), "decoded": decoded(), "folder": folder()}
    with open(os.path.join(HERE, "images.json"), "w", encoding="utf-8") as f:
        json.dump(golden, f, separators=(",", ":"))
        f.write("\n")
    print("%d transforms, %d files" % (len(golden["transforms"]), len(golden["decoded"])))


if __name__ == "__main__":
    main()
