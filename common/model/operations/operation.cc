#include "common/model/operations/operation.h"

#include <algorithm>
#include <numeric>

#include "common/model/layers/axes.h"
#include "common/model/layers/masks.h"

namespace cohort {
namespace {

LayerClass Make(std::string_view name, std::string_view doc, std::vector<Argument> arguments,
                std::function<MadeOutput(LayerContext* context)> build) {
  return {.schema = {fmt::format("{}{}", kOperationPrefix, name),
                     {},
                     std::string(doc),
                     std::move(arguments)},
          .build = std::move(build)};
}

// A run of neighboring places.
struct Run {
  int64_t begin = 0;
  int64_t size = 0;
};

std::vector<Run> RunsOf(std::span<const int64_t> places) {
  std::vector<Run> runs;
  for (const int64_t place : places) {
    if (!runs.empty() && runs.back().begin + runs.back().size == place) {
      ++runs.back().size;
    } else {
      runs.push_back({place, 1});
    }
  }
  return runs;
}

// More slices than this are one gather.
constexpr size_t kMostSlices = 16;

}  // namespace

LayerClass Operation(std::string_view name, std::string_view doc, std::vector<std::string> call,
                     std::vector<Argument> arguments,
                     std::function<MadeOutput(LayerContext* context)> build) {
  LayerClass made = Make(name, doc, std::move(arguments), std::move(build));
  made.max_inputs = call.size();
  made.call = std::move(call);
  return made;
}

LayerClass OperationOfAll(std::string_view name, std::string_view doc,
                          std::vector<Argument> arguments,
                          std::function<MadeOutput(LayerContext* context)> build) {
  LayerClass made = Make(name, doc, std::move(arguments), std::move(build));
  made.max_inputs = kAnyNumberOfInputs;
  return made;
}

Argument NumberArgument(std::string_view name) {
  return Float(name, "A number in place of the input of this name.").Optional();
}

Argument AxisOrAll(std::string_view doc) { return Ints("axis", doc).Optional(); }

Argument OneAxis(int64_t axis) {
  return Int("axis", "The axis; negative ones count from the end.").Default(axis);
}

Argument KeepDims() {
  return Bool("keepdims", "True: the reduced axes stay, with size 1.").Default(false);
}

absl::StatusOr<std::vector<Expr>> Operands(const LayerContext& context,
                                           std::span<const std::string_view> names) {
  bool floats = false;
  for (const std::string_view name : names) {
    if (const LayerOutput* const input = context.Named(name)) {
      floats = floats || IsFloating(input->value.dtype());
    } else if (context.config.Has(name)) {
      const double number = context.config.Float(name);
      floats = floats || number != std::floor(number);
    } else {
      return InvalidArgument("its argument {} is neither an input nor a number", name);
    }
  }
  const DType dtype = floats ? context.floatx : DType::kInt64;
  std::vector<Expr> values;
  for (const std::string_view name : names) {
    const LayerOutput* const input = context.Named(name);
    values.push_back(input != nullptr ? Cast(input->value, dtype)
                                      : context.builder->Scalar(context.config.Float(name), dtype));
  }
  return values;
}

Expr Arithmetic(std::span<const Expr> values, const std::function<Expr(std::span<const Expr>)>& f) {
  for (const Expr& value : values) {
    if (!value.valid()) return {};
  }
  const DType dtype = values[0].dtype();
  if (IsFloating(dtype)) return f(values);
  std::vector<Expr> floats;
  for (const Expr& value : values) floats.push_back(Cast(value, DType::kFloat64));
  return Cast(f(floats), dtype == DType::kBool ? DType::kInt64 : dtype);
}

Expr ToFloats(const LayerContext& context, Expr x) { return Cast(x, context.floatx); }

Expr FloatsOf(const LayerContext& context, std::string_view name) {
  const LayerOutput* const input = context.Named(name);
  return input == nullptr ? Expr() : ToFloats(context, input->value);
}

Expr ToBools(Expr x) { return AsMask(x); }

Expr NumberLike(Expr x, double value) {
  return x.valid() ? x.builder()->Scalar(value, x.dtype()) : Expr();
}

absl::StatusOr<int64_t> AxisOf(int64_t given, size_t rank) {
  const auto axes = static_cast<int64_t>(rank);
  if (given >= -axes && given < axes) return given < 0 ? given + axes : given;
  return InvalidArgument("there is no axis {} among {}", given, rank);
}

absl::StatusOr<std::vector<int64_t>> AxesOf(const Config& config, Expr x,
                                            std::string_view argument) {
  std::vector<int64_t> axes;
  if (config.IsNone(argument)) {
    axes.resize(x.rank());
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  for (const int64_t given : config.Ints(argument)) {
    COHORT_ASSIGN_OR_RETURN(axes.emplace_back(), AxisOf(given, x.rank()));
  }
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) == axes.end()) return axes;
  return InvalidArgument("it names an axis twice");
}

MadeExpr TakeAt(Expr x, int64_t axis, std::span<const int64_t> places) {
  if (!x.valid()) return Expr();
  const Dim dim = x.type().dims[static_cast<size_t>(axis)];
  if (dim.bounded()) {
    return InvalidArgument("axis {} is the batch, of which a step has no single records", axis);
  }
  for (const int64_t place : places) {
    if (place >= 0 && place < dim.size) continue;
    return InvalidArgument("axis {} has {} elements, and none at {}", axis, dim.size, place);
  }
  if (places.empty()) return InvalidArgument("nothing of axis {} would remain", axis);
  const std::vector<Run> runs = RunsOf(places);
  if (runs.size() == 1 && runs[0].size == dim.size) return x;
  if (runs.size() > kMostSlices) return GatherAt(x, axis, places);
  std::vector<Expr> parts;
  for (const Run& run : runs) parts.push_back(Slice(x, axis, run.begin, run.size));
  return parts.size() == 1 ? parts[0] : Concat(parts, axis);
}

MadeExpr ReshapeTo(Expr x, std::vector<int64_t> dims) {
  if (!x.valid()) return Expr();
  // Axes of 1 before the batch do not change the order of elements.
  size_t first = 0;
  while (first < x.rank() && x.type().dims[first] == Dim{1, 0}) ++first;
  if (first > 0 && first < x.rank() && x.type().dims[first].bounded()) {
    std::vector<int64_t> perm(x.rank());
    std::iota(perm.begin(), perm.end(), 0);
    std::rotate(perm.begin(), perm.begin() + static_cast<int64_t>(first),
                perm.begin() + static_cast<int64_t>(first) + 1);
    x = Transpose(x, std::move(perm));
  }
  const ValueType type = x.type();
  const bool bounded = !type.dims.empty() && type.dims[0].bounded();
  const bool batch_first = !dims.empty() && dims[0] == -1;
  if (bounded != batch_first) {
    return InvalidArgument("{} cannot have the shape {}: its first axis must {} -1, the batch",
                           TypeToString(type), DimsToString(dims), bounded ? "be" : "not be");
  }
  return Reshape(x, std::move(dims));
}

Expr ConstantVector(ProgramBuilder* builder, std::span<const double> values, DType dtype) {
  Tensor tensor = Tensor::Zeros(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kFloat64) tensor.mutable_values<double>()[i] = values[i];
    if (dtype == DType::kFloat32) {
      tensor.mutable_values<float>()[i] = static_cast<float>(values[i]);
    }
    if (dtype == DType::kInt64) {
      tensor.mutable_values<int64_t>()[i] = static_cast<int64_t>(values[i]);
    }
  }
  return builder->Constant(tensor);
}

}  // namespace cohort
