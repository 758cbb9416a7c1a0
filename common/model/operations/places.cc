// Functions of places: the order of elements, elements by places, and sums by places
// (keras/src/ops/numpy.py, math.py, core.py).
#include <algorithm>
#include <numeric>

#include "common/model/layers/axes.h"
#include "common/model/operations/operation_list.h"

namespace cohort {
namespace {

int64_t LastSize(Expr x) { return x.type().dims.back().size; }

// x with an axis at the end. Errors: InvalidArgument if it is that of the batch.
MadeExpr WithLast(Expr x, int64_t axis) {
  if (!x.valid()) return Expr();
  if (x.type().dims[static_cast<size_t>(axis)].bounded()) {
    return InvalidArgument("axis {} is the batch, whose records do not depend on each other", axis);
  }
  const int64_t last[] = {axis};
  return axis + 1 == static_cast<int64_t>(x.rank()) ? x
                                                    : Transpose(x, MoveLast(x.rank(), last).there);
}

Expr BackFromLast(Expr x, int64_t axis) {
  const int64_t last[] = {axis};
  return !x.valid() || axis + 1 == static_cast<int64_t>(x.rank())
             ? x
             : Transpose(x, MoveLast(x.rank(), last).back);
}

// x, repeated along the axes before the last along which `other` is larger.
Expr WithRowsOf(Expr x, Expr other) {
  if (!x.valid() || !other.valid()) return Expr();
  const auto a = x.type().dims, b = other.type().dims;
  if (std::equal(a.begin(), a.end() - 1, b.begin(), b.end() - 1)) return x;
  const Expr one = Cast(Slice(other, -1, 0, 1), DType::kFloat64);
  return BroadcastLike(x, Cast(x, DType::kFloat64) + one);
}

// ------------------------------------------------------------------ order

// The places that sort an axis, at the end, and x in the same layout.
struct Sorted {
  Expr x, places;
};

absl::StatusOr<Sorted> SortLast(Expr x, int64_t axis, bool descending) {
  COHORT_ASSIGN_OR_RETURN(const Expr last, WithLast(x, axis));
  if (!last.valid()) return Sorted{};
  const Expr keys = last.dtype() == DType::kBool ? Cast(last, DType::kInt64) : last;
  return Sorted{last, Argsort(keys, descending)};
}

// The elements of an axis in their order, or their places.
MadeOutput SortAxis(const LayerContext& context, bool places) {
  const Expr x = context.inputs[0].value;
  if (context.config.IsNone("axis")) {
    return InvalidArgument("it needs an axis: without one, it sorts the elements of all records");
  }
  COHORT_ASSIGN_OR_RETURN(const int64_t axis, AxisOf(context.config.Int("axis"), x.rank()));
  COHORT_ASSIGN_OR_RETURN(const Sorted sorted, SortLast(x, axis, false));
  return BackFromLast(places ? sorted.places : GatherAlong(sorted.x, sorted.places), axis);
}

MadeOutput TopK(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  const int64_t k = context->config.Int("k");
  if (x.rank() == 0 || k > LastSize(x)) {
    return InvalidArgument("k is {}, and its input {} has fewer elements in its last axis", k,
                           TypeToString(x.type()));
  }
  COHORT_ASSIGN_OR_RETURN(const Sorted sorted,
                          SortLast(x, static_cast<int64_t>(x.rank()) - 1, true));
  const Expr places = Slice(sorted.places, -1, 0, k);
  return LayerOutput(std::vector<LayerOutput>{GatherAlong(sorted.x, places), places});
}

// ------------------------------------------------------------------ by places of one axis

// x and the places of an axis, both with it at the end and with the same other axes.
struct Along {
  Expr x, places;
  int64_t axis = 0;
};

absl::StatusOr<Along> AlongAxis(const LayerContext& context, Expr x) {
  const LayerOutput* const indices = context.Named("indices");
  if (indices == nullptr || context.config.IsNone("axis")) {
    return InvalidArgument("it needs indices, which are an input, and an axis");
  }
  const Expr index = Cast(indices->value, DType::kInt64);
  if (!x.valid() || !index.valid()) return Along{};
  if (index.rank() != x.rank()) {
    return InvalidArgument("indices {} must have as many axes as {}", TypeToString(index.type()),
                           TypeToString(x.type()));
  }
  Along along;
  COHORT_ASSIGN_OR_RETURN(along.axis, AxisOf(context.config.Int("axis"), x.rank()));
  COHORT_ASSIGN_OR_RETURN(x, WithLast(x, along.axis));
  COHORT_ASSIGN_OR_RETURN(Expr places, WithLast(index, along.axis));
  if (!x.valid() || !places.valid()) return Along{};
  const Expr number = Cast(places, DType::kFloat64);
  const Expr from_end = number + static_cast<double>(LastSize(x));
  places = Cast(Select(Less(number, NumberLike(number, 0)), from_end, number), DType::kInt64);
  along.places = WithRowsOf(places, x);
  along.x = WithRowsOf(x, places);
  return along;
}

MadeOutput TakeAlongAxis(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const Along along, AlongAxis(*context, context->inputs[0].value));
  return BackFromLast(GatherAlong(along.x, along.places), along.axis);
}

MadeOutput AddAlongAxis(LayerContext* context) {
  const LayerOutput* const values = context->Named("values");
  if (values == nullptr) return InvalidArgument("it needs values, which are an input");
  const Expr given[] = {context->inputs[0].value, values->value};
  if (!given[0].valid() || !given[1].valid()) return LayerOutput{};
  const bool floats = IsFloating(given[0].dtype()) || IsFloating(given[1].dtype());
  const DType dtype = floats ? context->floatx : DType::kFloat64;
  COHORT_ASSIGN_OR_RETURN(const Along along, AlongAxis(*context, Cast(given[0], dtype)));
  COHORT_ASSIGN_OR_RETURN(Expr added, WithLast(Cast(given[1], dtype), along.axis));
  if (!along.x.valid() || !added.valid()) return LayerOutput{};
  added = WithRowsOf(added, along.places);
  const Expr sums = along.x + GatherAlongGrad(added, along.places, along.x);
  return BackFromLast(floats ? sums : Cast(sums, DType::kInt64), along.axis);
}

// ------------------------------------------------------------------ sums by rows

// The sums of the values by the row that each of them names.
Expr SumByRow(Expr values, Expr rows, Dims shape) {
  if (!values.valid() || !rows.valid()) return {};
  const DType dtype = values.dtype();
  const Expr given = IsFloating(dtype) ? values : Cast(values, DType::kFloat64);
  const Expr like = values.builder()->Constant(Tensor::Zeros(given.dtype(), std::move(shape)));
  return Cast(GatherGrad(given, rows, like), dtype);
}

absl::Status CheckNoBatch(Expr x) {
  if (x.valid() && x.rank() > 0 && x.type().dims[0].bounded()) {
    return InvalidArgument(
        "it would add up the records of a batch, which do not depend on each other; use "
        "ops.add_along_axis");
  }
  return absl::OkStatus();
}

// Each of `indices` [..., depth] names a place in the first axes of the result.
MadeOutput Scatter(LayerContext* context) {
  const LayerOutput *indices = context->Named("indices"), *values = context->Named("values");
  if (indices == nullptr || values == nullptr) {
    return InvalidArgument("it needs indices and values, which are inputs");
  }
  const Expr index = Cast(indices->value, DType::kFloat64), value = values->value;
  COHORT_RETURN_IF_ERROR(CheckNoBatch(index));
  COHORT_RETURN_IF_ERROR(CheckNoBatch(value));
  const std::vector<int64_t> shape = context->config.Ints("shape");
  if (!index.valid() || !value.valid()) return LayerOutput{};
  const int64_t depth = index.rank() == 0 ? 0 : LastSize(index);
  if (depth < 1 || depth > static_cast<int64_t>(shape.size()) || index.rank() < 1) {
    return InvalidArgument("indices {} name no place of the shape {}", TypeToString(index.type()),
                           DimsToString(shape));
  }
  std::vector<double> strides(static_cast<size_t>(depth), 1);
  for (auto i = static_cast<size_t>(depth) - 1; i > 0; --i) {
    strides[i - 1] = strides[i] * static_cast<double>(shape[i]);
  }
  const Expr steps = ConstantVector(context->builder, strides, DType::kFloat64);
  const Expr rows =
      Cast(ReduceSum(index * steps, {static_cast<int64_t>(index.rank()) - 1}), DType::kInt64);
  Dims sums = {1};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (static_cast<int64_t>(i) < depth) {
      sums[0] *= shape[i];
    } else {
      sums.push_back(shape[i]);
    }
  }
  const Expr sum = SumByRow(value, rows, std::move(sums));
  return sum.valid() ? Reshape(sum, shape) : Expr();
}

MadeOutput SegmentSum(LayerContext* context) {
  const LayerOutput* const ids = context->Named("segment_ids");
  const Expr data = context->inputs[0].value;
  if (ids == nullptr || context->config.IsNone("num_segments")) {
    return InvalidArgument("it needs segment_ids, which are an input, and num_segments");
  }
  COHORT_RETURN_IF_ERROR(CheckNoBatch(data));
  if (!data.valid()) return LayerOutput{};
  if (data.rank() == 0) return InvalidArgument("its input is a number, and has no rows");
  Dims shape = {context->config.Int("num_segments")};
  for (size_t i = 1; i < data.rank(); ++i) shape.push_back(data.type().dims[i].size);
  return SumByRow(data, Cast(ids->value, DType::kInt64), std::move(shape));
}

Argument OptionalAxis() { return Int("axis", "The axis.").Optional(); }

}  // namespace

std::vector<LayerClass> PlaceOperations() {
  std::vector<LayerClass> all = {
      Operation("sort", "The elements of an axis in ascending order.", {"x"}, {OptionalAxis()},
                [](LayerContext* context) { return SortAxis(*context, false); }),
      Operation("argsort",
                "The places of the elements of an axis in ascending order; of equal ones the "
                "first comes first.",
                {"x"}, {OptionalAxis()},
                [](LayerContext* context) { return SortAxis(*context, true); }),
      Operation("take_along_axis",
                "One element of an axis for each index; 0 for an index outside of it.",
                {"x", "indices"}, {OptionalAxis()}, TakeAlongAxis),
      Operation("add_along_axis",
                "x with values added at places of an axis, the opposite of take_along_axis. No "
                "function of Keras.",
                {"x", "indices", "values"}, {Int("axis", "The axis.")}, AddAlongAxis),
      Operation("scatter", "Zeros with values added at places. Neither depends on the batch.",
                {"indices", "values"}, {Ints("shape", "The shape of the result.").AtLeast(1)},
                Scatter),
      Operation("segment_sum", "The sums of the rows that have an id. There is no batch.",
                {"data", "segment_ids"},
                {Int("num_segments", "How many ids there are.").Optional().AtLeast(1),
                 Bool("sorted", "Has no effect.").Default(false)},
                SegmentSum),
      Operation("top_k", "The largest elements of the last axis and, as its part 1, their places.",
                {"x"},
                {Int("k", "How many.").AtLeast(1),
                 Bool("sorted", "Has no effect: the largest one comes first.").Default(true)},
                TopK)};
  all.back().several_outputs = true;
  return all;
}

}  // namespace cohort
