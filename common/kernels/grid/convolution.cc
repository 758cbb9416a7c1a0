// conv2d: x[n, rows, columns, c], kernel[taps, taps, c / groups, o] -> y[n, rows, columns, o].
// conv2d_input_grad: (grad like y, kernel) -> like x. conv2d_kernel_grad: (x, grad) -> like kernel.
//
// With one group they are products of matrices, which the device's library computes. With
// cols[pixel of y, tap and c], the elements of x that a pixel of y is made of:
//
//   y = cols kernel         cols' gradient = grad kernel^T         kernel's gradient = cols^T grad
//
// cols lies in scratch memory; if it is x itself (taps of 1 by 1), it needs none. With groups, or
// if cols were larger than kMostColumnsBytes, loops compute the same, one thread per sum.
#include "common/kernels/convolution.h"

#include "common/kernels/grid/grid.h"
#include "common/kernels/grid/rounded_product.h"
#include "common/kernels/grid/zero_tail.h"

namespace cohort::COHORT_GRID {
namespace {

constexpr int64_t kMostColumnsBytes = int64_t{1} << 30;

// ops::ConvAxis for code of devices. The schema bounds all sizes, so that places are below 2^31.
struct Axis {
  int32_t in, out, taps, stride, dilation, before;

  // The place in the input that a tap of output `o` covers; -1 if it is padding.
  COHORT_HD int32_t Input(int32_t o, int32_t tap) const {
    const int32_t place = o * stride - before + tap * dilation;
    return place >= 0 && place < in ? place : -1;
  }
  // The output whose `tap` covers a place of the input; -1 if there is none.
  COHORT_HD int32_t Output(int32_t place, int32_t tap) const {
    const int32_t start = place + before - tap * dilation;
    if (start < 0 || start % stride != 0) return -1;
    const int32_t o = start / stride;
    return o < out ? o : -1;
  }
};

struct Shape {
  Axis rows, columns;
  int64_t channels;  // as x has
  int64_t outputs;   // channels of y
  int64_t group_in, group_out;

  static Shape Of(const ops::ConvShape& s) {
    const auto axis = [](const ops::ConvAxis& a) {
      const auto to = [](int64_t n) { return static_cast<int32_t>(n); };
      return Axis{to(a.in), to(a.out), to(a.taps), to(a.stride), to(a.dilation), to(a.before)};
    };
    return {axis(s.axes[0]), axis(s.axes[1]),          s.in_channels,
            s.out_channels,  s.in_channels / s.groups, s.out_channels / s.groups};
  }

  COHORT_HD int64_t in_pixels() const { return int64_t{rows.in} * columns.in; }
  COHORT_HD int64_t out_pixels() const { return int64_t{rows.out} * columns.out; }
  COHORT_HD int64_t taps() const { return int64_t{rows.taps} * columns.taps; }
  COHORT_HD int64_t kernel_elements() const { return taps() * group_in * outputs; }
  // Elements of cols for one pixel of y, and for `images`; one group.
  COHORT_HD int64_t columns_per_pixel() const { return taps() * channels; }
  int64_t columns_elements(int64_t images) const {
    return images * out_pixels() * columns_per_pixel();
  }
  // cols is x.
  bool is_pointwise() const {
    const auto is = [](const Axis& a) {
      return a.taps == 1 && a.stride == 1 && a.before == 0 && a.in == a.out;
    };
    return channels == group_in && is(rows) && is(columns);
  }
};

// A pixel of x or y, found from its number.
struct Pixel {
  int64_t image;
  int32_t row, column;

  static COHORT_HD Pixel Of(int64_t number, int32_t rows, int32_t columns) {
    Pixel p;
    p.column = static_cast<int32_t>(number % columns);
    number /= columns;
    p.row = static_cast<int32_t>(number % rows);
    p.image = number / rows;
    return p;
  }
};

// Calls fn(tap, pixel of x in the batch) for the taps of a pixel of y that cover x, in order.
template <typename Fn>
COHORT_HD void ForEachInput(const Shape& s, const Pixel& out, const Fn& fn) {
  for (int32_t i = 0; i < s.rows.taps; ++i) {
    const int32_t row = s.rows.Input(out.row, i);
    if (row < 0) continue;
    for (int32_t j = 0; j < s.columns.taps; ++j) {
      const int32_t column = s.columns.Input(out.column, j);
      if (column < 0) continue;
      fn(int64_t{i} * s.columns.taps + j, (out.image * s.rows.in + row) * s.columns.in + column);
    }
  }
}
// Calls fn(tap, pixel of y in the batch) for the taps that cover a pixel of x, in order of y.
template <typename Fn>
COHORT_HD void ForEachOutput(const Shape& s, const Pixel& in, const Fn& fn) {
  for (int32_t i = s.rows.taps; i-- > 0;) {
    const int32_t row = s.rows.Output(in.row, i);
    if (row < 0) continue;
    for (int32_t j = s.columns.taps; j-- > 0;) {
      const int32_t column = s.columns.Output(in.column, j);
      if (column < 0) continue;
      fn(int64_t{i} * s.columns.taps + j, (in.image * s.rows.out + row) * s.columns.out + column);
    }
  }
}

// One thread per element of y.
template <typename T>
struct ForwardBody {
  const T* x;
  const T* kernel;
  T* y;
  Shape s;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t o = item % s.outputs, first = o / s.group_out * s.group_in;
    T sum = T{0};
    ForEachInput(s, Pixel::Of(item / s.outputs, s.rows.out, s.columns.out),
                 [&](int64_t tap, int64_t pixel) {
                   const T* from = x + pixel * s.channels + first;
                   const T* factors = kernel + tap * s.group_in * s.outputs + o;
                   for (int64_t i = 0; i < s.group_in; ++i) sum += from[i] * factors[i * s.outputs];
                 });
    y[item] = sum;
  }
};

// One thread per element of x.
template <typename T>
struct InputGradBody {
  const T* grad;
  const T* kernel;
  T* dx;
  Shape s;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t c = item % s.channels, i = c % s.group_in;
    const int64_t first = c / s.group_in * s.group_out;
    T sum = T{0};
    ForEachOutput(s, Pixel::Of(item / s.channels, s.rows.in, s.columns.in),
                  [&](int64_t tap, int64_t pixel) {
                    const T* from = grad + pixel * s.outputs + first;
                    const T* factors = kernel + (tap * s.group_in + i) * s.outputs + first;
                    for (int64_t o = 0; o < s.group_out; ++o) sum += from[o] * factors[o];
                  });
    dx[item] = sum;
  }
};

// One thread per part of the rows of y and element of the kernel. Part p sums the rows p, p +
// parts, ... of all images.
template <typename T>
struct KernelGradBody {
  const T* x;
  const T* grad;
  T* sums;
  Shape s;
  int64_t parts;
  int64_t images;

  COHORT_HD int64_t items() const { return parts * s.kernel_elements(); }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t element = item % s.kernel_elements(), part = item / s.kernel_elements();
    const int64_t o = element % s.outputs, i = element / s.outputs % s.group_in;
    const int64_t tap = element / s.outputs / s.group_in;
    const auto tap_row = static_cast<int32_t>(tap / s.columns.taps);
    const auto tap_column = static_cast<int32_t>(tap % s.columns.taps);
    const T* from = x + o / s.group_out * s.group_in + i;
    T sum = T{0};
    for (int64_t r = part; r < images * s.rows.out; r += parts) {
      const int32_t row = s.rows.Input(static_cast<int32_t>(r % s.rows.out), tap_row);
      if (row < 0) continue;
      const int64_t first = (r / s.rows.out * s.rows.in + row) * s.columns.in;
      for (int32_t column = 0; column < s.columns.out; ++column) {
        const int32_t place = s.columns.Input(column, tap_column);
        if (place < 0) continue;
        sum +=
            from[(first + place) * s.channels] * grad[(r * s.columns.out + column) * s.outputs + o];
      }
    }
    sums[item] = sum;
  }
};

template <typename T>
struct SumPartsBody {
  const T* sums;
  T* y;
  int64_t elements, parts;

  COHORT_HD int64_t items() const { return elements; }
  COHORT_HD void operator()(int64_t i) const {
    T sum = sums[i];
    for (int64_t p = 1; p < parts; ++p) sum += sums[p * elements + i];
    y[i] = sum;
  }
};

// cols of the pixels [0, count); zeros in [count, most).
template <typename T>
struct ColumnsBody {
  const T* x;
  T* cols;
  Shape s;
  int64_t count, most;

  COHORT_HD int64_t items() const { return most * s.columns_per_pixel(); }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t c = item % s.channels, rest = item / s.channels;
    const int64_t pixel = rest / s.taps(), tap = rest % s.taps();
    const Pixel out = Pixel::Of(pixel, s.rows.out, s.columns.out);
    const int32_t row = s.rows.Input(out.row, static_cast<int32_t>(tap / s.columns.taps));
    const int32_t column = s.columns.Input(out.column, static_cast<int32_t>(tap % s.columns.taps));
    const bool covers = pixel < count && row >= 0 && column >= 0;
    cols[item] =
        covers ? x[((out.image * s.rows.in + row) * s.columns.in + column) * s.channels + c] : T{0};
  }
};

// An element of x sums the elements of cols that are copies of it.
template <typename T>
struct SumColumnsBody {
  const T* cols;
  T* dx;
  Shape s;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t c = item % s.channels;
    T sum = T{0};
    ForEachOutput(s, Pixel::Of(item / s.channels, s.rows.in, s.columns.in),
                  [&](int64_t tap, int64_t pixel) {
                    sum += cols[(pixel * s.taps() + tap) * s.channels + c];
                  });
    dx[item] = sum;
  }
};

// A part of a sequence that is a product. It has no body: it always has full capacity.
class ProductPart : public DeviceKernel {
 public:
  using Make = std::function<MatrixProduct(const KernelContext&)>;

  explicit ProductPart(Make make) : make_(std::move(make)) {}

  size_t body_bytes() const override { return 0; }
  void WriteBodies(const KernelContext&, uint8_t*) const override {}
  void AddTo(GraphPlan* plan, const KernelContext& c, const uint8_t*) const override {
    plan->Add(make_(c));
  }

 private:
  const Make make_;
};

// A sequence that writes zeros after the current elements of the inputs in `tails`, a bit for
// each.
class ConvolutionSequence : public SequenceKernel {
 public:
  ConvolutionSequence(std::vector<std::unique_ptr<DeviceKernel>> parts, size_t scratch_bytes,
                      uint32_t tails = 0)
      : SequenceKernel(std::move(parts), {.scratch_bytes = scratch_bytes}), tails_(tails) {}

  bool writes_tail(size_t i) const override { return (tails_ >> i & 1) != 0; }

 private:
  const uint32_t tails_;
};

// The three ops by products. `Operand`: of the operands' elements in memory.
template <typename T, typename Operand = T>
class ByProducts {
 public:
  // `images` at full capacity, which the batch of a run may not reach if it is `bounded`.
  ByProducts(const Shape& s, const MatrixProduct& base, int64_t images, bool bounded)
      : s_(s), base_(base), images_(images), bounded_(bounded) {}

  std::unique_ptr<DeviceKernel> Make(ConvKind kind) {
    if (kind == ConvKind::kForward) return Forward();
    return kind == ConvKind::kInputGrad ? InputGrad() : KernelGrad();
  }

 private:
  std::unique_ptr<DeviceKernel> Forward() {
    AddColumns(/*whole=*/false);
    AddProduct([s = s_, base = Base()](const KernelContext& c) {
      MatrixProduct p = base;
      p.a = s.is_pointwise() ? c.in(0).data : c.scratch;
      p.b = c.in(1).data;
      p.c = c.out().data;
      p.n = s.outputs;
      p.k = s.columns_per_pixel();
      return p;
    });
    return Finish(sizeof(Operand));
  }

  std::unique_ptr<DeviceKernel> InputGrad() {
    AddProduct([s = s_, base = Base()](const KernelContext& c) {
      MatrixProduct p = base;
      p.a = c.in(0).data;
      p.b = c.in(1).data;
      p.c = s.is_pointwise() ? c.out().data : c.scratch;
      p.n = s.columns_per_pixel();
      p.k = s.outputs;
      p.transpose_b = true;
      return p;
    });
    if (!s_.is_pointwise()) {
      const int64_t most = images_ * s_.in_pixels() * s_.channels;
      parts_.push_back(MakeGridKernel(most, [s = s_](const KernelContext& c) {
        return SumColumnsBody<T>{reinterpret_cast<const T*>(c.scratch), c.out().as<T>(), s,
                                 c.out().elements};
      }));
    }
    return Finish(sizeof(T));
  }

  // The product sums over the pixels at full capacity: those of no image must be zeros.
  std::unique_ptr<DeviceKernel> KernelGrad() {
    AddColumns(/*whole=*/true);
    uint32_t tails = 0;
    if (bounded_) {
      tails = s_.is_pointwise() ? 3 : 2;
      if (s_.is_pointwise()) AddZeroTail(0, images_ * s_.in_pixels() * s_.channels);
      AddZeroTail(1, images_ * s_.out_pixels() * s_.outputs);
    }
    AddProduct([s = s_, base = Base()](const KernelContext& c) {
      MatrixProduct p = base;
      p.a = s.is_pointwise() ? c.in(0).data : c.scratch;
      p.b = c.in(1).data;
      p.c = c.out().data;
      p.m = s.columns_per_pixel();
      p.n = s.outputs;
      p.k = base.m;
      p.transpose_a = true;
      return p;
    });
    return Finish(sizeof(Operand), tails);
  }

  // A product with one row per pixel of y.
  MatrixProduct Base() const {
    MatrixProduct product = base_;
    product.m = images_ * s_.out_pixels();
    return product;
  }

  // Counts all pixels at full capacity if `whole`, else those of the run.
  void AddColumns(bool whole) {
    if (s_.is_pointwise()) return;
    const int64_t most = images_ * s_.out_pixels();
    parts_.push_back(MakeGridKernel(
        most * s_.columns_per_pixel(), [s = s_, most, whole](const KernelContext& c) {
          const int64_t count = c.in(0).dims[0] * s.out_pixels();
          return ColumnsBody<Operand>{c.in(0).as<Operand>(), reinterpret_cast<Operand*>(c.scratch),
                                      s, count, whole ? most : count};
        }));
  }
  void AddZeroTail(size_t input, int64_t most) {
    parts_.push_back(MakeGridKernel(most, [input, most](const KernelContext& c) {
      return ZeroTailBody<Operand>{c.in(input).as<Operand>(), c.in(input).elements, most};
    }));
  }
  void AddProduct(ProductPart::Make make) {
    parts_.push_back(std::make_unique<ProductPart>(std::move(make)));
  }
  // `column_bytes`: of an element of cols.
  std::unique_ptr<DeviceKernel> Finish(size_t column_bytes, uint32_t tails = 0) {
    const int64_t elements = s_.is_pointwise() ? 0 : s_.columns_elements(images_);
    return std::make_unique<ConvolutionSequence>(
        std::move(parts_), static_cast<size_t>(elements) * column_bytes, tails);
  }

  const Shape s_;
  const MatrixProduct base_;
  const int64_t images_;
  const bool bounded_;
  std::vector<std::unique_ptr<DeviceKernel>> parts_;
};

// The three ops by loops.
template <typename T>
std::unique_ptr<DeviceKernel> ForwardByLoops(const Shape& s, int64_t most) {
  return MakeGridKernel(most, [s](const KernelContext& c) {
    return ForwardBody<T>{c.in(0).as<T>(), c.in(1).as<T>(), c.out().as<T>(), s, c.out().elements};
  });
}

template <typename T>
std::unique_ptr<DeviceKernel> InputGradByLoops(const Shape& s, int64_t most) {
  return MakeGridKernel(most, [s](const KernelContext& c) {
    return InputGradBody<T>{c.in(0).as<T>(), c.in(1).as<T>(), c.out().as<T>(), s, c.out().elements};
  });
}

template <typename T>
std::unique_ptr<DeviceKernel> KernelGradByLoops(const Shape& s, int64_t images) {
  const int64_t elements = s.kernel_elements();
  const int64_t parts = std::clamp<int64_t>(kBusyThreads / std::max<int64_t>(elements, 1), 1,
                                            std::max<int64_t>(images * s.rows.out, 1));
  return MakeSequence(
      {.scratch_bytes = static_cast<size_t>(parts * elements) * sizeof(T)},
      MakeGridKernel(parts * elements,
                     [s, parts](const KernelContext& c) {
                       return KernelGradBody<T>{
                           c.in(0).as<T>(), c.in(1).as<T>(), reinterpret_cast<T*>(c.scratch), s,
                           parts,           c.in(0).dims[0]};
                     }),
      MakeGridKernel(elements, [elements, parts](const KernelContext& c) {
        return SumPartsBody<T>{reinterpret_cast<const T*>(c.scratch), c.out().as<T>(), elements,
                               parts};
      }));
}

// Divides, because columns_elements may overflow.
template <typename T>
bool ColumnsFit(const Shape& s, int64_t images) {
  const int64_t most = kMostColumnsBytes / static_cast<int64_t>(sizeof(T));
  const int64_t pixels = images * s.out_pixels();
  return pixels == 0 || s.columns_per_pixel() <= most / pixels;
}

// One of the three ops, from its node.
struct Convolution {
  ConvKind kind = ConvKind::kForward;
  Shape s;
  int64_t groups = 1;
  Dim images;
  int64_t most = 0;  // elements of the output

  static absl::StatusOr<Convolution> Of(const Node& node, const Program& program) {
    const ValueType& first = program.type(node.inputs[0]);
    COHORT_ASSIGN_OR_RETURN(const ops::ConvShape conv,
                            ops::MakeConvShape(node, first, program.type(node.inputs[1])));
    return Convolution{ConvKindOf(node), Shape::Of(conv), conv.groups, first.dims[0],
                       MostElements(node, program)};
  }

  template <typename T>
  bool has_products() const {
    return groups == 1 && (s.is_pointwise() || ColumnsFit<T>(s, images.size));
  }
  template <typename T>
  std::unique_ptr<DeviceKernel> ByLoops() const {
    if (kind == ConvKind::kForward) return ForwardByLoops<T>(s, most);
    if (kind == ConvKind::kInputGrad) return InputGradByLoops<T>(s, most);
    return KernelGradByLoops<T>(s, images.size);
  }
};

}  // namespace

DeviceKernelOr CreateConvolution(const Node& node, const Program& program) {
  COHORT_ASSIGN_OR_RETURN(const Convolution conv, Convolution::Of(node, program));
  const DType dtype = program.type(node.inputs[0]).dtype;
  const MatrixProduct base{.dtype = dtype, .operands = PrecisionOf(node)};
  const int64_t images = conv.images.size;
  if (base.operands != Precision::kFloat32) {
    if (!conv.has_products<float>()) {
      return OnRoundedOperands(node, program, RoundedAs::kFloats, conv.ByLoops<float>());
    }
    ByProducts<float, uint16_t> products(conv.s, base, images, conv.images.bounded());
    return OnRoundedOperands(node, program, RoundedAs::kBits, products.Make(conv.kind));
  }
  return GridForFloating(node, dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    if (!conv.has_products<T>()) return conv.ByLoops<T>();
    return ByProducts<T>(conv.s, base, images, conv.images.bounded()).Make(conv.kind);
  });
}

DeviceKernelOr CreateConvolutionLoops(const Node& node, const Program& program) {
  COHORT_ASSIGN_OR_RETURN(const Convolution conv, Convolution::Of(node, program));
  return GridForFloating(node, program.type(node.inputs[0]).dtype,
                         [&](auto t) -> DeviceKernelOr { return conv.ByLoops<decltype(t)>(); });
}

}  // namespace cohort::COHORT_GRID
