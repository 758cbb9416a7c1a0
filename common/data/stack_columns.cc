#include "common/data/stack_columns.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/numbers.h"

namespace cohort {
namespace {

// Stacks the records of several columns of equal dims along a new last axis.
template <typename T, typename Get>
std::vector<T> Interleave(const std::vector<const Column*>& parts, size_t elements,
                          const Get& get) {
  std::vector<T> all;
  all.reserve(elements * parts.size());
  for (size_t i = 0; i < elements; ++i) {
    for (size_t p = 0; p < parts.size(); ++p) all.push_back(get(p, i));
  }
  return all;
}

absl::StatusOr<Column> StackText(const std::vector<const Column*>& parts, uint64_t records) {
  // The words of all columns are in one dictionary, so that they have one vocabulary.
  std::vector<std::string> words;
  std::vector<uint32_t> shift;
  for (const Column* part : parts) {
    shift.push_back(static_cast<uint32_t>(words.size()));
    words.insert(words.end(), part->words->begin(), part->words->end());
  }
  std::vector<std::string> distinct = words;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<uint32_t> code_of(words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    code_of[i] = static_cast<uint32_t>(
        std::lower_bound(distinct.begin(), distinct.end(), words[i]) - distinct.begin());
  }
  Column stacked;
  const auto elements = records * static_cast<uint64_t>(parts[0]->elements());
  stacked.codes = std::make_shared<const std::vector<uint32_t>>(Interleave<uint32_t>(
      parts, elements,
      [&](size_t p, size_t i) { return code_of[shift[p] + (*parts[p]->codes)[i]]; }));
  stacked.words = std::make_shared<const std::vector<std::string>>(std::move(distinct));
  return stacked;
}

absl::StatusOr<Column> StackNumbers(const std::vector<const Column*>& parts, uint64_t records) {
  std::vector<Column> numbers;
  std::vector<const Column*> pointers;
  for (const Column* part : parts) {
    COHORT_ASSIGN_OR_RETURN(numbers.emplace_back(), NumbersOf(*part));
  }
  for (const Column& column : numbers) pointers.push_back(&column);
  const bool equal = std::all_of(numbers.begin(), numbers.end(),
                                 [&](const Column& c) { return c.dtype == numbers[0].dtype; });
  Column stacked;
  const auto elements = records * static_cast<uint64_t>(numbers[0].elements());
  stacked.values = BytesOf(Interleave<double>(
      pointers, elements, [&](size_t p, size_t i) { return NumberAt(numbers[p], i); }));
  stacked.stored = DType::kFloat64;
  stacked.dtype = equal ? numbers[0].dtype : DType::kFloat32;
  return stacked;
}

template <typename Part>
absl::Status CheckEqualDims(const Part& first, const Part& other) {
  if (first.dims == other.dims) return absl::OkStatus();
  return InvalidArgument("columns \"{}\" {} and \"{}\" {} cannot be stacked", first.name,
                         DimsToString(first.dims), other.name, DimsToString(other.dims));
}

Dims StackedDims(Dims dims, size_t parts) {
  dims.push_back(static_cast<int64_t>(parts));
  return dims;
}

}  // namespace

absl::StatusOr<Column> StackColumns(std::span<const Column> inputs, uint64_t records) {
  std::vector<const Column*> parts;
  for (const Column& column : inputs) {
    COHORT_RETURN_IF_ERROR(CheckEqualDims(inputs[0], column));
    parts.push_back(&column);
  }
  const bool text =
      std::all_of(parts.begin(), parts.end(), [](const Column* c) { return c->is_text(); });
  COHORT_ASSIGN_OR_RETURN(Column stacked,
                          text ? StackText(parts, records) : StackNumbers(parts, records));
  stacked.dims = StackedDims(inputs[0].dims, inputs.size());
  return stacked;
}

absl::StatusOr<RecordTransform> StackRecords(std::span<const FeatureType> inputs) {
  std::vector<DType> dtypes;
  for (const FeatureType& input : inputs) {
    COHORT_RETURN_IF_ERROR(CheckEqualDims(inputs[0], input));
    dtypes.push_back(input.dtype);
  }
  const bool equal =
      std::all_of(dtypes.begin(), dtypes.end(), [&](DType d) { return d == dtypes[0]; });
  RecordTransform transform;
  transform.dtype = equal ? dtypes[0] : DType::kFloat32;
  transform.dims = StackedDims(inputs[0].dims, inputs.size());
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

}  // namespace cohort
