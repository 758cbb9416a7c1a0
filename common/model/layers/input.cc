// Input (keras/src/layers/core/input_layer.py): a column of the data. The model builder makes its
// value.
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

DType InputDType(const std::string& given, DType of_batch, DType floatx) {
  const DType dtype = DTypeFromName(given).value_or(of_batch);
  const bool is_integer = dtype == DType::kInt64 || dtype == DType::kInt32;
  return is_integer ? DType::kInt64 : floatx;
}

}  // namespace

absl::StatusOr<Expr> InputValue(const Config& config, Expr batch, std::string_view what,
                                DType floatx, bool are_ids) {
  const ValueType type = batch.type();
  Dims given;
  for (size_t i = 1; i < type.dims.size(); ++i) given.push_back(type.dims[i].size);
  Dims dims = config.Ints("shape");
  if (dims.empty()) dims = given.empty() ? Dims{1} : given;
  if (dims != given) {
    Dims with_one = given;
    with_one.push_back(1);
    if (dims != with_one) {
      return InvalidArgument("its shape is {}, but {} has {} for each record", DimsToString(dims),
                             what, DimsToString(given));
    }
    dims.insert(dims.begin(), -1);
    batch = Reshape(batch, std::move(dims));
  }
  if (are_ids) return Cast(batch, DType::kInt64);
  return Cast(batch, InputDType(config.String("dtype"), type.dtype, floatx));
}

LayerClass InputLayer() {
  return {
      .schema = LayerSchema(
          "Input", "A column of the data.",
          {Ints("shape", "Shape of one record, without the batch; none: that of the column.")
               .Optional(),
           String("dtype",
                  "Type of the values; none: int64 for ids of an Embedding and for a column of "
                  "integers that has a dtype, else float. A CSV file states none.")
               .Optional()
               .OneOf({"float32", "float64", "int32", "int64", "string"}),
           String("feature", "The column; none: the name of the layer, or the only column.")
               .Optional(),
           Bool("ragged",
                "True: lists of different lengths, for EmbeddingBag. It needs `dtype`: int64 for "
                "ids, float32 for weights.")
               .Default(false),
           Int("max_length",
               "With `ragged`: the length of the longest list; a longer one is an "
               "error.")
               .AtLeast(1)
               .Optional(),
           Planned("batch_size"), Planned("batch_shape"), Planned("tensor"),
           Planned(Bool("sparse", "").Default(false)),
           Planned(Bool("optional", "").Default(false))}),
      .min_inputs = 0,
      .max_inputs = 0,
      .build = nullptr};
}

}  // namespace cohort
