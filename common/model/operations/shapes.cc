// Functions that move elements (keras/src/ops/numpy.py, core.py, nn.py).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "common/model/operations/operation_list.h"

namespace cohort {
namespace {

std::vector<int64_t> Sequence(int64_t count) {
  std::vector<int64_t> places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

int64_t SizeOf(Expr x, int64_t axis) { return x.type().dims[static_cast<size_t>(axis)].size; }

// All inputs in one dtype.
std::vector<Expr> SameDType(const LayerContext& context) {
  bool floats = false, numbers = false;
  for (const LayerOutput& input : context.inputs) {
    floats = floats || IsFloating(input.value.dtype());
    numbers = numbers || input.value.dtype() != DType::kBool;
  }
  std::vector<Expr> values;
  for (const LayerOutput& input : context.inputs) {
    values.push_back(floats    ? ToFloats(context, input.value)
                     : numbers ? Cast(input.value, DType::kInt64)
                               : input.value);
  }
  return values;
}

// ------------------------------------------------------------------ shapes

MadeOutput ReshapeBy(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  std::vector<int64_t> dims = context->config.Ints("newshape");
  int64_t known = 1;
  std::optional<size_t> open;
  for (size_t i = 1; i < dims.size(); ++i) {
    if (dims[i] != -1) {
      known *= dims[i];
    } else if (dims[0] == -1 && !open) {
      open = i;
    } else {
      return InvalidArgument("newshape {} leaves more than one size open", DimsToString(dims));
    }
  }
  const int64_t elements = ElementsPerRecord(x.type());
  if (open && (known < 1 || elements % known != 0)) {
    return InvalidArgument("newshape {} does not suit the {} elements of a record",
                           DimsToString(dims), elements);
  }
  if (open) dims[*open] = elements / known;
  return ReshapeTo(x, std::move(dims));
}

MadeOutput TransposeBy(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  if (context->config.IsNone("axes")) {
    std::vector<int64_t> axes = Sequence(static_cast<int64_t>(x.rank()));
    std::ranges::reverse(axes);
    return Transpose(x, std::move(axes));
  }
  std::vector<int64_t> axes = context->config.Ints("axes");
  for (int64_t& axis : axes) {
    COHORT_ASSIGN_OR_RETURN(axis, AxisOf(axis, x.rank()));
  }
  return Transpose(x, std::move(axes));
}

MadeOutput SwapAxes(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  std::vector<int64_t> axes = Sequence(static_cast<int64_t>(x.rank()));
  COHORT_ASSIGN_OR_RETURN(const int64_t a, AxisOf(context->config.Int("axis1"), x.rank()));
  COHORT_ASSIGN_OR_RETURN(const int64_t b, AxisOf(context->config.Int("axis2"), x.rank()));
  std::swap(axes[static_cast<size_t>(a)], axes[static_cast<size_t>(b)]);
  return Transpose(x, std::move(axes));
}

MadeOutput MoveAxis(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  std::vector<int64_t> from = context->config.Ints("source");
  std::vector<int64_t> to = context->config.Ints("destination");
  if (from.size() != to.size()) return InvalidArgument("source and destination differ in length");
  std::vector<int64_t> order(x.rank(), -1);
  std::vector<bool> moved(x.rank(), false);
  for (size_t i = 0; i < from.size(); ++i) {
    COHORT_ASSIGN_OR_RETURN(const int64_t source, AxisOf(from[i], x.rank()));
    COHORT_ASSIGN_OR_RETURN(const int64_t destination, AxisOf(to[i], x.rank()));
    order[static_cast<size_t>(destination)] = source;
    moved[static_cast<size_t>(source)] = true;
  }
  size_t next = 0;
  for (int64_t& axis : order) {
    if (axis >= 0) continue;
    while (moved[next]) ++next;
    axis = static_cast<int64_t>(next++);
  }
  return Transpose(x, std::move(order));
}

MadeOutput ExpandDims(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  std::vector<int64_t> axes = context->config.Ints("axis");
  const size_t rank = x.rank() + axes.size();
  for (int64_t& axis : axes) {
    COHORT_ASSIGN_OR_RETURN(axis, AxisOf(axis, rank));
  }
  std::ranges::sort(axes);
  std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  for (const int64_t axis : axes) dims.insert(dims.begin() + axis, 1);
  return ReshapeTo(x, std::move(dims));
}

MadeOutput Squeeze(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  COHORT_ASSIGN_OR_RETURN(auto axes, AxesOf(context->config, x));
  const std::vector<Dim> sizes = x.type().dims;
  const bool all = context->config.IsNone("axis");
  std::vector<int64_t> dims = ReshapeDims(sizes);
  for (size_t i = axes.size(); i-- > 0;) {
    const auto at = static_cast<size_t>(axes[i]);
    if (sizes[at] == Dim{1, 0}) {
      dims.erase(dims.begin() + axes[i]);
    } else if (!all) {
      return InvalidArgument("axis {} of {} is not of size 1", axes[i], TypeToString(x.type()));
    }
  }
  return ReshapeTo(x, std::move(dims));
}

// ------------------------------------------------------------------ parts

MadeOutput Concatenate(LayerContext* context) {
  const std::vector<Expr> values = SameDType(*context);
  COHORT_ASSIGN_OR_RETURN(const int64_t axis,
                          AxisOf(context->config.Int("axis"), values[0].rank()));
  return Concat(values, axis);
}

MadeOutput Stack(LayerContext* context) {
  std::vector<Expr> values = SameDType(*context);
  COHORT_ASSIGN_OR_RETURN(const int64_t axis,
                          AxisOf(context->config.Int("axis"), values[0].rank() + 1));
  for (Expr& value : values) {
    std::vector<int64_t> dims = ReshapeDims(value.type().dims);
    dims.insert(dims.begin() + axis, 1);
    COHORT_ASSIGN_OR_RETURN(value, ReshapeTo(value, std::move(dims)));
  }
  return Concat(values, axis);
}

// The parts of an axis between these places.
MadeOutput PartsBetween(Expr x, int64_t axis, const std::vector<int64_t>& ends) {
  std::vector<LayerOutput> parts;
  int64_t begin = 0;
  for (const int64_t end : ends) {
    if (end <= begin) return InvalidArgument("a part of axis {} would be empty", axis);
    if (end > SizeOf(x, axis)) {
      return InvalidArgument("axis {} has {} elements, and no part ends at {}", axis,
                             SizeOf(x, axis), end);
    }
    const std::vector<int64_t> all = Sequence(end);
    COHORT_ASSIGN_OR_RETURN(parts.emplace_back(),
                            TakeAt(x, axis, std::span(all).subspan(static_cast<size_t>(begin))));
    begin = end;
  }
  return LayerOutput(std::move(parts));
}

MadeOutput Split(LayerContext* context) {
  const Config& config = context->config;
  const Expr x = context->inputs[0].value;
  COHORT_ASSIGN_OR_RETURN(const int64_t axis, AxisOf(config.Int("axis"), x.rank()));
  const int64_t size = SizeOf(x, axis);
  if (config.IsNone("indices") == config.IsNone("indices_or_sections")) {
    return InvalidArgument("it needs either indices_or_sections, a number, or indices, a list");
  }
  std::vector<int64_t> ends;
  if (config.IsNone("indices")) {
    const int64_t count = config.Int("indices_or_sections");
    if (size % count != 0) {
      return InvalidArgument("the {} elements of axis {} do not make {} equal parts", size, axis,
                             count);
    }
    for (int64_t i = 1; i <= count; ++i) ends.push_back(size / count * i);
    return PartsBetween(x, axis, ends);
  }
  for (const int64_t end : config.Ints("indices")) ends.push_back(end < 0 ? end + size : end);
  ends.push_back(size);
  return PartsBetween(x, axis, ends);
}

MadeOutput Unstack(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  COHORT_ASSIGN_OR_RETURN(const int64_t axis, AxisOf(context->config.Int("axis"), x.rank()));
  std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  dims.erase(dims.begin() + axis);
  std::vector<LayerOutput> parts;
  for (int64_t i = 0; i < SizeOf(x, axis); ++i) {
    COHORT_ASSIGN_OR_RETURN(const Expr part, TakeAt(x, axis, std::span(&i, 1)));
    COHORT_ASSIGN_OR_RETURN(parts.emplace_back(), ReshapeTo(part, dims));
  }
  return LayerOutput(std::move(parts));
}

MadeOutput Part(LayerContext* context) {
  const std::vector<LayerOutput>& parts = context->inputs[0].parts;
  const auto index = static_cast<size_t>(context->config.Int("index"));
  if (index < parts.size()) return parts[index];
  return InvalidArgument("its input has {} outputs, and none at {}",
                         std::max<size_t>(parts.size(), 1), index);
}

// ------------------------------------------------------------------ places

// One item of x[...], as Python writes it.
struct Item {
  enum class Kind { kPlace, kSlice, kNewAxis, kEllipsis } kind = Kind::kSlice;
  std::optional<int64_t> begin, end, step;  // kPlace has begin alone
};

absl::StatusOr<std::optional<int64_t>> ReadPlace(std::string_view text) {
  if (text.empty()) return std::optional<int64_t>();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return std::optional(value);
  return InvalidArgument(
      "key: \"{}\" is no place; write places as Python does: \"0, 1:3, ..., -1\"",
      text.substr(0, 40));
}

absl::StatusOr<Item> ReadItem(std::string_view text) {
  if (text == "...") return Item{.kind = Item::Kind::kEllipsis};
  if (text == "None") return Item{.kind = Item::Kind::kNewAxis};
  std::optional<int64_t> numbers[3];
  size_t count = 0, begin = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] != ':') continue;
    if (count == 3) return InvalidArgument("key: \"{}\" has too many colons", text.substr(0, 40));
    COHORT_ASSIGN_OR_RETURN(numbers[count++], ReadPlace(text.substr(begin, at - begin)));
    begin = at + 1;
  }
  if (count == 1 && !numbers[0]) return InvalidArgument("key: an item is empty");
  return Item{count == 1 ? Item::Kind::kPlace : Item::Kind::kSlice, numbers[0], numbers[1],
              numbers[2]};
}

absl::StatusOr<std::vector<Item>> ReadKey(std::string_view key) {
  std::string text(key);
  std::erase_if(text, [](char c) { return c == ' ' || c == '[' || c == ']'; });
  std::vector<Item> items;
  size_t begin = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] != ',') continue;
    COHORT_ASSIGN_OR_RETURN(items.emplace_back(),
                            ReadItem(std::string_view(text).substr(begin, at - begin)));
    begin = at + 1;
  }
  return items;
}

// The places of a slice of `size` elements (PySlice_AdjustIndices).
absl::StatusOr<std::vector<int64_t>> PlacesOf(const Item& item, int64_t size) {
  // A longer step leads to no other place.
  const int64_t step = std::clamp(item.step.value_or(1), -size - 1, size + 1);
  if (step == 0) return InvalidArgument("key: the step of a slice is 0");
  const auto within = [&](int64_t place) {
    if (place < 0) place += size;
    return step > 0 ? std::clamp<int64_t>(place, 0, size)
                    : std::clamp<int64_t>(place, -1, size - 1);
  };
  const int64_t begin = item.begin ? within(*item.begin) : step > 0 ? 0 : size - 1;
  const int64_t end = item.end ? within(*item.end) : step > 0 ? size : -1;
  std::vector<int64_t> places;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) places.push_back(i);
  return places;
}

MadeOutput GetItem(LayerContext* context) {
  Expr x = context->inputs[0].value;
  COHORT_ASSIGN_OR_RETURN(std::vector<Item> items, ReadKey(context->config.String("key")));
  size_t named = 0;
  auto ellipsis = items.end();
  for (auto it = items.begin(); it != items.end(); ++it) {
    if (it->kind == Item::Kind::kEllipsis) {
      if (ellipsis != items.end()) {
        return InvalidArgument("key \"{}\" has two ellipses", context->config.String("key"));
      }
      ellipsis = it;
    }
    if (it->kind == Item::Kind::kPlace || it->kind == Item::Kind::kSlice) ++named;
  }
  if (named > x.rank()) {
    return InvalidArgument("key \"{}\" has {} places, and its input {} axes",
                           context->config.String("key"), named, x.rank());
  }
  const std::vector<Item> rest(x.rank() - named);
  if (ellipsis == items.end()) {
    items.insert(items.end(), rest.begin(), rest.end());
  } else {
    items.insert(items.erase(ellipsis), rest.begin(), rest.end());
  }
  std::vector<int64_t> dims;
  int64_t axis = 0;
  for (const Item& item : items) {
    if (item.kind == Item::Kind::kNewAxis) {
      dims.push_back(1);
      continue;
    }
    const Dim dim = x.type().dims[static_cast<size_t>(axis)];
    const bool whole =
        item.kind == Item::Kind::kSlice && !item.begin && !item.end && item.step.value_or(1) == 1;
    if (whole) {
      dims.push_back(dim.bounded() ? -1 : dim.size);
      ++axis;
      continue;
    }
    std::vector<int64_t> places;
    if (item.kind == Item::Kind::kPlace) {
      places = {*item.begin < 0 ? *item.begin + dim.size : *item.begin};
    } else {
      COHORT_ASSIGN_OR_RETURN(places, PlacesOf(item, dim.size));
      dims.push_back(static_cast<int64_t>(places.size()));
    }
    COHORT_ASSIGN_OR_RETURN(x, TakeAt(x, axis, places));
    if (!x.valid()) return LayerOutput{};
    ++axis;
  }
  if (dims == ReshapeDims(x.type().dims)) return x;
  return ReshapeTo(x, std::move(dims));
}

MadeOutput SliceBy(LayerContext* context) {
  Expr x = context->inputs[0].value;
  const std::vector<int64_t> begins = context->config.Ints("start_indices");
  const std::vector<int64_t> sizes = context->config.Ints("shape");
  if (begins.size() != x.rank() || sizes.size() != x.rank()) {
    return InvalidArgument("start_indices and shape need a number for each of {} axes", x.rank());
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Dim dim = x.type().dims[i];
    if (begins[i] == 0 && (dim.bounded() || sizes[i] == dim.size)) continue;
    const bool fits = begins[i] >= 0 && begins[i] <= dim.size && sizes[i] <= dim.size - begins[i];
    if (!dim.bounded() && !fits) {
      return InvalidArgument("axis {} has {} elements, and no {} of them begin at {}", i, dim.size,
                             sizes[i], begins[i]);
    }
    std::vector<int64_t> places = Sequence(fits ? std::max<int64_t>(sizes[i], 0) : 0);
    for (int64_t& place : places) place += begins[i];
    COHORT_ASSIGN_OR_RETURN(x, TakeAt(x, static_cast<int64_t>(i), places));
  }
  return x;
}

// Rows by numbers: of a table that is a constant, or at fixed places of an axis.
MadeOutput Take(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  if (context->config.IsNone("axis")) {
    return InvalidArgument("it needs an axis: without one, it takes from the flat tensor");
  }
  COHORT_ASSIGN_OR_RETURN(const int64_t axis, AxisOf(context->config.Int("axis"), x.rank()));
  const Dim dim = x.type().dims[static_cast<size_t>(axis)];
  if (const LayerOutput* const indices = context->Named("indices")) {
    if (axis != 0 || dim.bounded()) {
      return InvalidArgument(
          "indices that are a tensor take rows of a constant alone; use ops.take_along_axis");
    }
    const Expr rows = IsFloating(x.dtype()) ? x : Cast(x, DType::kFloat64);
    return Cast(Gather(rows, Cast(indices->value, DType::kInt64)), x.dtype());
  }
  if (context->config.IsNone("indices")) return InvalidArgument("it needs indices");
  std::vector<int64_t> places = context->config.Ints("indices");
  for (int64_t& place : places) place = place < 0 ? place + dim.size : place;
  return TakeAt(x, axis, places);
}

MadeOutput Flip(LayerContext* context) {
  Expr x = context->inputs[0].value;
  COHORT_ASSIGN_OR_RETURN(const auto axes, AxesOf(context->config, x));
  for (const int64_t axis : axes) {
    std::vector<int64_t> places = Sequence(SizeOf(x, axis));
    std::ranges::reverse(places);
    COHORT_ASSIGN_OR_RETURN(x, TakeAt(x, axis, places));
    if (!x.valid()) return LayerOutput{};
  }
  return x;
}

MadeOutput Roll(LayerContext* context) {
  Expr x = context->inputs[0].value;
  if (context->config.IsNone("axis")) return InvalidArgument("it needs an axis");
  const std::vector<int64_t> shifts = context->config.Ints("shift");
  const std::vector<int64_t> axes = context->config.Ints("axis");
  if (shifts.size() != axes.size()) return InvalidArgument("shift and axis differ in length");
  for (size_t i = 0; i < axes.size(); ++i) {
    COHORT_ASSIGN_OR_RETURN(const int64_t axis, AxisOf(axes[i], x.rank()));
    std::vector<int64_t> places = Sequence(SizeOf(x, axis));
    const int64_t size = SizeOf(x, axis);
    std::rotate(places.begin(), places.begin() + ((-shifts[i] % size) + size) % size, places.end());
    COHORT_ASSIGN_OR_RETURN(x, TakeAt(x, axis, places));
    if (!x.valid()) return LayerOutput{};
  }
  return x;
}

MadeOutput Repeat(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  if (context->config.IsNone("axis")) return InvalidArgument("it needs an axis");
  COHORT_ASSIGN_OR_RETURN(const int64_t axis, AxisOf(context->config.Int("axis"), x.rank()));
  const std::vector<int64_t> repeats = context->config.Ints("repeats");
  const int64_t size = SizeOf(x, axis);
  if (repeats.size() != 1 && static_cast<int64_t>(repeats.size()) != size) {
    return InvalidArgument("repeats needs one number, or one for each of {} elements", size);
  }
  std::vector<int64_t> places;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t count = repeats[repeats.size() == 1 ? 0 : static_cast<size_t>(i)];
    places.insert(places.end(), static_cast<size_t>(std::max<int64_t>(count, 0)), i);
  }
  return TakeAt(x, axis, places);
}

MadeOutput Tile(LayerContext* context) {
  Expr x = context->inputs[0].value;
  std::vector<int64_t> repeats = context->config.Ints("repeats");
  if (repeats.size() < x.rank()) repeats.insert(repeats.begin(), x.rank() - repeats.size(), 1);
  if (repeats.size() > x.rank()) {
    return InvalidArgument("repeats {} has more numbers than the {} axes of the input",
                           DimsToString(repeats), x.rank());
  }
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] == 1) continue;
    if (repeats[i] < 1 || x.type().dims[i].bounded()) {
      return InvalidArgument("repeats {}: the batch is not repeated, and numbers are at least 1",
                             DimsToString(repeats));
    }
    const std::vector<Expr> copies(static_cast<size_t>(repeats[i]), x);
    x = Concat(copies, static_cast<int64_t>(i));
    if (!x.valid()) return LayerOutput{};
  }
  return x;
}

// `count` times the value along the axis, in the shape of x otherwise.
Expr FilledBeside(Expr x, int64_t axis, int64_t count, double value) {
  std::vector<int64_t> dims(x.rank() - static_cast<size_t>(axis), 1);
  dims[0] = count;
  return BroadcastLike(NumberLike(x, value), Slice(x, axis, 0, 1)) +
         x.builder()->Constant(Tensor::Zeros(x.dtype(), dims));
}

// The places of a mirrored axis: `reflect` does not repeat the border, `symmetric` does.
std::vector<int64_t> Mirrored(int64_t size, int64_t before, int64_t after, bool repeats_border) {
  std::vector<int64_t> places;
  const int64_t period = repeats_border ? 2 * size : std::max<int64_t>(2 * size - 2, 1);
  for (int64_t i = -before; i < size + after; ++i) {
    const int64_t at = ((i % period) + period) % period;
    places.push_back(at < size ? at : period - at - (repeats_border ? 1 : 0));
  }
  return places;
}

MadeOutput Pad(LayerContext* context) {
  const Config& config = context->config;
  Expr x = context->inputs[0].value;
  const std::string& mode = config.String("mode");
  const std::vector<int64_t> given = config.Ints("pad_width");
  if (mode == "constant" && x.valid() && !IsFloating(x.dtype())) x = Cast(x, DType::kFloat64);
  for (size_t i = 0; i < x.rank(); ++i) {
    const bool all = given.size() <= 2;
    if (!all && given.size() != 2 * x.rank()) {
      return InvalidArgument("pad_width needs two numbers for each of {} axes", x.rank());
    }
    const int64_t before = given[all ? 0 : 2 * i],
                  after = given[all ? given.size() - 1 : 2 * i + 1];
    if (before == 0 && after == 0) continue;
    const Dim dim = x.type().dims[i];
    const auto axis = static_cast<int64_t>(i);
    if (dim.bounded() || before < 0 || after < 0) {
      return InvalidArgument("pad_width {}: the batch is not padded, and numbers are at least 0",
                             DimsToString(given));
    }
    if (mode != "constant") {
      const auto places = Mirrored(dim.size, before, after, mode == "symmetric");
      COHORT_ASSIGN_OR_RETURN(x, TakeAt(x, axis, places));
    } else {
      const double value = config.IsNone("constant_values") ? 0 : config.Float("constant_values");
      std::vector<Expr> parts;
      if (before > 0) parts.push_back(FilledBeside(x, axis, before, value));
      parts.push_back(x);
      if (after > 0) parts.push_back(FilledBeside(x, axis, after, value));
      x = Concat(parts, axis);
    }
    if (!x.valid()) return LayerOutput{};
  }
  return Cast(x, context->inputs[0].value.dtype());
}

// ------------------------------------------------------------------ made of numbers

MadeOutput OneHot(LayerContext* context) {
  const Config& config = context->config;
  const Expr x = Cast(context->inputs[0].value, DType::kInt64);
  if (!x.valid()) return LayerOutput{};
  const size_t rank = x.rank() + 1;
  COHORT_ASSIGN_OR_RETURN(const int64_t axis, AxisOf(config.Int("axis"), rank));
  std::vector<double> numbers(static_cast<size_t>(config.Int("num_classes")));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  dims.insert(dims.begin() + axis, 1);
  std::vector<int64_t> classes(rank, 1);
  classes[static_cast<size_t>(axis)] = config.Int("num_classes");
  COHORT_ASSIGN_OR_RETURN(const Expr ids, ReshapeTo(x, std::move(dims)));
  const Expr all = Reshape(ConstantVector(context->builder, numbers, DType::kInt64), classes);
  const std::string& dtype = config.String("dtype");
  const bool integers = dtype.starts_with("int") || dtype.starts_with("uint");
  const Expr hot = Equal(ids, all);
  return dtype == "bool" ? hot : Cast(hot, integers ? DType::kInt64 : context->floatx);
}

// The elements on one side of a diagonal of the last two axes.
LayerClass Triangle(std::string_view name, std::string_view doc, bool lower) {
  return Operation(
      name, doc, {"x"}, {Int("k", "The diagonal; 0 is the main one.").Default(0)},
      [lower](LayerContext* context) -> MadeOutput {
        const Expr x[] = {context->inputs[0].value};
        if (x[0].rank() < 2) return InvalidArgument("its input needs two axes");
        const auto rank = static_cast<int64_t>(x[0].rank());
        const int64_t rows = SizeOf(x[0], rank - 2), columns = SizeOf(x[0], rank - 1);
        if (x[0].type().dims[x[0].rank() - 2].bounded()) {
          return InvalidArgument("its matrices lie in the last two axes, without the batch");
        }
        std::vector<double> kept;
        for (int64_t i = 0; i < rows * columns; ++i) {
          const int64_t diagonal = i % columns - i / columns;
          const int64_t k = context->config.Int("k");
          kept.push_back((lower ? diagonal <= k : diagonal >= k) ? 1 : 0);
        }
        const Expr matrix =
            Reshape(ConstantVector(context->builder, kept, DType::kInt64), {rows, columns});
        return Arithmetic(x, [&](std::span<const Expr> values) {
          return Select(ToBools(matrix), values[0], NumberLike(values[0], 0));
        });
      });
}

MadeOutput Array(LayerContext* context) {
  const Config& config = context->config;
  const std::vector<double> values = config.Floats("value");
  std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
  if (!config.IsNone("shape")) shape = config.Ints("shape");
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  if (elements != static_cast<int64_t>(values.size()) || values.empty()) {
    return InvalidArgument("it has {} numbers, which do not make the shape {}", values.size(),
                           DimsToString(shape));
  }
  const std::string& dtype = config.String("dtype");
  const bool integers = dtype.starts_with("int") || dtype.starts_with("uint") || dtype == "bool";
  const Expr x =
      ConstantVector(context->builder, values, integers ? DType::kInt64 : context->floatx);
  const Expr shaped = Reshape(x, std::move(shape));
  return dtype == "bool" ? ToBools(shaped) : shaped;
}

Argument AnyDType() {
  return String("dtype", "Floats are those of the job, and integers int64.").Optional();
}

std::vector<LayerClass> Shapes() {
  return {
      Operation("reshape", "The same elements in another shape.", {"x"},
                {Ints("newshape", "The shape, first the batch as -1; another -1: what remains.")
                     .NoneItems()},
                ReshapeBy),
      Operation("transpose", "x with its axes in another order.", {"x"},
                {Ints("axes", "The axis of x for each axis; none: the reverse order.").Optional()},
                TransposeBy),
      Operation("swapaxes", "x with two axes swapped.", {"x"},
                {Int("axis1", "One axis."), Int("axis2", "The other one.")}, SwapAxes),
      Operation("moveaxis", "x with axes at other places.", {"x"},
                {Ints("source", "The axes."), Ints("destination", "Their places.")}, MoveAxis),
      Operation("expand_dims", "x with further axes of size 1.", {"x"},
                {Ints("axis", "The places of the axes in the result.")}, ExpandDims),
      Operation("squeeze", "x without axes of size 1.", {"x"}, {AxisOrAll()}, Squeeze),
      OperationOfAll("concatenate", "Joins its inputs along an axis.", {OneAxis(0)}, Concatenate),
      OperationOfAll("stack", "Joins its inputs along an axis of its own.", {OneAxis(0)}, Stack),
      Operation(
          "get_item", "x[key]", {"x", "key"},
          {String("key", "Places and slices as in Python: \"..., 1:3, 0\", \":, None, ::-1\".")},
          GetItem),
      Operation("slice", "A part of x.", {"inputs", "start_indices"},
                {Ints("start_indices", "The first place of each axis."),
                 Ints("shape", "The size of each axis.").NoneItems()},
                SliceBy),
      Operation("take", "The elements of an axis at these places.", {"x", "indices"},
                {Ints("indices", "The places, if they are no input.").Optional(),
                 Int("axis", "The axis.").Optional()},
                Take),
      Operation("flip", "x with the elements of axes in the reverse order.", {"x"}, {AxisOrAll()},
                Flip),
      Operation("roll", "x with the elements of axes moved; what leaves returns at the other end.",
                {"x"},
                {Ints("shift", "How far, for each axis."),
                 Ints("axis", "The axis, or a list of them.").Optional()},
                Roll),
      Operation("repeat", "Each element of an axis several times.", {"x"},
                {Ints("repeats", "How often; one number, or one for each element."),
                 Int("axis", "The axis.").Optional()},
                Repeat),
      Operation("tile", "x several times along each axis.", {"x"},
                {Ints("repeats", "How often, for each axis; the last ones count.")}, Tile),
      Operation(
          "pad", "x with further elements around it.", {"x", "constant_values"},
          {Ints("pad_width", "Elements before and after: one number, or a pair for each axis.")
               .Nested(),
           String("mode", "What they are.")
               .Default("constant")
               .OneOf({"constant", "reflect", "symmetric"}),
           Float("constant_values", "Their value; none: 0.").Optional()},
          Pad),
      Operation("one_hot", "1 at the place that the input names, 0 elsewhere.", {"x"},
                {Int("num_classes", "The size of the new axis.").AtLeast(1), OneAxis(-1),
                 AnyDType(), Planned(Bool("sparse", "").Default(false))},
                OneHot),
      Triangle("tril", "The elements on and below a diagonal of the last two axes.", true),
      Triangle("triu", "The elements on and above a diagonal of the last two axes.", false),
  };
}

}  // namespace

std::vector<LayerClass> ShapeOperations() {
  std::vector<LayerClass> all = Shapes();
  LayerClass split = Operation(
      "split", "Parts of an axis; ops.part gives those after the first.", {"x"},
      {Int("indices_or_sections", "How many equal parts.").Optional().AtLeast(1),
       Ints("indices", "Instead: the places at which a part begins.").Optional(), OneAxis(0)},
      Split);
  split.several_outputs = true;
  all.push_back(std::move(split));
  LayerClass unstack = Operation(
      "unstack", "The elements of an axis; ops.part gives those after the first.", {"x"},
      {Int("num", "Has no effect: the size of the axis is known.").Optional(), OneAxis(0)},
      Unstack);
  unstack.several_outputs = true;
  all.push_back(std::move(unstack));
  LayerClass part = Operation("part", "An output of a layer that has several.", {"x"},
                              {Int("index", "Its number, from 0.").AtLeast(0)}, Part);
  part.mask = MaskRule::kOwn;
  all.push_back(std::move(part));
  LayerClass in_training = Operation(
      kInTraining.substr(kOperationPrefix.size()),
      "x1 in training, and x2 in evaluation and prediction: a program computes one of them alone. "
      "No function of Keras.",
      {"x1", "x2"}, {}, [](LayerContext* context) -> MadeOutput {
        return context->inputs[context->training ? 0 : 1];
      });
  in_training.min_inputs = 2;
  in_training.mask = MaskRule::kOwn;
  all.push_back(std::move(in_training));
  LayerClass array =
      OperationOfAll("array", "A constant.",
                     {Floats("value", "Its numbers.").Nested(),
                      Ints("shape", "Its shape; none: a vector.").Optional(), AnyDType()},
                     Array);
  array.min_inputs = array.max_inputs = 0;
  all.push_back(std::move(array));
  return all;
}

}  // namespace cohort
