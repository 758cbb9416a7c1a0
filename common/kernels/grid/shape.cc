// concat slice transpose broadcast_like dim_size: they move elements.
#include "common/kernels/grid/grid.h"

namespace cohort::COHORT_GRID {
namespace {

// Element i from, or to, the place to which the walk leads. T only has the size of the elements.
// Runs to which elements are put lie dense.
template <typename T>
struct TakeElement {
  const T* x;
  T* y;

  COHORT_HD void operator()(int64_t i, const int64_t (&at)[1]) const { y[i] = x[at[0]]; }
  void Run(int64_t i, int64_t at, int64_t stride, int64_t count) const {
    if (stride == 1) {
      std::copy_n(x + at, count, y + i);
    } else if (stride == 0) {
      std::fill_n(y + i, count, T{x[at]});
    } else {
      for (int64_t j = 0; j < count; ++j) y[i + j] = x[at + j * stride];
    }
  }
};
template <typename T>
struct PutElement {
  const T* x;
  T* y;

  COHORT_HD void operator()(int64_t i, const int64_t (&at)[1]) const { y[at[0]] = x[i]; }
  void Run(int64_t i, int64_t at, int64_t, int64_t count) const {
    std::copy_n(x + i, count, y + at);
  }
};

int64_t Product(const ValueView& v, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= v.dims[i];
  return product;
}

// The axes before `axis`, and as many columns inside them in rows of `stride`.
Walk<1> Columns(const ValueView& v, int axis, int64_t columns, int64_t stride) {
  Walk<1> walk;
  walk.Append(Product(v, 0, axis), {stride});
  walk.Append(columns, {1});
  return walk;
}

DeviceKernelOr Concat(const Node& node, const Program& program) {
  const int axis = static_cast<int>(IntAttr(node, "axis"));
  return GridForSize(node, program.type(node.outputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    std::vector<std::unique_ptr<DeviceKernel>> parts;
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      const int64_t most = CapacityElements(program.type(node.inputs[input]));
      parts.push_back(MakeGridKernel(most, [input, axis](const KernelContext& c) {
        const auto columns = [&](const ValueView& v) { return Product(v, axis, v.rank); };
        int64_t before = 0;
        for (size_t i = 0; i < input; ++i) before += columns(c.in(i));
        const ValueView &in = c.in(input), &out = c.out();
        return WalkBody<PutElement<T>, 1>{{in.as<T>(), out.as<T>() + before},
                                          Columns(in, axis, columns(in), columns(out)),
                                          in.elements};
      }));
    }
    return std::make_unique<SequenceKernel>(std::move(parts), GridTraits{});
  });
}

DeviceKernelOr Slice(const Node& node, const Program& program) {
  const int axis = static_cast<int>(IntAttr(node, "axis"));
  const int64_t begin = IntAttr(node, "begin");
  return GridForSize(node, program.type(node.outputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(MostElements(node, program), [axis, begin](const KernelContext& c) {
      const ValueView &in = c.in(0), &out = c.out();
      const int64_t inner = Product(in, axis + 1, in.rank);
      return WalkBody<TakeElement<T>, 1>{
          {in.as<T>() + begin * inner, out.as<T>()},
          Columns(in, axis, out.dims[axis] * inner, in.dims[axis] * inner),
          out.elements};
    });
  });
}

// Takes each element of the output from its place. On the CPU, tiles keep in the first cache what
// two axes that change places read: a row of the output walks with a stride, and its neighbors
// start side by side.
template <typename T>
struct TransposeBody {
  static constexpr int64_t kTile = 16;  // columns: elements of a cache line of float32

  WalkBody<TakeElement<T>, 1> taken;

  COHORT_HD int64_t items() const { return taken.items(); }
  COHORT_HD void operator()(int64_t item) const { taken(item); }
  void RunAll(int64_t begin, int64_t end) const {
    if (begin >= end) return;
    const Walk<1>& walk = taken.walk;
    const int last = walk.rank - 1;
    if (last == 0 || walk.strides[last - 1][0] != 1) return taken.RunAll(begin, end);
    const int64_t rows = walk.dims[last - 1], columns = walk.dims[last];
    int64_t item = std::min(end, (begin + columns - 1) / columns * columns);
    taken.RunAll(begin, item);
    while (end - item >= columns) {  // rows that start side by side
      const int64_t row = item / columns;
      const int64_t count = std::min(rows - row % rows, (end - item) / columns);
      int64_t at[1];
      walk.Find(item, at);
      for (int64_t column = 0; column < columns; column += kTile) {
        Tile(taken.element.x + at[0] + column * walk.strides[last][0], walk.strides[last][0],
             taken.element.y + item + column, columns, count, std::min(kTile, columns - column));
      }
      item += count * columns;
    }
    taken.RunAll(item, end);
  }

 private:
  static void Tile(const T* x, int64_t stride, T* y, int64_t row_size, int64_t rows,
                   int64_t columns) {
    for (int64_t row = 0; row < rows; ++row) {
      T* const to = y + row * row_size;
      if (columns == kTile) {
        for (int64_t column = 0; column < kTile; ++column) to[column] = x[row + column * stride];
      } else {
        for (int64_t column = 0; column < columns; ++column) to[column] = x[row + column * stride];
      }
    }
  }
};

DeviceKernelOr Transpose(const Node& node, const Program& program) {
  const auto perm = IntsAttr(node, "perm");
  std::array<int, kMaxRank> axes{};
  std::ranges::copy(perm, axes.begin());
  return GridForSize(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(MostElements(node, program), [axes](const KernelContext& c) {
      const ValueView &in = c.in(0), &out = c.out();
      Walk<1> walk;
      for (int d = 0; d < in.rank; ++d) {
        walk.Append(out.dims[d], {Product(in, axes[static_cast<size_t>(d)] + 1, in.rank)});
      }
      walk.Finish();
      return TransposeBody<T>{{{in.as<T>(), out.as<T>()}, walk, out.elements}};
    });
  });
}

DeviceKernelOr BroadcastLike(const Node& node, const Program& program) {
  return GridForSize(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(MostElements(node, program),
                          [](const KernelContext& c) {
                            return WalkBody<TakeElement<T>, 1>{
                                {c.in(0).as<T>(), c.out().as<T>()},
                                Walk<1>::Broadcast(c.out(), {&c.in(0)}),
                                c.out().elements};
                          },
                          {.dims_only = 2});
  });
}

template <typename T>
struct SetBody {
  T* y;
  T value;

  COHORT_HD int64_t items() const { return 1; }
  COHORT_HD void operator()(int64_t) const { *y = value; }
};

DeviceKernelOr DimSize(const Node& node, const Program& program) {
  const int64_t axis = IntAttr(node, "axis");
  return GridForFloating(node, program.type(node.outputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(1,
                          [axis](const KernelContext& c) {
                            return SetBody<T>{c.out().as<T>(), static_cast<T>(c.in(0).dims[axis])};
                          },
                          {.dims_only = 1});
  });
}

}  // namespace

DeviceKernelOr CreateShape(const Node& node, const Program& program) {
  if (node.op == "concat") return Concat(node, program);
  if (node.op == "slice") return Slice(node, program);
  if (node.op == "transpose") return Transpose(node, program);
  if (node.op == "broadcast_like") return BroadcastLike(node, program);
  return DimSize(node, program);
}

}  // namespace cohort::COHORT_GRID
