// PNG, with libpng. libpng reports errors by a call that must not return: it jumps to the function
// below that called libpng, which has no objects with destructors.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/images/decode_image.h"

namespace cohort {
namespace {

// Chunks that are not pixels, such as color profiles.
constexpr png_alloc_size_t kMaxChunkBytes = 8 << 20;
// Text and other chunks of which a file may have many are skipped: libpng would keep them all. Its
// limit is one more than what it keeps, and 0 stands for no limit.
constexpr png_uint_32 kChunkCache = 1;

// A decoder of one image.
class PngDecoder {
 public:
  explicit PngDecoder(std::string_view bytes) : left_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, Fail, Warn);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  bool ReadHeader() {
    if (info_ == nullptr) return false;
    if (setjmp(caller_) != 0) return false;
    png_set_chunk_malloc_max(png_, kMaxChunkBytes);
    png_set_chunk_cache_max(png_, kChunkCache);
    png_set_user_limits(png_, kMaxImagePixels, kMaxImagePixels);
    png_set_read_fn(png_, this, Read);
    png_read_info(png_, info_);
    return true;
  }

  // Sets the conversions to 8 bits and `channels`.
  bool Convert(int channels) {
    if (setjmp(caller_) != 0) return false;
    const png_byte type = png_get_color_type(png_, info_);
    const bool has_transparency = png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
    const bool has_alpha = (type & PNG_COLOR_MASK_ALPHA) != 0;
    const bool has_color = (type & PNG_COLOR_MASK_COLOR) != 0;
    png_set_strip_16(png_);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    if (channels == 4) {
      if (has_transparency) png_set_tRNS_to_alpha(png_);
      if (!has_alpha && !has_transparency) png_set_add_alpha(png_, 0xff, PNG_FILLER_AFTER);
    } else if (has_alpha || has_transparency) {
      png_set_strip_alpha(png_);
    }
    // ITU-R BT.601, as JPEG's own Y.
    if (channels == 1 && has_color) png_set_rgb_to_gray(png_, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    if (channels > 1 && !has_color) png_set_gray_to_rgb(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool ReadRows(uint8_t* pixels, size_t stride) {
    if (setjmp(caller_) != 0) return false;
    for (int pass = 0; pass < passes_; ++pass) {
      for (uint64_t row = 0; row < height(); ++row) {
        png_read_row(png_, pixels + row * stride, nullptr);
      }
    }
    png_read_end(png_, nullptr);
    return true;
  }

  absl::Status status() const {
    return DataLoss("the PNG is damaged: {}", PrintableLine(message_));
  }
  uint64_t height() const { return png_get_image_height(png_, info_); }
  uint64_t width() const { return png_get_image_width(png_, info_); }
  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }

 private:
  static void Fail(png_structp png, png_const_charp message) {
    auto* const self = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(self->message_, sizeof(self->message_), "%s", message);
    longjmp(self->caller_, 1);
  }
  static void Warn(png_structp, png_const_charp) {}

  static void Read(png_structp png, png_bytep out, size_t size) {
    auto* const self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (size > self->left_.size()) png_error(png, "it ends too early");
    std::memcpy(out, self->left_.data(), size);
    self->left_.remove_prefix(size);
  }

  std::string_view left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  jmp_buf caller_;
  char message_[128] = "libpng has no memory";
};

}  // namespace

absl::Status DecodePng(std::string_view bytes, int channels, Image* image) {
  PngDecoder decoder(bytes);
  if (!decoder.ReadHeader()) return decoder.status();
  COHORT_RETURN_IF_ERROR(CheckImageSize(decoder.height(), decoder.width(), bytes.size()));
  if (!decoder.Convert(channels)) return decoder.status();
  const size_t stride = decoder.width() * static_cast<size_t>(channels);
  if (decoder.row_bytes() != stride) {
    return Internal("a row of the PNG has {} bytes instead of {}", decoder.row_bytes(), stride);
  }
  if (image->pixels.size() < decoder.height() * stride) {
    image->pixels.resize(decoder.height() * stride);
  }
  if (!decoder.ReadRows(image->pixels.data(), stride)) return decoder.status();
  image->shape = {static_cast<int64_t>(decoder.height()), static_cast<int64_t>(decoder.width()),
                  channels};
  return absl::OkStatus();
}

}  // namespace cohort
