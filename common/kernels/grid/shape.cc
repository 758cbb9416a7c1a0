// concat slice transpose broadcast_like dim_size: they move elements.
#include "common/kernels/grid/grid.h"

namespace cohort::COHORT_GRID {
namespace {

// Copies [rows, from_columns] into the columns from `to_first` of [rows, to_columns], or the columns
// from `from_first` of the one into the other: `columns` of each row. T only has the size of the
// elements.
template <typename T>
struct CopyColumnsBody {
  const T* from;
  T* to;
  int64_t rows, columns;
  int64_t from_columns, from_first;
  int64_t to_columns, to_first;

  COHORT_HD int64_t items() const { return rows * columns; }
  COHORT_HD void operator()(int64_t i) const {
    const int64_t row = i / columns, column = i % columns;
    to[row * to_columns + to_first + column] = from[row * from_columns + from_first + column];
  }
};

int64_t Product(const ValueView& v, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= v.dims[i];
  return product;
}

DeviceKernelOr Concat(const Node& node, const Program& program) {
  const int axis = static_cast<int>(IntAttr(node, "axis"));
  return GridForSize(node, program.type(node.outputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    std::vector<std::unique_ptr<DeviceKernel>> parts;
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      parts.push_back(MakeGridKernel(
          CapacityElements(program.type(node.inputs[input])),
          [input, axis](const KernelContext& c) {
            CopyColumnsBody<T> body{c.in(input).as<T>(), c.out().as<T>()};
            body.rows = Product(c.out(), 0, axis);
            body.to_columns = Product(c.out(), axis, c.out().rank);
            for (size_t i = 0; i <= input; ++i) {
              body.columns = body.from_columns = Product(c.in(i), axis, c.in(i).rank);
              if (i < input) body.to_first += body.columns;
            }
            return body;
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
      CopyColumnsBody<T> body{c.in(0).as<T>(), c.out().as<T>()};
      const int64_t inner = Product(c.in(0), axis + 1, c.in(0).rank);
      body.rows = Product(c.in(0), 0, axis);
      body.columns = body.to_columns = c.out().dims[axis] * inner;
      body.from_columns = c.in(0).dims[axis] * inner;
      body.from_first = begin * inner;
      return body;
    });
  });
}

// y[i] = x[the place to which the walk leads].
template <typename T>
struct WalkBody {
  const T* x;
  T* y;
  Walk<1> walk;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t i) const {
    int64_t at[1];
    walk.Find(i, at);
    y[i] = x[at[0]];
  }
};

DeviceKernelOr Transpose(const Node& node, const Program& program) {
  const auto perm = IntsAttr(node, "perm");
  std::array<size_t, kMaxRank> axes{};
  std::ranges::copy(perm, axes.begin());
  return GridForSize(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(MostElements(node, program), [axes](const KernelContext& c) {
      const ValueView &in = c.in(0), &out = c.out();
      WalkBody<T> body{in.as<T>(), out.as<T>(), {}, out.elements};
      std::array<int64_t, kMaxRank> strides{};
      int64_t stride = 1;
      for (int d = in.rank; d-- > 0; stride *= in.dims[d]) strides[static_cast<size_t>(d)] = stride;
      body.walk.rank = std::max(in.rank, 1);
      body.walk.dims[0] = 1;
      for (int d = 0; d < in.rank; ++d) {
        body.walk.dims[d] = out.dims[d];
        body.walk.strides[d][0] = strides[axes[static_cast<size_t>(d)]];
      }
      return body;
    });
  });
}

DeviceKernelOr BroadcastLike(const Node& node, const Program& program) {
  return GridForSize(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(MostElements(node, program),
                          [](const KernelContext& c) {
                            return WalkBody<T>{c.in(0).as<T>(), c.out().as<T>(),
                                               Walk<1>::Of({c.out(), {&c.in(0)}}),
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
