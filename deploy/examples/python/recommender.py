"""The recommender of TensorFlow's tutorial "Parameter server training with ParameterServerStrategy".

The input is three names, and the answer is "yes" if one of them is "avenger". Lines that end with `# cohort` differ from the tutorial:
there is no ClusterCoordinator, no dataset function and no loop, for the workers read the data and the chief schedules the steps.

    python recommender.py
"""

import random

import keras
import numpy as np

import cohort  # cohort

feature_vocab = ["avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"]
feature_lookup_layer = keras.layers.StringLookup(vocabulary=feature_vocab, mask_token=None)


def feature_and_label_gen(num_examples=3200):
    examples = {"features": [], "label": []}
    for _ in range(num_examples):
        features = random.sample(feature_vocab, 3)
        label = ["yes"] if "avenger" in features else ["no"]
        examples["features"].append(features)
        examples["label"].append(label)
    return examples


examples = feature_and_label_gen()
labels = np.equal(examples["label"], "yes").astype("float32")  # cohort: instead of a lookup in the dataset function

# Create the model. The input needs to be compatible with Keras processing layers.
model_input = keras.layers.Input(shape=(3,), dtype="string", name="features")  # cohort: words, the lookup is in the model
emb_layer = keras.layers.Embedding(input_dim=len(feature_lookup_layer.get_vocabulary()), output_dim=20)
emb_output = keras.ops.mean(emb_layer(feature_lookup_layer(model_input)), axis=1)
dense_output = keras.layers.Dense(units=1, activation="sigmoid")(emb_output)
model = keras.Model({"features": model_input}, dense_output)

optimizer = keras.optimizers.RMSprop(learning_rate=0.1)
model.compile(optimizer, loss="binary_crossentropy", metrics=["accuracy"])  # cohort: instead of a step function

history = cohort.fit(model, {"features": np.array(examples["features"])}, labels, epochs=4, batch_size=32,  # cohort
                     workers=3, ps=2, mode="async")  # cohort: the cluster, on this machine
accuracy = history.history["accuracy"]
print(f"Final accuracy {accuracy[-1]:.4f}")
