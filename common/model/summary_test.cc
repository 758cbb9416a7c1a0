#include "common/model/summary.h"

#include <catch2/catch.hpp>

#include "common/model/model_builder.h"

namespace cohort {
namespace {

TEST_CASE("numbers as Keras prints them") {
  CHECK(WithThousands(0) == "0");
  CHECK(WithThousands(999) == "999");
  CHECK(WithThousands(1000) == "1,000");
  CHECK(WithThousands(1234567890) == "1,234,567,890");
  CHECK(WithThousands(-1234) == "-1,234");
  CHECK(ReadableBytes(0) == "0.00 B");
  CHECK(ReadableBytes(724) == "724.00 B");
  CHECK(ReadableBytes(407080) == "397.54 KB");
  CHECK(ReadableBytes(int64_t{5} << 30) == "5.00 GB");
}

// What keras.Model.summary() of Keras 3.15 counts for the same models.
TEST_CASE("parameters are counted as by Keras") {
  const struct {
    const char* layers;
    std::vector<FeatureType> features;
    const char* loss;
    std::vector<int64_t> params;  // by row
    std::vector<Dims> dims;
    const char* total;
  } cases[] = {
      {"[{Input: {shape: [28, 28]}}, Flatten, {Dense: {units: 128}}, {Dropout: {rate: 0.2}}, "
       "{Dense: {units: 10, activation: softmax}}]",
       {{"x", DType::kFloat32, {28, 28}}, {"y", DType::kInt64, {}}},
       "sparse_categorical_crossentropy",
       {0, 0, 100480, 0, 1290},
       {{28, 28}, {784}, {128}, {128}, {10}},
       "101,770 (397.54 KB)"},
      {"[{Embedding: {input_dim: 8, output_dim: 20}}, GlobalAveragePooling1D, {Dense: {units: 1, "
       "activation: sigmoid}}]",
       {{"x", DType::kInt64, {3}}, {"y", DType::kInt64, {}}},
       "bce",
       {0, 160, 0, 21},
       {{3}, {3, 20}, {20}, {1}},
       "181 (724.00 B)"},
      {"[{Reshape: {target_shape: [-1, 2]}}, {Dense: {units: 5, use_bias: false}}, {Reshape: "
       "{target_shape: [15]}}, {Dense: {units: 1}}]",
       {{"x", DType::kFloat32, {6}}, {"y", DType::kFloat32, {}}},
       "mse",
       {0, 0, 10, 0, 16},
       {{6}, {3, 2}, {3, 5}, {15}, {1}},
       "26 (104.00 B)"},
  };
  for (const auto& c : cases) {
    INFO(c.layers);
    const auto job =
        ParseJob(std::string("model: {sequential: ") + c.layers + "}\ncompile: {loss: " + c.loss +
                     "}\ndata: {train: {csv: {path: a}, label: y}}\n",
                 "job.yaml");
    REQUIRE(job.status().message() == "");
    const auto model = BuildModel(job->spec, c.features);
    REQUIRE(model.status().message() == "");
    std::vector<int64_t> params;
    std::vector<Dims> dims;
    for (const auto& row : model->summary.rows) {
      params.push_back(row.params);
      dims.push_back(row.dims);
    }
    CHECK(params == c.params);
    CHECK(dims == c.dims);
    CHECK_THAT(FormatSummary(model->summary),
               Catch::Contains(std::string(" Total params: ") + c.total));
  }
}

TEST_CASE("the table of a sequential model leaves out its Input") {
  ModelSummary summary{"sequential", true, {}, 1290, 5160};
  summary.rows = {{"input_layer", "InputLayer", {128}, 0, {}},
                  {"dense", "Dense", {10}, 1290, {"input_layer"}}};
  CHECK(FormatSummary(summary) == R"(Model: "sequential"
┏━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━┓
┃ Layer (type)  ┃ Output Shape ┃ Param # ┃
┡━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━┩
│ dense (Dense) │ (None, 10)   │   1,290 │
└───────────────┴──────────────┴─────────┘
 Total params: 1,290 (5.04 KB)
 Trainable params: 1,290 (5.04 KB)
 Non-trainable params: 0 (0.00 B)
)");
  summary.sequential = false;
  CHECK_THAT(FormatSummary(summary),
             Catch::Contains("│ dense (Dense)            │ (None, 10)   │   "
                             "1,290 │ input_layer  │"));
}

}  // namespace
}  // namespace cohort
