"""TensorFlow's tutorial "Multi-worker training with Keras": a CNN for MNIST on MultiWorkerMirroredStrategy.

Lines that end with `# cohort` differ from the tutorial. Its two files are one, for the workers need no Python.

    python mnist_multi_worker.py
"""

import keras
import numpy as np

import cohort  # cohort


def mnist_dataset():
    (x_train, y_train), _ = keras.datasets.mnist.load_data()
    # The `x` arrays are in uint8 and have values in the [0, 255] range.
    # You need to convert them to float32 with values in the [0, 1] range.
    x_train = x_train / np.float32(255)
    y_train = y_train.astype(np.int64)
    return x_train, y_train  # cohort: arrays, which each worker reads its share of


def build_and_compile_cnn_model():
    model = keras.Sequential([
        keras.layers.InputLayer(shape=(28, 28)),
        keras.layers.Reshape(target_shape=(28, 28, 1)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(10),
    ])
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), optimizer=keras.optimizers.SGD(learning_rate=0.001),
                  metrics=["accuracy"])
    return model


per_worker_batch_size = 64
num_workers = 2  # cohort: instead of TF_CONFIG, as both workers are on this machine

multi_worker_model = build_and_compile_cnn_model()
history = cohort.fit(multi_worker_model, *mnist_dataset(), epochs=3, steps_per_epoch=None, batch_size=per_worker_batch_size,  # cohort
                     strategy="multi_worker_mirrored", workers=num_workers)  # cohort: instead of strategy.scope()
print(f"Accuracy: {history.history['accuracy'][-1]:.4f}")
