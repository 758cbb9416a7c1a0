// gather: rows[U, ...], index[...] -> [index..., ...].
// gather_grad: (grad, index, rows for its shape) -> [U, ...]: row u is the sum of the rows of grad
// whose index is u, added in order of position.
// bag: rows[U, d], index[n, length], weights[n, length] or none -> [n, d]: the sum of the rows of
// each list, added in order of position. An index of -1 names no row.
// bag_grad: (grad[n, d], index[n, length], rows for its shape, weights or none) -> [U, d].
#include "common/kernels/grid/grid.h"

namespace cohort::COHORT_GRID {
namespace {

int64_t RowElements(const ValueView& rows) {
  int64_t elements = 1;
  for (int i = 1; i < rows.rank; ++i) elements *= rows.dims[i];
  return elements;
}

GridTraits Failing(size_t rows_input) {
  GridTraits traits;
  traits.status_of = [rows_input](const KernelError& e, const KernelContext& c) {
    return InvalidArgument("index {} at position {} does not lie in [0, {})", e.value, e.position,
                           c.in(rows_input).dims[0]);
  };
  return traits;
}

// T only has the size of the elements.
template <typename T>
struct GatherBody {
  const T* rows;
  const int64_t* index;
  T* y;
  int64_t count, row_elements, n;  // rows, elements of one, elements of y
  KernelError* error;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t i) const {
    const int64_t position = i / row_elements;
    const int64_t row = index[position];
    if (row < 0 || row >= count) {
      Report(error, position, row);
      y[i] = T{0};
      return;
    }
    y[i] = rows[row * row_elements + i % row_elements];
  }
};

DeviceKernelOr Gather(const Node& node, const Program& program) {
  return GridForSize(node, program.type(node.outputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(
        MostElements(node, program),
        [](const KernelContext& c) {
          return GatherBody<T>{c.in(0).as<T>(), c.in(1).as<int64_t>(), c.out().as<T>(),
                               c.in(0).dims[0], RowElements(c.in(0)),  c.out().elements,
                               c.error};
        },
        Failing(0));
  });
}

template <typename T>
struct BagBody {
  const T* rows;
  const int64_t* index;
  const T* weights;  // null: none
  T* y;
  int64_t count, width, length, n;  // rows, elements of one, indices of a bag, elements of y
  KernelError* error;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t i) const {
    const int64_t begin = i / width * length;
    T sum = 0;
    for (int64_t at = begin; at < begin + length; ++at) {
      const int64_t row = index[at];
      if (row == -1) continue;
      if (row < 0 || row >= count) {
        Report(error, at, row);
        continue;
      }
      const T weight = weights == nullptr ? T{1} : weights[at];
      sum += weight * rows[row * width + i % width];
    }
    y[i] = sum;
  }
};

DeviceKernelOr Bag(const Node& node, const Program& program) {
  const bool is_weighted = node.inputs.size() > 2;
  return GridForFloating(node, program.type(node.outputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(
        MostElements(node, program),
        [is_weighted](const KernelContext& c) {
          return BagBody<T>{
              c.in(0).as<T>(), c.in(1).as<int64_t>(), is_weighted ? c.in(2).as<T>() : nullptr,
              c.out().as<T>(), c.in(0).dims[0],       c.in(0).dims[1],
              c.in(1).dims[1], c.out().elements,      c.error};
        },
        Failing(0));
  });
}

// The positions of each key, in order, are found first: they are counted, the counts are summed,
// the positions are put one after another in any order, and those of each key are sorted.
struct Positions {
  const int64_t* index;
  int64_t n, keys;
  int32_t* begin;  // keys + 1: where the positions of a key begin
  int32_t* put;    // keys: how many are there
  int32_t* at;     // n positions

  static size_t Bytes(int64_t n, int64_t keys) {
    return static_cast<size_t>(2 * keys + 1 + n) * sizeof(int32_t);
  }
  static Positions Of(const KernelContext& c) {
    Positions p{
        c.in(1).as<int64_t>(), c.in(1).elements, c.out().dims[0], nullptr, nullptr, nullptr};
    p.begin = reinterpret_cast<int32_t*>(c.scratch);
    p.put = p.begin + p.keys + 1;
    p.at = p.put + p.keys;
    return p;
  }
};

struct ClearBody {
  Positions p;

  COHORT_HD int64_t items() const { return 2 * p.keys + 1; }
  COHORT_HD void operator()(int64_t i) const { p.begin[i] = 0; }
};

struct CountBody {
  Positions p;
  bool skips_none;  // -1 is no key
  KernelError* error;

  COHORT_HD int64_t items() const { return p.n; }
  COHORT_HD void operator()(int64_t i) const {
    const int64_t key = p.index[i];
    if (key == -1 && skips_none) return;
    if (key < 0 || key >= p.keys) return Report(error, i, key);
    AtomicAdd(&p.begin[key], 1);
  }
};

struct SumCountsBody {
  Positions p;

  COHORT_HD int64_t items() const { return 1; }
  COHORT_HD void operator()(const Group& g, int64_t) const { g.SumBefore(p.begin, p.keys + 1); }
};

struct PutBody {
  Positions p;

  COHORT_HD int64_t items() const { return p.n; }
  COHORT_HD void operator()(int64_t i) const {
    const int64_t key = p.index[i];
    if (key < 0 || key >= p.keys) return;
    p.at[p.begin[key] + AtomicAdd(&p.put[key], 1)] = static_cast<int32_t>(i);
  }
};

// A heap sort.
struct SortBody {
  Positions p;

  COHORT_HD int64_t items() const { return p.keys; }
  COHORT_HD void operator()(int64_t key) const {
    int32_t* data = p.at + p.begin[key];
    const int32_t n = p.begin[key + 1] - p.begin[key];
    for (int32_t i = n / 2; i-- > 0;) Sink(data, i, n);
    for (int32_t end = n; end-- > 1;) {
      const int32_t largest = data[0];
      data[0] = data[end];
      data[end] = largest;
      Sink(data, 0, end);
    }
  }
  static COHORT_HD void Sink(int32_t* data, int32_t i, int32_t n) {
    const int32_t value = data[i];
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
      if (child + 1 < n && data[child + 1] > data[child]) ++child;
      if (data[child] <= value) break;
      data[i] = data[child];
    }
    data[i] = value;
  }
};

template <typename T>
struct SumRowsBody {
  Positions p;
  const T* grad;
  const T* weights;  // by position; null: none
  T* y;
  int64_t row_elements;
  int64_t length;  // positions of one row of grad

  COHORT_HD int64_t items() const { return p.keys * row_elements; }
  COHORT_HD void operator()(int64_t i) const {
    const int64_t key = i / row_elements, element = i % row_elements;
    T sum = 0;
    for (int32_t at = p.begin[key]; at < p.begin[key + 1]; ++at) {
      const int64_t position = p.at[at];
      const T weight = weights == nullptr ? T{1} : weights[position];
      sum += weight * grad[position / length * row_elements + element];
    }
    y[i] = sum;
  }
};

// gather_grad, and bag_grad, in which the indices of a bag share a row of grad.
DeviceKernelOr GatherGrad(const Node& node, const Program& program, bool of_bags) {
  const ValueType& grad = program.type(node.inputs[0]);
  const int64_t n = CapacityElements(program.type(node.inputs[1]));
  const int64_t keys = program.type(node.outputs[0]).dims[0].size;
  if (n >= int64_t{1} << 31) {
    return Unimplemented("{} of {} positions on a device: 2^31 or more", node.op, n);
  }
  const bool is_weighted = node.inputs.size() > 3;
  GridTraits traits = Failing(2);
  traits.dims_only = 4;
  traits.scratch_bytes = Positions::Bytes(n, keys);
  return GridForFloating(node, grad.dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    using C = KernelContext;
    return MakeSequence(
        std::move(traits),
        MakeGridKernel(2 * keys + 1, [](const C& c) { return ClearBody{Positions::Of(c)}; }),
        MakeGridKernel(n,
                       [of_bags](const C& c) {
                         return CountBody{Positions::Of(c), of_bags, c.error};
                       }),
        MakeGridKernel(1, [](const C& c) { return SumCountsBody{Positions::Of(c)}; }),
        MakeGridKernel(n, [](const C& c) { return PutBody{Positions::Of(c)}; }),
        MakeGridKernel(keys, [](const C& c) { return SortBody{Positions::Of(c)}; }),
        MakeGridKernel(MostElements(node, program), [of_bags, is_weighted](const C& c) {
          return SumRowsBody<T>{
              Positions::Of(c), c.in(0).as<T>(),      is_weighted ? c.in(3).as<T>() : nullptr,
              c.out().as<T>(),  RowElements(c.out()), of_bags ? c.in(1).dims[1] : 1};
        }));
  });
}

}  // namespace

DeviceKernelOr CreateLookup(const Node& node, const Program& program) {
  const DType index = program.type(node.inputs[1]).dtype;
  if (index != DType::kInt64) return NoKernelFor(node, index);
  if (node.op == "gather") return Gather(node, program);
  if (node.op == "bag") return Bag(node, program);
  return GatherGrad(node, program, /*of_bags=*/node.op == "bag_grad");
}

}  // namespace cohort::COHORT_GRID
