"""TensorFlow's tutorial "Distributed training with Keras": a CNN for MNIST on MirroredStrategy.

Lines that end with `# cohort` differ from the tutorial.

    python mnist_mirrored.py
"""

import os
import tempfile

import keras

import cohort  # cohort

(train_images, train_labels), (test_images, test_labels) = keras.datasets.mnist.load_data()  # cohort: arrays, not tensorflow_datasets
train_images, test_images = (x[..., None].astype("float32") / 255 for x in (train_images, test_images))

BATCH_SIZE = 64

model = keras.Sequential([
    keras.layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
    keras.layers.MaxPooling2D(),
    keras.layers.Flatten(),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(10),
])

model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), optimizer=keras.optimizers.Adam(learning_rate=0.001),
              metrics=["accuracy"])

# The directory where checkpoints and logs are stored.
folder = tempfile.mkdtemp()
checkpoint_prefix = os.path.join(folder, "ckpt_{epoch}.weights.h5")


def decay(epoch):
    """A function for decaying the learning rate."""
    if epoch < 3:
        return 1e-3
    if epoch < 7:
        return 1e-4
    return 1e-5


class PrintLR(keras.callbacks.Callback):
    """A callback for printing the learning rate at the end of each epoch."""

    def on_epoch_end(self, epoch, logs=None):
        print(f"\nLearning rate for epoch {epoch + 1} is {logs['learning_rate']}")  # cohort: the rate of the cluster


callbacks = [
    keras.callbacks.TensorBoard(log_dir=os.path.join(folder, "logs")),
    keras.callbacks.ModelCheckpoint(filepath=checkpoint_prefix, save_weights_only=True),
    keras.callbacks.LearningRateScheduler(decay),
    PrintLR(),
]

EPOCHS = 4

cohort.fit(model, train_images, train_labels, epochs=EPOCHS, callbacks=callbacks,  # cohort: model.fit(train_dataset, ...)
           batch_size=BATCH_SIZE, strategy="mirrored")  # cohort: instead of strategy.scope()

model.load_weights(os.path.join(folder, f"ckpt_{EPOCHS}.weights.h5"))
eval_loss, eval_acc = model.evaluate(test_images, test_labels)
print(f"Eval loss: {eval_loss}, Eval accuracy: {eval_acc}")

path = os.path.join(folder, "model.keras")
model.save(path)
replicated_model = keras.models.load_model(path)
replicated_loss, replicated_acc = replicated_model.evaluate(test_images, test_labels)
print(f"Eval loss: {replicated_loss}, Eval Accuracy: {replicated_acc}")
