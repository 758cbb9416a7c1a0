#ifndef COHORT_COMMON_MODEL_OPERATIONS_OPERATION_H_
#define COHORT_COMMON_MODEL_OPERATIONS_OPERATION_H_

#include <absl/status/statusor.h>

#include <functional>
#include <string_view>
#include <vector>

#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {

// The functions of keras.ops, as layers without variables. `x + 1` in Keras is
// {"ops.add": {inputs: x, x2: 1}} in a job file: an argument that is a tensor in Keras is an input,
// or a number of the config. A function is one entry in a file of this folder; operations.cc lists
// the files. Values have the job's float dtype, int64 or bool. Arithmetic of integers is done in
// float64, so it is exact below 2^53.

using MadeOutput = absl::StatusOr<LayerOutput>;
using MadeExpr = absl::StatusOr<Expr>;

// A function `name` of these tensors: `call` has Keras' names of them, and `arguments` the others.
LayerClass Operation(std::string_view name, std::string_view doc, std::vector<std::string> call,
                     std::vector<Argument> arguments,
                     std::function<MadeOutput(LayerContext* context)> build);
// A function of a list of tensors, or of one tensor.
LayerClass OperationOfAll(std::string_view name, std::string_view doc,
                          std::vector<Argument> arguments,
                          std::function<MadeOutput(LayerContext* context)> build);

// A tensor that may be a number instead, as x2 of `x + 1`.
Argument NumberArgument(std::string_view name);
Argument AxisOrAll(std::string_view doc = "The axis, or a list of them; none: all.");
Argument OneAxis(int64_t axis);
Argument KeepDims();

// The values of these arguments in one dtype: floats if one is a float, else integers. Errors:
// InvalidArgument for an argument that is neither an input nor a number.
absl::StatusOr<std::vector<Expr>> Operands(const LayerContext& context,
                                           std::span<const std::string_view> names);
// f of floats; integers become float64 before it, and integers again after it.
Expr Arithmetic(std::span<const Expr> values, const std::function<Expr(std::span<const Expr>)>& f);
// The tensor `name` as floatx.
Expr FloatsOf(const LayerContext& context, std::string_view name);
Expr ToFloats(const LayerContext& context, Expr x);
// x != 0 as bool.
Expr ToBools(Expr x);
// A number of the type of x.
Expr NumberLike(Expr x, double value);

// The axes of the argument `axis`, ascending and counted from 0; none: all of them. Errors:
// InvalidArgument for an axis that x lacks.
absl::StatusOr<std::vector<int64_t>> AxesOf(const Config& config, Expr x,
                                            std::string_view argument = "axis");
// One axis; `rank` may be that of a result.
absl::StatusOr<int64_t> AxisOf(int64_t given, size_t rank);

// The elements of an axis at these places, which may repeat. Errors: InvalidArgument for the axis
// of the batch.
MadeExpr TakeAt(Expr x, int64_t axis, std::span<const int64_t> places);
// `dims` of Reshape with axes removed or added.
MadeExpr ReshapeTo(Expr x, std::vector<int64_t> dims);
// A vector of numbers as a constant.
Expr ConstantVector(ProgramBuilder* builder, std::span<const double> values, DType dtype);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_OPERATIONS_OPERATION_H_
