// conv2d and conv2d_kernel_grad in float32 for images of few channels.
#include "common/kernels/patch_convolution.h"

#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

using ops::ConvAxis;
using ops::ConvShape;

constexpr int64_t kMaxPatch = 32;

// Image by image. Scratch: a padded image for each part.
class PatchForward : public Kernel {
 public:
  PatchForward(const ConvShape& shape, int64_t capacity)
      : layout_(shape), parts_(ConvParts(shape, capacity)) {}

  size_t scratch_bytes() const override {
    return static_cast<size_t>(parts_) * AlignScratch(layout_.padded_bytes());
  }

  absl::Status Run(const KernelContext& c) const override {
    const ConvShape& s = layout_.shape();
    const int64_t images = c.in(0).dims[0];
    c.pool->ParallelFor(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        auto* memory = reinterpret_cast<float*>(
            c.scratch + static_cast<size_t>(part) * AlignScratch(layout_.padded_bytes()));
        for (int64_t i = images * part / parts_; i < images * (part + 1) / parts_; ++i) {
          const float* image = layout_.Padded(c.in(0).as<float>() + i * s.in_elements(), memory);
          PatchForwardFloat(layout_.grid(), image, 0, s.axes[0].out, c.in(1).as<float>(),
                            c.out().as<float>() + i * s.out_elements());
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  const PatchLayout layout_;
  const int64_t parts_;
};

// Scratch: for each chunk its gradient and a padded image.
class PatchKernelGrad : public Kernel {
 public:
  PatchKernelGrad(const ConvShape& shape, int64_t capacity)
      : layout_(shape),
        chunks_(shape, capacity),
        kernel_bytes_(AlignScratch(static_cast<size_t>(shape.kernel_elements()) * sizeof(float))),
        step_(kernel_bytes_ + AlignScratch(layout_.padded_bytes())) {}

  size_t scratch_bytes() const override { return static_cast<size_t>(chunks_.most()) * step_; }

  absl::Status Run(const KernelContext& c) const override {
    const ConvShape& s = layout_.shape();
    const int64_t images = c.in(0).dims[0], chunks = chunks_.Count(images);
    c.pool->ParallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        uint8_t* const memory = c.scratch + static_cast<size_t>(chunk) * step_;
        auto* const sum = reinterpret_cast<float*>(memory);
        std::fill_n(sum, s.kernel_elements(), 0.0f);
        for (int64_t i = chunks_.Begin(chunk); i < chunks_.End(chunk, images); ++i) {
          const float* image = layout_.Padded(c.in(0).as<float>() + i * s.in_elements(),
                                              reinterpret_cast<float*>(memory + kernel_bytes_));
          PatchKernelGradFloat(layout_.grid(), image, 0, s.axes[0].out,
                               c.in(1).as<float>() + i * s.out_elements(), sum);
        }
      }
    });
    FoldChunks(reinterpret_cast<const float*>(c.scratch), s.kernel_elements(),
               static_cast<int64_t>(step_ / sizeof(float)), chunks, c.out().as<float>());
    return absl::OkStatus();
  }

 private:
  const PatchLayout layout_;
  const ImageChunks chunks_;
  const size_t kernel_bytes_;
  const size_t step_;  // bytes of a chunk
};

}  // namespace

bool HasSmallPatches(const ConvShape& s) {
  return s.groups == 1 && s.out_channels % kChannelsOfPatches == 0 &&
         s.axes[0].taps * s.axes[1].taps * s.in_channels <= kMaxPatch;
}

ImageChunks::ImageChunks(const ConvShape& shape, int64_t capacity) {
  const int64_t images = std::max<int64_t>(capacity, 1);
  const int64_t chunks = std::min(ConvParts(shape, capacity), kMaxConvChunks);
  images_ = (images + chunks - 1) / chunks;
  most_ = Count(images);
}

PatchLayout::PatchLayout(const ConvShape& shape) : shape_(shape) {
  const auto with_padding = [](const ConvAxis& a) {
    return a.before + std::max(a.in, a.place(a.out - 1, a.taps - 1) + 1);
  };
  const ConvAxis &rows = shape_.axes[0], &columns = shape_.axes[1];
  const int64_t padded_rows = with_padding(rows);
  padded_columns_ = with_padding(columns);
  if (padded_rows != rows.in || padded_columns_ != columns.in) {
    padded_elements_ = static_cast<size_t>(padded_rows * padded_columns_ * shape_.in_channels);
  }
  for (int64_t r = 0; r < rows.taps; ++r) {
    for (int64_t c = 0; c < columns.taps; ++c) {
      for (int64_t i = 0; i < shape_.in_channels; ++i) {
        offsets_.push_back(
            (r * rows.dilation * padded_columns_ + c * columns.dilation) * shape_.in_channels + i);
      }
    }
  }
  grid_ = {.columns = columns.out,
           .row_step = rows.stride * padded_columns_ * shape_.in_channels,
           .column_step = columns.stride * shape_.in_channels,
           .patch = static_cast<int64_t>(offsets_.size()),
           .offsets = offsets_.data(),
           .channels = shape_.out_channels};
}

const float* PatchLayout::Padded(const float* image, float* memory) const {
  if (padded_elements_ == 0) return image;
  const ConvAxis &rows = shape_.axes[0], &columns = shape_.axes[1];
  std::fill_n(memory, padded_elements_, 0.0f);
  const int64_t row = columns.in * shape_.in_channels;
  for (int64_t r = 0; r < rows.in; ++r) {
    const int64_t first = (r + rows.before) * padded_columns_ + columns.before;
    std::copy_n(image + r * row, row, memory + first * shape_.in_channels);
  }
  return memory;
}

void FoldChunks(const float* from, int64_t n, int64_t step, int64_t chunks, float* to) {
  std::fill_n(to, n, 0.0f);
  for (int64_t chunk = 0; chunk < chunks; ++chunk, from += step) {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
  }
}

std::unique_ptr<Kernel> MakePatchConvolution(ConvKind kind, const ConvShape& shape,
                                             int64_t capacity) {
  if (kind == ConvKind::kForward) return std::make_unique<PatchForward>(shape, capacity);
  return std::make_unique<PatchKernelGrad>(shape, capacity);
}

}  // namespace cohort
