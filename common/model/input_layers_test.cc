// Preprocessing layers of a model, which become transforms of its data.
#include "common/model/input_layers.h"

#include <catch2/catch.hpp>

#include "common/base/stable_bytes.h"
#include "common/model/job_file.h"
#include "common/model/layers/layer.h"
#include "common/testing/directory_test_util.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

absl::StatusOr<JobFile> Parse(const std::string& model, const std::string& data = "") {
  return ParseJob("model:\n" + model +
                      "compile: {loss: mse}\n"
                      "data: {batch_size: 8, train: {csv: {path: a.csv}, label: y" +
                      data + "}}\n",
                  "job.yaml");
}

TEST_CASE("preprocessing layers at inputs become transforms of the data") {
  const auto job = Parse(R"(
  functional:
    - Input: {name: job, dtype: string}
    - Input: {name: where, feature: city, dtype: string}
    - Input: {name: age}
    - StringLookup: {inputs: job, vocabulary: [cook, smith], num_oov_indices: 2}
    - CategoryEncoding: {name: job_vector, inputs: string_lookup, num_tokens: 4}
    - HashedCrossing: {inputs: [job, where], num_bins: 20, output_mode: one_hot}
    - Discretization: {inputs: age, num_bins: 3, output_mode: one_hot}
    - Concatenate: {inputs: [job_vector, hashed_crossing, discretization, age]}
    - Dense: {inputs: concatenate, units: 1}
)",
                         ", transforms: [{column: age, Rescaling: {scale: 2.0}}]");
  INFO(job.status());
  REQUIRE(job.ok());
  std::vector<std::string> layers, transforms;
  for (const v1::LayerSpec& layer : job->spec.model().layers()) {
    const auto feature = layer.config().find("feature");
    layers.push_back(layer.class_name() + " " + layer.name() + " " +
                     (feature == layer.config().end() ? "" : feature->second.s()));
  }
  CHECK(layers == std::vector<std::string>{"Input age ", "Input job_vector job_vector",
                                           "Input hashed_crossing hashed_crossing",
                                           "Input discretization discretization", "Concatenate  ",
                                           "Dense  "});
  for (const v1::ColumnTransform& transform : job->spec.data().train().transforms()) {
    std::string columns = transform.column();
    for (const std::string& column : transform.columns()) columns += column + ",";
    transforms.push_back(transform.transform_class().class_name() + " " + columns + " " +
                         transform.output());
  }
  CHECK(transforms == std::vector<std::string>{"Rescaling age ", "StringLookup job string_lookup",
                                               "CategoryEncoding string_lookup job_vector",
                                               "HashedCrossing job,city, hashed_crossing",
                                               "Discretization age discretization"});
  const v1::ClassConfig& lookup = job->spec.data().train().transforms(1).transform_class();
  CHECK(lookup.config().at("num_oov_indices").i() == 2);
  CHECK(job->lines.Where("model.layers[5]") == "job.yaml:12");
}

TEST_CASE("a job with such layers is the job of the checkpoints that it writes") {
  const auto job = Parse(R"(
  functional:
    - Input: {name: job, shape: [1], dtype: string}
    - Input: {name: age}
    - StringLookup: {name: words, inputs: job, output_mode: one_hot}
    - Discretization: {name: range, inputs: age, num_bins: 3}
    - Hashing: {name: hash, inputs: range, num_bins: 5}
    - Concatenate: {name: all, inputs: [words, hash]}
    - Dense: {inputs: all, units: 1}
)");
  REQUIRE(job.ok());
  v1::JobSpec upgraded = job->spec;
  REQUIRE(UpgradeJob(job->yaml, &upgraded).ok());
  CHECK(StableBytes(upgraded) == StableBytes(job->spec));
}

TEST_CASE("a sequential model begins with a layer that runs where the data is read") {
  const auto job = Parse(R"(
  sequential:
    - Input: {feature: text, dtype: string}
    - TextVectorization: {output_sequence_length: 5, max_tokens: 100}
    - Embedding: {input_dim: 100, output_dim: 4}
    - GlobalAveragePooling1D
    - Dense: {units: 1}
)");
  INFO(job.status());
  REQUIRE(job.ok());
  CHECK(job->spec.model().layers_size() == 4);
  CHECK(job->spec.model().layers(0).config().at("feature").s() == "text_vectorization");
  REQUIRE(job->spec.data().train().transforms_size() == 1);
  CHECK(job->spec.data().train().transforms(0).column() == "text");
}

// model.to_json() of a Sequential of a StringLookup, an Embedding, a Flatten and a Dense.
constexpr const char* kKerasModel =
    R"({"module": "keras", "class_name": "Sequential", "config": {"name": "sequential", "layers":)"
    R"( [{"module": "keras.layers", "class_name": "InputLayer", "config": {"batch_shape": [null, )"
    R"(1], "dtype": "string", "sparse": false, "ragged": false, "name": "job", "optional": false})"
    R"(}, {"module": "keras.layers", "class_name": "StringLookup", "config": {"name": "string_loo)"
    R"(kup", "trainable": true, "dtype": {"module": "keras", "class_name": "DTypePolicy", "config)"
    R"(": {"name": "float32"}}, "invert": false, "max_tokens": null, "num_oov_indices": 1, "oov_t)"
    R"(oken": "[UNK]", "mask_token": null, "output_mode": "int", "sparse": false, "pad_to_max_tok)"
    R"(ens": false, "idf_weights": null, "vocabulary": ["cook", "smith"], "vocabulary_size": 3, ")"
    R"(oov_method": "floormod", "salt": null, "encoding": "utf-8"}}, {"module": "keras.layers", ")"
    R"(class_name": "Embedding", "config": {"name": "embedding", "input_dim": 3, "output_dim": 4})"
    R"(}, {"module": "keras.layers", "class_name": "Flatten", "config": {"name": "flatten"}}, {"m)"
    R"(odule": "keras.layers", "class_name": "Dense", "config": {"name": "dense", "units": 1}}], )"
    R"("build_input_shape": [null, 1]}})";

TEST_CASE("preprocessing layers of a model in Keras' JSON become transforms, too") {
  const testing::TestDirectory dir;
  dir.Write("model.json", kKerasModel);
  const auto job = ParseJob(
      "model: {keras_json: model.json}\ncompile: {loss: mse}\n"
      "data: {batch_size: 8, train: {csv: {path: a.csv}, label: y}}\n",
      dir / "job.yaml");
  INFO(job.status());
  REQUIRE(job.ok());
  REQUIRE(job->spec.data().train().transforms_size() == 1);
  const v1::ColumnTransform& lookup = job->spec.data().train().transforms(0);
  CHECK(lookup.column() == "job");
  CHECK(lookup.output() == "string_lookup");
  CHECK(Config(lookup.transform_class()).Strings("vocabulary") ==
        std::vector<std::string>{"cook", "smith"});
  CHECK(job->spec.model().layers_size() == 4);
}

// "RandomFlip image/input random_flip float32" of each transform of the training set.
std::vector<std::string> TransformsOf(const JobFile& job) {
  std::vector<std::string> transforms;
  for (const v1::ColumnTransform& transform : job.spec.data().train().transforms()) {
    transforms.push_back(fmt::format("{} {} {}{}", transform.transform_class().class_name(),
                                     transform.column(), transform.output(),
                                     transform.dtype().empty() ? "" : " " + transform.dtype()));
  }
  return transforms;
}

std::string LayersOf(const JobFile& job) {
  std::string layers;
  for (const v1::LayerSpec& layer : job.spec.model().layers()) layers += layer.class_name() + " ";
  return layers;
}

TEST_CASE("layers of images at inputs become transforms, with what stands between them") {
  const auto job = Parse(R"(
  sequential:
    - Input: {feature: picture, shape: [32, 24, 3]}
    - Rescaling: {scale: 0.5}
    - RandomFlip: {mode: horizontal, data_format: channels_last}
    - Pipeline: {layers: [{RandomRotation: {factor: 0.1}}, {CenterCrop: {height: 20, width: 16}}]}
    - Rescaling: {scale: 2.0}
    - Conv2D: {filters: 4, kernel_size: 3}
    - Flatten
    - Dense: {units: 1}
)");
  INFO(job.status());
  REQUIRE(job.ok());
  CHECK(TransformsOf(*job) == std::vector<std::string>{"Reshape picture rescaling/input float32",
                                                       "Rescaling rescaling/input rescaling",
                                                       "RandomFlip rescaling random_flip",
                                                       "RandomRotation random_flip pipeline/0",
                                                       "CenterCrop pipeline/0 pipeline"});
  CHECK(LayersOf(*job) == "Input Rescaling Conv2D Flatten Dense ");
  const v1::LayerSpec& input = job->spec.model().layers(0);
  CHECK(input.config().at("feature").s() == "pipeline");
  CHECK(ConfigText(input.config().at("shape")) == "[20, 16, 3]");
}

TEST_CASE("a sequential model may begin with a layer of images") {
  const auto job =
      Parse("  sequential: [RandomFlip, {RandomZoom: {height_factor: 0.1}}, Flatten]\n");
  INFO(job.status());
  REQUIRE(job.ok());
  CHECK(TransformsOf(*job).size() == 3);
  CHECK(job->spec.data().train().transforms(0).of_input());
  CHECK(LayersOf(*job) == "Input Flatten ");
}

TEST_CASE("two branches of a model may augment one input") {
  const auto job = Parse(R"(
  functional:
    - Input: {name: image, shape: [8, 8, 3]}
    - RandomFlip: {inputs: image}
    - Resizing: {name: small, inputs: image, height: 4, width: 4}
    - Flatten: {name: flat, inputs: random_flip}
    - Flatten: {name: flat_small, inputs: small}
    - Concatenate: {inputs: [flat, flat_small]}
)");
  INFO(job.status());
  REQUIRE(job.ok());
  CHECK(TransformsOf(*job) == std::vector<std::string>{"Reshape image random_flip/input float32",
                                                       "RandomFlip random_flip/input random_flip",
                                                       "Reshape image small/input float32",
                                                       "Resizing small/input small"});
}

TEST_CASE("Normalization without moments learns them at an Input, else it has variables") {
  const std::string model = R"(
  functional:
    - Input: {name: age, shape: [2, 3]}
    - Normalization: {inputs: age}
    - Normalization: {name: given, inputs: normalization, mean: 1, variance: 4}
    - Flatten: {inputs: given}
    - Dense: {inputs: flatten, units: 1}
)";
  const auto job = Parse(model);
  INFO(job.status());
  REQUIRE(job.ok());
  CHECK(job->spec.model().layers(0).class_name() == "Input");
  CHECK(job->spec.model().layers(0).config().at("feature").s() == "normalization");
  CHECK(job->spec.model().layers(0).config().at("shape").list().values_size() == 2);
  CHECK(job->spec.model().layers(1).class_name() == "Normalization");
  const auto& transforms = job->spec.data().train().transforms();
  REQUIRE(transforms.size() == 2);
  CHECK(transforms[0].transform_class().class_name() == "Reshape");
  CHECK(transforms[1].transform_class().class_name() == "Normalization");
  CHECK(transforms[1].column() == transforms[0].output());
  const auto loaded = ParseJob("model:\n" + model +
                                   "compile: {loss: mse}\ninitial_weights: {path: w.h5}\n"
                                   "data: {train: {csv: {path: a.csv}, label: y}}\n",
                               "job.yaml");
  REQUIRE(loaded.ok());
  CHECK(loaded->spec.data().train().transforms().empty());
  // Keras' EfficientNet has such a layer, which nothing adapts.
  const auto inside =
      Parse("  sequential: [{Input: {feature: x}}, {Rescaling: {scale: 0.1}}, Normalization]\n");
  REQUIRE(inside.ok());
  CHECK(inside->spec.data().train().transforms().empty());
}

TEST_CASE("preprocessing in other places is refused by its line") {
  const auto error = [](const std::string& model) {
    return std::string(Parse(model).status().message());
  };
  CHECK_THAT(error("  sequential:\n    - Input: {feature: x}\n    - Dense: {units: 2}\n"
                   "    - CategoryEncoding: {num_tokens: 3}\n    - Dense: {units: 1}\n"),
             Catch::Contains("job.yaml:5: layer \"category_encoding\" (CategoryEncoding): it runs "
                             "where the data is read, so that it reads an Input"));
  CHECK_THAT(error("  sequential: [{Hashing: {num_bins: 3}}, {Dense: {units: 1}}]\n"),
             Catch::Contains("it needs an Input before it that names its column"));
  CHECK_THAT(error("  sequential:\n    - Input: {feature: x, shape: [8, 8, 3]}\n"
                   "    - Conv2D: {filters: 2, kernel_size: 3}\n    - RandomFlip\n"),
             Catch::Contains("job.yaml:5: layer \"random_flip\" (RandomFlip): it runs where the "
                             "data is read"));
  CHECK_THAT(
      error("  sequential:\n    - Input: {feature: x, shape: [8]}\n    - RandomFlip\n"),
      Catch::Contains("job.yaml:4: layer \"random_flip\" (RandomFlip): column \"x\" is [8]"));
  CHECK_THAT(error("  sequential:\n    - Input: {feature: x, shape: [8, 8, 3]}\n"
                   "    - Pipeline: {layers: [Flatten]}\n"),
             Catch::Contains("(Pipeline): Flatten does not run where the data is read"));
}

}  // namespace
}  // namespace cohort
