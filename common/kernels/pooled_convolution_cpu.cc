// The ops that common/graph/fuse_pooling.h makes, in float32:
// conv_relu_pool: (x, kernel, bias) -> max_pool(relu(conv2d(x, kernel) + bias)), and the places of
// its maxima.
// conv_relu_pool_grad: (its gradient, places, x) -> the gradients of the kernel and of the bias.
//
// The convolution of a row of windows stays in the cache. Results have the bits of the single ops.
#include "common/base/thread_pool.h"
#include "common/graph/fuse_pooling.h"
#include "common/graph/ops/pooling.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/patch_convolution.h"

namespace cohort {
namespace {

using ops::ConvShape;
using ops::PoolAxis;

// The layout of both kernels. Each part of the work has memory for a padded image, and for the
// outputs of the convolution that a row of windows covers.
struct PooledLayout {
  PooledLayout(const ConvShape& shape, const PoolAxis& rows, const PoolAxis& columns)
      : conv(shape),
        grid{.windows = columns.out,
             .rows = rows.window,
             .columns = columns.window,
             .column_step = columns.stride,
             .row_pixels = columns.in,
             .channels = shape.out_channels},
        window_rows(rows.out),
        row_step(rows.stride) {}

  size_t row_bytes() const {
    return static_cast<size_t>(grid.rows * grid.row_pixels * grid.channels) * sizeof(float);
  }
  size_t part_bytes() const {
    return AlignScratch(conv.padded_bytes()) + AlignScratch(row_bytes());
  }
  float* RowOf(uint8_t* part) const {
    return reinterpret_cast<float*>(part + AlignScratch(conv.padded_bytes()));
  }
  // Windows for which PatchForwardPooledFloat is.
  bool has_small_windows() const {
    return grid.rows == 2 && grid.columns == 2 && grid.column_step == 2;
  }
  // The elements in a row of the pooled image.
  int64_t row_elements() const { return grid.windows * grid.channels; }
  int64_t pooled_elements() const { return window_rows * row_elements(); }

  PatchLayout conv;
  PoolGrid grid;
  int64_t window_rows;
  int64_t row_step;  // rows of the convolution between two rows of windows
};

class PooledConvolution : public Kernel {
 public:
  PooledConvolution(PooledLayout layout, int64_t capacity, bool has_places)
      : layout_(std::move(layout)),
        parts_(ConvParts(layout_.conv.shape(), capacity)),
        has_places_(has_places) {}

  size_t scratch_bytes() const override {
    return static_cast<size_t>(parts_) * layout_.part_bytes();
  }

  absl::Status Run(const KernelContext& c) const override {
    const int64_t images = c.in(0).dims[0];
    c.pool->ParallelFor(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        uint8_t* const memory = c.scratch + static_cast<size_t>(part) * layout_.part_bytes();
        for (int64_t i = images * part / parts_; i < images * (part + 1) / parts_; ++i) {
          RunImage(c, i, memory);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  void RunImage(const KernelContext& c, int64_t i, uint8_t* memory) const {
    const float* image =
        layout_.conv.Padded(c.in(0).as<float>() + i * layout_.conv.shape().in_elements(),
                            reinterpret_cast<float*>(memory));
    const PatchGrid& patches = layout_.conv.grid();
    const auto *const kernel = c.in(1).as<float>(), *const bias = c.in(2).as<float>();
    float* const row = layout_.RowOf(memory);
    for (int64_t w = 0; w < layout_.window_rows; ++w) {
      const int64_t to = i * layout_.pooled_elements() + w * layout_.row_elements();
      float* const y = c.out(0).as<float>() + to;
      uint8_t* const places = has_places_ ? c.out(1).as<uint8_t>() + to : nullptr;
      const int64_t first_row = w * layout_.row_step;
      if (layout_.has_small_windows()) {
        PatchForwardPooledFloat(patches, image, first_row, layout_.grid.windows, kernel, bias, y,
                                places);
        continue;
      }
      PatchForwardFloat(patches, image, first_row, layout_.grid.rows, kernel, row);
      BiasReluMaxPoolFloat(layout_.grid, row, bias, y, places);
    }
  }

  const PooledLayout layout_;
  const int64_t parts_;
  const bool has_places_;
};

// Scratch: for each chunk the gradient of the kernel, and the memory of a part; then the sums of
// the bias.
class PooledConvolutionGrad : public Kernel {
 public:
  PooledConvolutionGrad(PooledLayout layout, int64_t capacity)
      : layout_(std::move(layout)),
        chunks_(shape(), capacity),
        kernel_bytes_(AlignScratch(static_cast<size_t>(shape().kernel_elements()) * sizeof(float))),
        step_(kernel_bytes_ + layout_.part_bytes()) {}

  size_t scratch_bytes() const override {
    const auto channels = static_cast<size_t>(layout_.grid.channels);
    return std::max(static_cast<size_t>(chunks_.most()) * step_,
                    channels * (sizeof(double) + sizeof(float)));
  }

  absl::Status Run(const KernelContext& c) const override {
    const int64_t images = c.in(2).dims[0], chunks = chunks_.Count(images);
    c.pool->ParallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) RunChunk(c, chunk, images);
    });
    FoldChunks(reinterpret_cast<const float*>(c.scratch), shape().kernel_elements(),
               static_cast<int64_t>(step_ / sizeof(float)), chunks, c.out(0).as<float>());
    SumBias(c, images);
    return absl::OkStatus();
  }

 private:
  const ConvShape& shape() const { return layout_.conv.shape(); }

  // Adds up the pixels of an image in float32, and the images in float64, as reduce_sum does. The
  // chunks are done, so their memory is free.
  void SumBias(const KernelContext& c, int64_t images) const {
    const int64_t channels = layout_.grid.channels;
    auto* const all = reinterpret_cast<double*>(c.scratch);
    auto* const image = reinterpret_cast<float*>(all + channels);
    std::fill_n(all, channels, 0.0);
    for (int64_t row = 0, i = 0; i < images; ++i) {
      std::fill_n(image, channels, 0.0f);
      for (int64_t w = 0; w < layout_.window_rows; ++w, ++row) {
        const int64_t at = row * layout_.row_elements();
        AddPlacedFloat(layout_.grid, c.in(0).as<float>() + at, c.in(1).as<uint8_t>() + at, image);
      }
      for (int64_t k = 0; k < channels; ++k) all[k] += static_cast<double>(image[k]);
    }
    std::transform(all, all + channels, c.out(1).as<float>(),
                   [](double v) { return static_cast<float>(v); });
  }

  void RunChunk(const KernelContext& c, int64_t chunk, int64_t images) const {
    uint8_t* const memory = c.scratch + static_cast<size_t>(chunk) * step_;
    auto* const sum = reinterpret_cast<float*>(memory);
    uint8_t* const part = memory + kernel_bytes_;
    float* const row = layout_.RowOf(part);
    std::fill_n(sum, shape().kernel_elements(), 0.0f);
    std::fill_n(row, layout_.row_bytes() / sizeof(float), 0.0f);  // also pixels of no window
    for (int64_t i = chunks_.Begin(chunk); i < chunks_.End(chunk, images); ++i) {
      const float* image = layout_.conv.Padded(c.in(2).as<float>() + i * shape().in_elements(),
                                               reinterpret_cast<float*>(part));
      for (int64_t w = 0; w < layout_.window_rows; ++w) {
        const int64_t at = i * layout_.pooled_elements() + w * layout_.row_elements();
        ScatterToPlacesFloat(layout_.grid, c.in(0).as<float>() + at, c.in(1).as<uint8_t>() + at,
                             row);
        PatchKernelGradFloat(layout_.conv.grid(), image, w * layout_.row_step, layout_.grid.rows,
                             row, sum);
      }
    }
  }

  const PooledLayout layout_;
  const ImageChunks chunks_;
  const size_t kernel_bytes_;
  const size_t step_;  // bytes of a chunk
};

}  // namespace

KernelOr CreatePooledConvolutionCpu(const Node& node, const Program& program) {
  const bool forward = node.op == kConvReluPool;
  const Node& conv = node.body[forward ? 0 : 2];
  const Node& pool = node.body[forward ? 3 : 0];
  const ValueType& x = program.type(conv.inputs[0]);
  COHORT_ASSIGN_OR_RETURN(const ConvShape shape,
                          ops::MakeConvShape(conv, x, program.type(conv.inputs[1])));
  COHORT_ASSIGN_OR_RETURN(const PoolAxis rows, ops::MakePoolAxis(pool, 0, shape.axes[0].out));
  COHORT_ASSIGN_OR_RETURN(const PoolAxis columns, ops::MakePoolAxis(pool, 1, shape.axes[1].out));
  PooledLayout layout(shape, rows, columns);
  if (!forward) return std::make_unique<PooledConvolutionGrad>(std::move(layout), x.dims[0].size);
  return std::make_unique<PooledConvolution>(std::move(layout), x.dims[0].size,
                                             node.outputs.size() == 2);
}

}  // namespace cohort
