"""TensorFlow's tutorial "Custom training with tf.distribute.Strategy": a subclassed CNN for Fashion MNIST.

Lines that end with `# cohort` differ from the tutorial. Its train_step and test_step, and the code that reduces losses and metrics
over replicas, fall away: the trainer does all of it exactly once, also if a worker dies.

    python custom_training.py
"""

import keras
import numpy as np

import cohort  # cohort

fashion_mnist = keras.datasets.fashion_mnist
(train_images, train_labels), (test_images, test_labels) = fashion_mnist.load_data()

# Add a dimension to the array -> new shape == (28, 28, 1)
train_images = train_images[..., None]
test_images = test_images[..., None]

# Scale the images to the [0, 1] range.
train_images = train_images / np.float32(255)
test_images = test_images / np.float32(255)

BATCH_SIZE_PER_REPLICA = 64
EPOCHS = 4


class Classifier(keras.Model):  # cohort: the tutorial has a Sequential model; a subclassed one is traced as well
    def __init__(self):
        super().__init__()
        regularizer = keras.regularizers.L2(1e-5)
        self.convolutions = [keras.layers.Conv2D(filters, 3, activation="relu", kernel_regularizer=regularizer) for filters in (32, 64)]
        self.pool = keras.layers.MaxPooling2D()
        self.flatten = keras.layers.Flatten()
        self.hidden = keras.layers.Dense(64, activation="relu", kernel_regularizer=regularizer)
        self.answer = keras.layers.Dense(10, kernel_regularizer=regularizer)

    def call(self, x):
        for convolution in self.convolutions:
            x = self.pool(convolution(x))
        return self.answer(self.hidden(self.flatten(x)))


model = Classifier()
loss_object = keras.losses.SparseCategoricalCrossentropy(from_logits=True)  # cohort: with the mean, not Reduction.NONE
train_accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
optimizer = keras.optimizers.Adam(learning_rate=0.001)

model.compile(optimizer, loss_object, metrics=[train_accuracy])  # cohort: instead of train_step and test_step
history = cohort.fit(model, train_images, train_labels, batch_size=BATCH_SIZE_PER_REPLICA, epochs=EPOCHS,  # cohort
                     validation_data=(test_images, test_labels), strategy="mirrored")  # cohort: instead of the loop

for epoch, (loss, accuracy, test_loss, test_accuracy) in enumerate(zip(*(history.history[name] for name in (  # cohort
        "loss", "accuracy", "val_loss", "val_accuracy")))):
    print(f"Epoch {epoch + 1}, Loss: {loss}, Accuracy: {accuracy * 100}, Test Loss: {test_loss}, Test Accuracy: {test_accuracy * 100}")
