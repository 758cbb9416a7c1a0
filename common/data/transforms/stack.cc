// Stack: several columns side by side.
#include <algorithm>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

// The dtype of columns side by side: their own, or that of NumPy for integers of several dtypes, or
// float64 if one is, else float32.
DType CommonDType(const std::vector<DType>& dtypes) {
  const auto all = [&](const auto& is) { return std::all_of(dtypes.begin(), dtypes.end(), is); };
  const auto any = [&](DType dtype) {
    return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
  };
  if (all([&](DType d) { return d == dtypes[0]; })) return dtypes[0];
  if (all([](DType d) { return !IsFloating(d); })) {
    return any(DType::kInt64) ? DType::kInt64 : any(DType::kInt32) ? DType::kInt32 : DType::kUint8;
  }
  return any(DType::kFloat64) ? DType::kFloat64 : DType::kFloat32;
}

absl::StatusOr<RecordTransform> OpenStack(const Config&, std::span<const FeatureType> inputs) {
  std::vector<DType> dtypes;
  for (const FeatureType& input : inputs) {
    if (input.dims != inputs[0].dims) {
      return InvalidArgument("columns \"{}\" {} and \"{}\" {} cannot be stacked", inputs[0].name,
                             DimsToString(inputs[0].dims), input.name, DimsToString(input.dims));
    }
    dtypes.push_back(input.dtype);
  }
  RecordTransform transform;
  transform.dtype = CommonDType(dtypes);
  transform.dims = inputs[0].dims;
  transform.dims.push_back(static_cast<int64_t>(inputs.size()));
  transform.apply = [dtypes, to = transform.dtype](
                        const RecordContext&, std::span<const std::span<const std::byte>> parts,
                        std::span<std::byte> output) {
    const size_t elements = parts[0].size() / SizeOf(dtypes[0]);
    std::byte* out = output.data();
    for (size_t i = 0; i < elements; ++i) {
      for (size_t p = 0; p < parts.size(); ++p, out += SizeOf(to)) {
        ConvertNumbers(dtypes[p], parts[p].data() + i * SizeOf(dtypes[p]), to, out, 1);
      }
    }
    return absl::OkStatus();
  };
  return transform;
}

}  // namespace

TransformClass StackTransform() {
  return {
      .schema = {.name = "Stack",
                 .doc = "Several `columns` side by side, along a new last axis. Several columns "
                        "of a transform without a class are this; other classes stack theirs in "
                        "the same way first."},
      .takes_columns = true,
      .open = OpenStack,
      .elementwise = true,
      .keeps_integers = true};
}

}  // namespace cohort
