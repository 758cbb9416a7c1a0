"""TensorFlow's tutorial "Multi-worker training with Estimator", with its iris classifier: train_and_evaluate of a DNNClassifier.

Estimators are gone from TensorFlow. Lines that end with `# cohort` differ from a Keras version of the tutorial.

    python train_and_evaluate.py [iris_training.csv iris_test.csv]
"""

import sys

import keras
import numpy as np
import pandas as pd

import cohort  # cohort

CSV_COLUMN_NAMES = ["SepalLength", "SepalWidth", "PetalLength", "PetalWidth", "Species"]
URL = "https://storage.googleapis.com/download.tensorflow.org/data/"
train_path, test_path = sys.argv[1:3] if len(sys.argv) > 2 else (
    keras.utils.get_file("iris_training.csv", URL + "iris_training.csv"), keras.utils.get_file("iris_test.csv", URL + "iris_test.csv"))

train = pd.read_csv(train_path, names=CSV_COLUMN_NAMES, header=0)
test = pd.read_csv(test_path, names=CSV_COLUMN_NAMES, header=0)
train_y = train.pop("Species")
test_y = test.pop("Species")

# What feature columns did: an input for each column.
inputs = {name: keras.Input((1,), name=name) for name in train.columns}
x = keras.layers.Concatenate()(list(inputs.values()))
for units in (30, 10):  # two hidden layers, as DNNClassifier(hidden_units=[30, 10], n_classes=3)
    x = keras.layers.Dense(units, activation="relu")(x)
classifier = keras.Model(inputs, keras.layers.Dense(3)(x))
classifier.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                   metrics=["accuracy"])

history = cohort.fit(classifier, train, train_y, epochs=40, batch_size=16,  # cohort: TrainSpec(input_fn, max_steps)
                     validation_data=(test, test_y), validation_freq=10,  # cohort: EvalSpec(input_fn), throttled
                     workers=2, ps=1, mode="sync")  # cohort: RunConfig(train_distribute=...)
print(f"\nTest set accuracy: {history.history['val_accuracy'][-1]:0.3f}\n")

expected = ["Setosa", "Versicolor", "Virginica"]
predict_x = {"SepalLength": [5.1, 5.9, 6.9], "SepalWidth": [3.3, 3.0, 3.1], "PetalLength": [1.7, 4.2, 5.4], "PetalWidth": [0.5, 1.5, 2.1]}
logits = classifier.predict({name: np.array(values).reshape(-1, 1) for name, values in predict_x.items()}, verbose=0)
for expec, row in zip(expected, np.exp(logits) / np.exp(logits).sum(1, keepdims=True)):
    class_id = int(row.argmax())
    print(f'Prediction is "{expected[class_id]}" ({100 * row[class_id]:.1f}%), expected "{expec}"')
