// float32 convolutions by oneDNN. Images stay [n, rows, columns, channels], which oneDNN reads and
// writes at full speed; kernels are reordered to its blocked formats in every run.
//
// Results do not depend on the number of threads. Forward and input gradients run image by image
// with one primitive. The kernel gradient is computed for chunks of images, whose size depends on
// shapes only, and the chunks are added in order.
#include <dnnl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/kernels/convolution.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/onednn.h"

namespace cohort {
namespace {

using ops::ConvShape;

constexpr int64_t kChunkPixels = 256;  // outputs of a chunk that pay for one addition of a kernel

absl::Status SetHandle(const OneDnnMemory& memory, void* data) {
  return OneDnnStatus(dnnl_memory_set_data_handle(memory.get(), data), "memory_set_data_handle");
}

absl::StatusOr<dnnl_memory_desc_t> ImagesDesc(int64_t images, const ConvShape& s, bool output) {
  dnnl_dims_t dims = {images, output ? s.out_channels : s.in_channels,
                      output ? s.axes[0].out : s.axes[0].in, output ? s.axes[1].out : s.axes[1].in};
  dnnl_memory_desc_t desc;
  COHORT_RETURN_IF_ERROR(
      OneDnnStatus(dnnl_memory_desc_init_by_tag(&desc, 4, dims, dnnl_f32, dnnl_nhwc),
                   "memory_desc_init_by_tag"));
  return desc;
}

// `any`: the primitive chooses the format; otherwise that of Cohort.
absl::StatusOr<dnnl_memory_desc_t> KernelDesc(const ConvShape& s, bool any) {
  const int64_t in = s.in_channels / s.groups, out = s.out_channels / s.groups;
  dnnl_dims_t plain = {out, in, s.axes[0].taps, s.axes[1].taps};
  dnnl_dims_t grouped = {s.groups, out, in, s.axes[0].taps, s.axes[1].taps};
  const bool groups = s.groups > 1;
  dnnl_memory_desc_t desc;
  COHORT_RETURN_IF_ERROR(OneDnnStatus(
      dnnl_memory_desc_init_by_tag(&desc, groups ? 5 : 4, groups ? grouped : plain, dnnl_f32,
                                   any      ? dnnl_format_tag_any
                                   : groups ? dnnl_hwigo
                                            : dnnl_hwio),
      "memory_desc_init_by_tag"));
  return desc;
}

using PrimitiveDesc = OneDnnPtr<dnnl_primitive_desc, dnnl_primitive_desc_destroy>;

// A primitive with the formats that it has chosen.
struct ConvPrimitive {
  OneDnnPrimitive primitive;
  dnnl_memory_desc_t images_in, images_out, kernel, scratchpad;
  size_t kernel_bytes() const { return dnnl_memory_desc_get_size(&kernel); }
  size_t scratchpad_bytes() const { return dnnl_memory_desc_get_size(&scratchpad); }
};

absl::StatusOr<OneDnnPrimitive> CreatePrimitive(const_dnnl_primitive_desc_t desc) {
  dnnl_primitive_t primitive = nullptr;
  COHORT_RETURN_IF_ERROR(OneDnnStatus(dnnl_primitive_create(&primitive, desc), "primitive_create"));
  return OneDnnPrimitive(primitive);
}

absl::StatusOr<PrimitiveDesc> CreateDesc(const_dnnl_op_desc_t op,
                                         const_dnnl_primitive_desc_t hint) {
  OneDnnPtr<dnnl_primitive_attr, dnnl_primitive_attr_destroy> attr;
  dnnl_primitive_attr_t made_attr = nullptr;
  COHORT_RETURN_IF_ERROR(OneDnnStatus(dnnl_primitive_attr_create(&made_attr), "attr_create"));
  attr.reset(made_attr);
  COHORT_RETURN_IF_ERROR(
      OneDnnStatus(dnnl_primitive_attr_set_scratchpad_mode(made_attr, dnnl_scratchpad_mode_user),
                   "attr_set_scratchpad_mode"));
  dnnl_primitive_desc_t desc = nullptr;
  COHORT_RETURN_IF_ERROR(
      OneDnnStatus(dnnl_primitive_desc_create(&desc, op, made_attr, OneDnnEngine(), hint),
                   "primitive_desc_create"));
  return PrimitiveDesc(desc);
}

absl::StatusOr<ConvPrimitive> MakeConvPrimitive(ConvKind kind, const ConvShape& s, int64_t images) {
  KeepOneDnnSingleThreaded();
  COHORT_ASSIGN_OR_RETURN(const dnnl_memory_desc_t x, ImagesDesc(images, s, false));
  COHORT_ASSIGN_OR_RETURN(const dnnl_memory_desc_t y, ImagesDesc(images, s, true));
  COHORT_ASSIGN_OR_RETURN(const dnnl_memory_desc_t kernel, KernelDesc(s, true));
  const dnnl_dims_t strides = {s.axes[0].stride, s.axes[1].stride};
  const dnnl_dims_t dilates = {s.axes[0].dilation - 1, s.axes[1].dilation - 1};
  const dnnl_dims_t before = {s.axes[0].before, s.axes[1].before};
  // The padding after the input that the windows reach; oneDNN checks it against the sizes.
  dnnl_dims_t after;
  for (size_t i = 0; i < 2; ++i) {
    const ops::ConvAxis& a = s.axes[i];
    after[i] = a.place(a.out - 1, a.taps - 1) + 1 - a.in;
  }
  const dnnl_alg_kind_t alg = dnnl_convolution_direct;
  dnnl_convolution_desc_t op;
  COHORT_RETURN_IF_ERROR(OneDnnStatus(
      dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training, alg, &x, &kernel,
                                                 nullptr, &y, strides, dilates, before, after),
      "convolution_forward_desc_init"));
  COHORT_ASSIGN_OR_RETURN(PrimitiveDesc desc, CreateDesc(&op, nullptr));
  if (kind == ConvKind::kInputGrad) {
    COHORT_RETURN_IF_ERROR(
        OneDnnStatus(dnnl_dilated_convolution_backward_data_desc_init(
                         &op, alg, &x, &kernel, &y, strides, dilates, before, after),
                     "convolution_backward_data_desc_init"));
    COHORT_ASSIGN_OR_RETURN(desc, CreateDesc(&op, desc.get()));
  } else if (kind == ConvKind::kKernelGrad) {
    COHORT_RETURN_IF_ERROR(
        OneDnnStatus(dnnl_dilated_convolution_backward_weights_desc_init(
                         &op, alg, &x, &kernel, nullptr, &y, strides, dilates, before, after),
                     "convolution_backward_weights_desc_init"));
    COHORT_ASSIGN_OR_RETURN(desc, CreateDesc(&op, desc.get()));
  }
  ConvPrimitive made;
  made.images_in = x;
  made.images_out = y;
  const dnnl_query_t weights =
      kind == ConvKind::kKernelGrad ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
  made.kernel = *dnnl_primitive_desc_query_md(desc.get(), weights, 0);
  made.scratchpad = *dnnl_primitive_desc_query_md(desc.get(), dnnl_query_scratchpad_md, 0);
  COHORT_ASSIGN_OR_RETURN(made.primitive, CreatePrimitive(desc.get()));
  return made;
}

// What one thread runs a primitive with. Each part of the work has one of its own.
class ConvRunner {
 public:
  static absl::StatusOr<ConvRunner> Make(ConvKind kind, const ConvPrimitive& primitive) {
    ConvRunner r;
    r.primitive_ = primitive.primitive.get();
    COHORT_ASSIGN_OR_RETURN(r.stream_, MakeOneDnnStream());
    COHORT_ASSIGN_OR_RETURN(r.in_, MakeOneDnnMemory(primitive.images_in));
    COHORT_ASSIGN_OR_RETURN(r.out_, MakeOneDnnMemory(primitive.images_out));
    COHORT_ASSIGN_OR_RETURN(r.kernel_, MakeOneDnnMemory(primitive.kernel));
    COHORT_ASSIGN_OR_RETURN(r.scratchpad_, MakeOneDnnMemory(primitive.scratchpad));
    r.kind_ = kind;
    return r;
  }

  // The kernel, and working memory of scratchpad_bytes().
  absl::Status SetKernel(void* kernel, void* scratchpad) const {
    COHORT_RETURN_IF_ERROR(SetHandle(kernel_, kernel));
    return SetHandle(scratchpad_, scratchpad);
  }

  // Runs the primitive for images that begin at x and y.
  absl::Status Run(const float* x, const float* y) const {
    COHORT_RETURN_IF_ERROR(SetHandle(in_, const_cast<float*>(x)));
    COHORT_RETURN_IF_ERROR(SetHandle(out_, const_cast<float*>(y)));
    const bool forward = kind_ == ConvKind::kForward;
    const dnnl_exec_arg_t args[] = {
        {kind_ == ConvKind::kInputGrad ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, in_.get()},
        {kind_ == ConvKind::kKernelGrad ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, kernel_.get()},
        {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, out_.get()},
        {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}};
    return OneDnnStatus(dnnl_primitive_execute(primitive_, stream_.get(), 4, args), "convolution");
  }

 private:
  dnnl_primitive_t primitive_ = nullptr;
  ConvKind kind_ = ConvKind::kForward;
  OneDnnStream stream_;
  OneDnnMemory in_, out_, kernel_, scratchpad_;
};

// Copies a kernel from one format to another.
class KernelReorder {
 public:
  static absl::StatusOr<KernelReorder> Make(const dnnl_memory_desc_t& from,
                                            const dnnl_memory_desc_t& to) {
    KernelReorder r;
    r.same_ = dnnl_memory_desc_equal(&from, &to) != 0;
    r.bytes_ = dnnl_memory_desc_get_size(&to);
    if (r.same_) return r;
    dnnl_primitive_desc_t desc = nullptr;
    COHORT_RETURN_IF_ERROR(
        OneDnnStatus(dnnl_reorder_primitive_desc_create(&desc, &from, OneDnnEngine(), &to,
                                                        OneDnnEngine(), nullptr),
                     "reorder_primitive_desc_create"));
    const PrimitiveDesc owned(desc);
    COHORT_ASSIGN_OR_RETURN(r.primitive_, CreatePrimitive(desc));
    COHORT_ASSIGN_OR_RETURN(r.stream_, MakeOneDnnStream());
    COHORT_ASSIGN_OR_RETURN(r.from_, MakeOneDnnMemory(from));
    COHORT_ASSIGN_OR_RETURN(r.to_, MakeOneDnnMemory(to));
    return r;
  }

  absl::Status Run(const void* from, void* to) const {
    if (same_) {
      std::memcpy(to, from, bytes_);
      return absl::OkStatus();
    }
    COHORT_RETURN_IF_ERROR(SetHandle(from_, const_cast<void*>(from)));
    COHORT_RETURN_IF_ERROR(SetHandle(to_, to));
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from_.get()}, {DNNL_ARG_TO, to_.get()}};
    return OneDnnStatus(dnnl_primitive_execute(primitive_.get(), stream_.get(), 2, args),
                        "reorder");
  }

 private:
  bool same_ = false;
  size_t bytes_ = 0;
  OneDnnPrimitive primitive_;
  OneDnnStream stream_;
  OneDnnMemory from_, to_;
};

// conv2d and conv2d_input_grad: image by image. Scratch: the reordered kernel, then the working
// memory of each part.
class ImageConvolution : public Kernel {
 public:
  static KernelOr Make(ConvKind kind, const ConvShape& s, int64_t capacity) {
    auto made = std::make_unique<ImageConvolution>();
    made->kind_ = kind;
    made->s_ = s;
    COHORT_ASSIGN_OR_RETURN(made->image_, MakeConvPrimitive(kind, s, 1));
    COHORT_ASSIGN_OR_RETURN(const dnnl_memory_desc_t plain, KernelDesc(s, false));
    COHORT_ASSIGN_OR_RETURN(made->reorder_, KernelReorder::Make(plain, made->image_.kernel));
    for (int64_t i = 0; i < ConvParts(s, capacity); ++i) {
      COHORT_ASSIGN_OR_RETURN(made->parts_.emplace_back(), ConvRunner::Make(kind, made->image_));
    }
    return made;
  }

  size_t scratch_bytes() const override {
    return AlignScratch(image_.kernel_bytes()) +
           parts_.size() * AlignScratch(image_.scratchpad_bytes());
  }

  absl::Status Run(const KernelContext& c) const override {
    const int64_t images = c.in(0).dims[0], parts = static_cast<int64_t>(parts_.size());
    if (images == 0) return absl::OkStatus();
    const bool forward = kind_ == ConvKind::kForward;
    const float* x = (forward ? c.in(0) : c.out()).as<float>();
    const float* y = (forward ? c.out() : c.in(0)).as<float>();
    KeepOneDnnSingleThreaded();
    COHORT_RETURN_IF_ERROR(reorder_.Run(c.in(1).data, c.scratch));
    std::atomic<bool> failed{false};
    c.pool->ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
      KeepOneDnnSingleThreaded();
      for (int64_t p = begin; p < end; ++p) {
        if (!RunPart(c, p, x, y, images * p / parts, images * (p + 1) / parts).ok()) failed = true;
      }
    });
    return failed ? Internal("a convolution by oneDNN failed") : absl::OkStatus();
  }

 private:
  absl::Status RunPart(const KernelContext& c, int64_t part, const float* x, const float* y,
                       int64_t begin, int64_t end) const {
    const ConvRunner& runner = parts_[static_cast<size_t>(part)];
    uint8_t* scratchpad = c.scratch + AlignScratch(image_.kernel_bytes()) +
                          static_cast<size_t>(part) * AlignScratch(image_.scratchpad_bytes());
    COHORT_RETURN_IF_ERROR(runner.SetKernel(c.scratch, scratchpad));
    for (int64_t i = begin; i < end; ++i) {
      COHORT_RETURN_IF_ERROR(runner.Run(x + i * s_.in_elements(), y + i * s_.out_elements()));
    }
    return absl::OkStatus();
  }

  ConvKind kind_;
  ConvShape s_;
  ConvPrimitive image_;  // for one image
  KernelReorder reorder_;
  std::vector<ConvRunner> parts_;
};

// conv2d_kernel_grad. A chunk of the batch that is not full (the last one of a short batch) runs
// image by image. Scratch: the gradient of each chunk, that of one image, and the working memory of
// each chunk.
class KernelGradient : public Kernel {
 public:
  static KernelOr Make(const ConvShape& s, int64_t capacity) {
    auto made = std::make_unique<KernelGradient>();
    made->s_ = s;
    const int64_t pixels = s.axes[0].out * s.axes[1].out;
    const int64_t least = std::max((capacity + kMaxConvChunks - 1) / kMaxConvChunks,
                                   (kChunkPixels + pixels - 1) / pixels);
    made->chunk_images_ = std::min(least, capacity);
    COHORT_ASSIGN_OR_RETURN(made->image_, MakeConvPrimitive(ConvKind::kKernelGrad, s, 1));
    COHORT_ASSIGN_OR_RETURN(made->chunk_,
                            MakeConvPrimitive(ConvKind::kKernelGrad, s, made->chunk_images_));
    if (dnnl_memory_desc_equal(&made->image_.kernel, &made->chunk_.kernel) == 0) {
      made->chunk_images_ = 1;  // chunks add up only in one format
      COHORT_ASSIGN_OR_RETURN(made->chunk_, MakeConvPrimitive(ConvKind::kKernelGrad, s, 1));
    }
    COHORT_ASSIGN_OR_RETURN(const dnnl_memory_desc_t plain, KernelDesc(s, false));
    COHORT_ASSIGN_OR_RETURN(made->reorder_, KernelReorder::Make(made->chunk_.kernel, plain));
    COHORT_ASSIGN_OR_RETURN(made->one_image_,
                            ConvRunner::Make(ConvKind::kKernelGrad, made->image_));
    for (int64_t i = 0; i < capacity; i += made->chunk_images_) {
      COHORT_ASSIGN_OR_RETURN(made->chunks_.emplace_back(),
                              ConvRunner::Make(ConvKind::kKernelGrad, made->chunk_));
    }
    return made;
  }

  size_t scratch_bytes() const override {
    return (chunks_.size() + 1) * kernel_bytes() + chunks_.size() * scratchpad_bytes();
  }

  absl::Status Run(const KernelContext& c) const override {
    const int64_t images = c.in(0).dims[0];
    if (images == 0) {
      std::fill_n(c.out().as<float>(), c.out().elements, 0.0f);
      return absl::OkStatus();
    }
    const int64_t chunks = (images + chunk_images_ - 1) / chunk_images_;
    std::atomic<bool> failed{false};
    c.pool->ParallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
      KeepOneDnnSingleThreaded();
      for (int64_t i = begin; i < end; ++i) {
        if (!RunChunk(c, i, std::min(images - i * chunk_images_, chunk_images_)).ok()) {
          failed = true;
        }
      }
    });
    if (failed) return Internal("the kernel gradient of a convolution by oneDNN failed");
    Fold(c, chunks);
    KeepOneDnnSingleThreaded();
    return reorder_.Run(c.scratch, c.out().data);
  }

 private:
  size_t kernel_bytes() const { return AlignScratch(chunk_.kernel_bytes()); }
  size_t scratchpad_bytes() const {
    return AlignScratch(std::max(image_.scratchpad_bytes(), chunk_.scratchpad_bytes()));
  }
  float* gradient(const KernelContext& c, size_t chunk) const {
    return reinterpret_cast<float*>(c.scratch + chunk * kernel_bytes());
  }

  absl::Status RunChunk(const KernelContext& c, int64_t chunk, int64_t images) const {
    const size_t index = static_cast<size_t>(chunk);
    uint8_t* scratchpad =
        c.scratch + (chunks_.size() + 1) * kernel_bytes() + index * scratchpad_bytes();
    const float* x = c.in(0).as<float>() + chunk * chunk_images_ * s_.in_elements();
    const float* y = c.in(1).as<float>() + chunk * chunk_images_ * s_.out_elements();
    float* sum = gradient(c, index);
    if (images == chunk_images_) {
      COHORT_RETURN_IF_ERROR(chunks_[index].SetKernel(sum, scratchpad));
      return chunks_[index].Run(x, y);
    }
    float* one = gradient(c, chunks_.size());
    const size_t elements = chunk_.kernel_bytes() / sizeof(float);
    std::fill_n(sum, elements, 0.0f);
    COHORT_RETURN_IF_ERROR(one_image_.SetKernel(one, scratchpad));
    for (int64_t i = 0; i < images; ++i) {
      COHORT_RETURN_IF_ERROR(one_image_.Run(x + i * s_.in_elements(), y + i * s_.out_elements()));
      for (size_t k = 0; k < elements; ++k) sum[k] += one[k];
    }
    return absl::OkStatus();
  }

  // Adds the chunks to the first one, left to right.
  void Fold(const KernelContext& c, int64_t chunks) const {
    const auto elements = static_cast<int64_t>(chunk_.kernel_bytes() / sizeof(float));
    if (chunks == 1) return;
    c.pool->ParallelFor(elements, kElementGrain, [&](int64_t begin, int64_t end) {
      constexpr int64_t kBlock = 2048;
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t n = std::min(kBlock, end - at);
        float* __restrict sum = gradient(c, 0) + at;
        for (int64_t i = 1; i < chunks; ++i) {
          const float* __restrict part = gradient(c, static_cast<size_t>(i)) + at;
          for (int64_t k = 0; k < n; ++k) sum[k] += part[k];
        }
      }
    });
  }

  ConvShape s_;
  int64_t chunk_images_ = 1;
  ConvPrimitive image_, chunk_;
  KernelReorder reorder_;
  ConvRunner one_image_;
  std::vector<ConvRunner> chunks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeOneDnnConvolution(ConvKind kind, const ConvShape& shape,
                                                              int64_t capacity) {
  capacity = std::max<int64_t>(capacity, 1);
  if (kind == ConvKind::kKernelGrad) return KernelGradient::Make(shape, capacity);
  return ImageConvolution::Make(kind, shape, capacity);
}

}  // namespace cohort
