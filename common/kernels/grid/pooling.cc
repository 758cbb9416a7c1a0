// Pooling of x[batch, rows..., channels] over windows of one or two axes.
// max_pool: the maximum of each window.
// max_pool: (x, values) -> the element of `values` at the place of the first maximum of each window
// of x. Its place is that of the gradient, as in TensorFlow on a CPU.
// max_pool_grad: (grad, x) -> like x: the sums of `grad` at these places, in order of the windows.
// avg_pool: the mean of the elements of each window; padding does not count.
// avg_pool_grad: (grad, x for its dims) -> like x.
//
// Padding is never a maximum, because every window covers an element. A NaN is a maximum. One
// thread per element of the result, channels fastest. Gradients are gathered: an element of x adds
// what the windows that contain it give it, in order of the windows.
#include "common/graph/ops/pooling.h"

#include "common/kernels/grid/grid.h"

namespace cohort::COHORT_GRID {
namespace {

// ops::PoolAxis for code of devices.
struct WindowAxis {
  int64_t in = 1, out = 1, window = 1, stride = 1, before = 0;

  // Window `o` covers [begin(o), end(o)) of the input.
  COHORT_HD int64_t begin(int64_t o) const {
    const int64_t place = o * stride - before;
    return place > 0 ? place : 0;
  }
  COHORT_HD int64_t end(int64_t o) const {
    const int64_t place = o * stride - before + window;
    return place < in ? place : in;
  }
  // The windows [first(place), last(place)) contain this place of the input.
  COHORT_HD int64_t first(int64_t place) const {
    const int64_t behind = place + before - window;
    return behind < 0 ? 0 : behind / stride + 1;
  }
  COHORT_HD int64_t last(int64_t place) const {
    const int64_t windows = (place + before) / stride + 1;
    return windows < out ? windows : out;
  }
};

// The windows of one example. With one pooled axis there is one row.
struct Windows {
  WindowAxis rows, columns;
  int64_t channels = 0;

  // An element of x or of y: its example and channel, and its place along the pooled axes.
  struct Place {
    int64_t example, row, column, channel;
  };
  COHORT_HD static Place Of(int64_t item, int64_t rows, int64_t columns, int64_t channels) {
    Place p;
    p.channel = item % channels;
    item /= channels;
    p.column = item % columns;
    item /= columns;
    p.row = item % rows;
    p.example = item / rows;
    return p;
  }
  COHORT_HD Place Input(int64_t item) const { return Of(item, rows.in, columns.in, channels); }
  COHORT_HD Place Output(int64_t item) const { return Of(item, rows.out, columns.out, channels); }

  // Calls fn(element of x) for the pixels of the window, in order.
  template <typename Fn>
  COHORT_HD void ForEachPixel(const Place& window, const Fn& fn) const {
    const int64_t begin = columns.begin(window.column), end = columns.end(window.column);
    for (int64_t y = rows.begin(window.row); y < rows.end(window.row); ++y) {
      const int64_t row = (window.example * rows.in + y) * columns.in;
      for (int64_t x = begin; x < end; ++x) fn((row + x) * channels + window.channel);
    }
  }
  // Calls fn(row, column, element of y) for the windows that contain the pixel, in order.
  template <typename Fn>
  COHORT_HD void ForEachWindow(const Place& pixel, const Fn& fn) const {
    const int64_t first = columns.first(pixel.column), last = columns.last(pixel.column);
    for (int64_t y = rows.first(pixel.row); y < rows.last(pixel.row); ++y) {
      const int64_t row = (pixel.example * rows.out + y) * columns.out;
      for (int64_t x = first; x < last; ++x) fn(y, x, (row + x) * channels + pixel.channel);
    }
  }
  COHORT_HD int64_t pixels(int64_t row, int64_t column) const {
    return (rows.end(row) - rows.begin(row)) * (columns.end(column) - columns.begin(column));
  }
};

// The element of x that is the first maximum of a window. A NaN is a maximum.
template <typename T>
COHORT_HD int64_t FirstMaximum(const Windows& s, const T* x, const Windows::Place& window) {
  int64_t place = -1;
  T best = T{0};
  s.ForEachPixel(window, [&](int64_t at) {
    const T here = x[at];
    if (place >= 0 && (here <= best || best != best)) return;
    best = here;
    place = at;
  });
  return place;
}

struct MaxOfWindow {
  template <typename T>
  static COHORT_HD T Join(bool first, T a, T b) {
    return !first && (a > b || a != a) ? a : b;
  }
  template <typename T>
  static COHORT_HD T End(T all, int64_t) {
    return all;
  }
};
struct MeanOfWindow {
  template <typename T>
  static COHORT_HD T Join(bool, T a, T b) {
    return a + b;
  }
  template <typename T>
  static COHORT_HD T End(T all, int64_t count) {
    return all / static_cast<T>(count);
  }
};

// A result folds the elements that its window covers.
template <typename Op, typename T>
struct FoldBody {
  const T* x;
  T* y;
  Windows s;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD int64_t work() const { return s.rows.window * s.columns.window; }
  COHORT_HD void operator()(int64_t item) const {
    T all = T{0};
    int64_t count = 0;
    s.ForEachPixel(s.Output(item), [&](int64_t at) { all = Op::Join(count++ == 0, all, x[at]); });
    y[item] = Op::End(all, count);
  }
  // Blocks of channels, which become vector code.
  void RunAll(int64_t begin, int64_t end) const {
    constexpr int64_t kLanes = 64;
    T all[kLanes];
    for (int64_t item = begin, lanes; item < end; item += lanes) {
      const Windows::Place place = s.Output(item);
      lanes = std::min({end - item, s.channels - place.channel, kLanes});
      std::fill_n(all, lanes, T{0});
      int64_t count = 0;
      s.ForEachPixel(place, [&](int64_t at) {
        if (count++ == 0) {
          for (int64_t i = 0; i < lanes; ++i) all[i] = Op::Join(true, all[i], x[at + i]);
        } else {
          for (int64_t i = 0; i < lanes; ++i) all[i] = Op::Join(false, all[i], x[at + i]);
        }
      });
      for (int64_t i = 0; i < lanes; ++i) y[item + i] = Op::End(all[i], count);
    }
  }
};

// An element of x adds the gradients of the windows that contain it.
template <typename T>
struct MeanGradBody {
  const T* grad;
  T* dx;
  Windows s;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD int64_t work() const { return s.rows.window * s.columns.window; }
  COHORT_HD void operator()(int64_t item) const {
    T sum = T{0};
    s.ForEachWindow(s.Input(item), [&](int64_t y, int64_t x, int64_t at) {
      sum += grad[at] / static_cast<T>(s.pixels(y, x));
    });
    dx[item] = sum;
  }
  // Window by window, in the same order: an element is not looked for in any window.
  void RunAll(int64_t begin, int64_t end) const {
    if (begin == end) return;
    std::fill_n(dx + begin, end - begin, T{0});
    const int64_t elements = s.rows.in * s.columns.in * s.channels;
    for (int64_t example = begin / elements; example * elements < end; ++example) {
      const T* g = grad + example * s.rows.out * s.columns.out * s.channels;
      for (int64_t row = 0; row < s.rows.out; ++row) {
        for (int64_t column = 0; column < s.columns.out; ++column, g += s.channels) {
          AddWindow({example, row, column, 0}, g, begin, end);
        }
      }
    }
  }

 private:
  void AddWindow(const Windows::Place& window, const T* g, int64_t begin, int64_t end) const {
    const T pixels = static_cast<T>(s.pixels(window.row, window.column));
    s.ForEachPixel(window, [&](int64_t at) {
      const int64_t first = std::max(begin - at, int64_t{0});
      const int64_t channels = std::min(end - at, s.channels) - first;
      const T* __restrict from = g + first;
      T* __restrict to = dx + at + first;
      for (int64_t i = 0; i < channels; ++i) to[i] += from[i] / pixels;
    });
  }
};

template <typename T>
struct PickAtMaximumBody {
  const T* x;
  const T* values;
  T* y;
  Windows s;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t item) const {
    y[item] = values[FirstMaximum(s, x, s.Output(item))];
  }
};

template <typename T>
struct FindMaximumBody {
  const T* x;
  int64_t* places;  // by window
  Windows s;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t item) const {
    places[item] = FirstMaximum(s, x, s.Output(item));
  }
};

template <typename T>
struct MaxPoolGradBody {
  const T* grad;
  const int64_t* places;
  T* dx;
  Windows s;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t item) const {
    T sum = T{0};
    s.ForEachWindow(s.Input(item), [&](int64_t, int64_t, int64_t window) {
      if (places[window] == item) sum += grad[window];
    });
    dx[item] = sum;
  }
};

WindowAxis AxisOf(const ops::PoolAxis& a) { return {a.in, a.out, a.window, a.stride, a.before}; }

// The maxima are found once per window, not once per element that it covers.
template <typename T>
DeviceKernelOr MaxPoolGrad(const Windows& s, int64_t most_windows, int64_t most) {
  return MakeSequence({.scratch_bytes = static_cast<size_t>(most_windows) * sizeof(int64_t)},
                      MakeGridKernel(most_windows,
                                     [s](const KernelContext& c) {
                                       return FindMaximumBody<T>{
                                           c.in(1).as<T>(), reinterpret_cast<int64_t*>(c.scratch),
                                           s, c.in(0).elements};
                                     }),
                      MakeGridKernel(most, [s](const KernelContext& c) {
                        return MaxPoolGradBody<T>{c.in(0).as<T>(),
                                                  reinterpret_cast<const int64_t*>(c.scratch),
                                                  c.out().as<T>(), s, c.out().elements};
                      }));
}

}  // namespace

DeviceKernelOr CreatePooling(const Node& node, const Program& program) {
  const bool is_grad = node.op == "max_pool_grad" || node.op == "avg_pool_grad";
  const ValueType& x = program.type(node.inputs[is_grad ? 1 : 0]);
  const size_t axes = x.dims.size() - 2;
  Windows s;
  s.channels = x.dims.back().size;
  if (axes == 2) {
    COHORT_ASSIGN_OR_RETURN(const ops::PoolAxis rows, ops::MakePoolAxis(node, 0, x.dims[1].size));
    s.rows = AxisOf(rows);
  }
  COHORT_ASSIGN_OR_RETURN(const ops::PoolAxis columns,
                          ops::MakePoolAxis(node, axes - 1, x.dims[axes].size));
  s.columns = AxisOf(columns);
  const int64_t most = MostElements(node, program);
  return GridForFloating(node, x.dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    if (node.op == "max_pool_grad") {
      return MaxPoolGrad<T>(s, CapacityElements(program.type(node.inputs[0])), most);
    }
    if (node.op == "avg_pool_grad") {
      return MakeGridKernel(
          most,
          [s](const KernelContext& c) {
            return MeanGradBody<T>{c.in(0).as<T>(), c.out().as<T>(), s, c.out().elements};
          },
          {.dims_only = 2});
    }
    if (node.op == "avg_pool") {
      return MakeGridKernel(most, [s](const KernelContext& c) {
        return FoldBody<MeanOfWindow, T>{c.in(0).as<T>(), c.out().as<T>(), s, c.out().elements};
      });
    }
    if (node.inputs.size() == 2) {
      return MakeGridKernel(most, [s](const KernelContext& c) {
        return PickAtMaximumBody<T>{c.in(0).as<T>(), c.in(1).as<T>(), c.out().as<T>(), s,
                                    c.out().elements};
      });
    }
    return MakeGridKernel(most, [s](const KernelContext& c) {
      return FoldBody<MaxOfWindow, T>{c.in(0).as<T>(), c.out().as<T>(), s, c.out().elements};
    });
  });
}

}  // namespace cohort::COHORT_GRID
