#ifndef COHORT_COMMON_MODEL_SUMMARY_H_
#define COHORT_COMMON_MODEL_SUMMARY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"

namespace cohort {

namespace v1 {
class ModelSpec;
}

// The contents of Keras' model.summary().
struct ModelSummary {
  struct Row {
    std::string name;
    std::string class_name;  // "InputLayer" for an Input
    Dims dims;               // the shape of the output, without the batch
    int64_t params = 0;
    std::vector<std::string> connected_to;  // names of the inputs
    int64_t frozen_params = 0;              // those of `params` that are not trainable
    std::string device;                     // that the layer names; ""
  };
  std::string model_name;
  bool sequential = true;  // no column of connections, and no row of the Input
  std::vector<Row> rows;
  int64_t params = 0;
  int64_t param_bytes = 0;
  int64_t frozen_params = 0;
};

// Returns the layers of a model that stands alone, without data or loss. Errors: those of
// BuildModel; InvalidArgument if an Input declares no shape.
absl::StatusOr<ModelSummary> SummarizeModel(const v1::ModelSpec& model);

// Formats a table like that of Keras:
//
//   Model: "sequential"
//   ┏━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━┓
//   ┃ Layer (type)    ┃ Output Shape ┃ Param # ┃
//   ┡━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━┩
//   │ dense (Dense)   │ (None, 128)  │ 100,480 │
//   └─────────────────┴──────────────┴─────────┘
//    Total params: 100,480 (392.50 KB)
//
// If a layer names a device, the last column has the devices. Columns are as wide as their
// contents. Ends with a newline.
std::string FormatSummary(const ModelSummary& summary);

// "1,234,567".
std::string WithThousands(int64_t number);
// "397.54 KB", as Keras prints memory: powers of 1024, two digits.
std::string ReadableBytes(int64_t bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_SUMMARY_H_
