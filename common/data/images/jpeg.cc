// JPEG, with libjpeg-turbo. libjpeg reports errors by a call that must not return: it jumps to the
// function below that called libjpeg, which has no objects with destructors.
// jpeglib.h needs what cstdio declares.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <array>
#include <csetjmp>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/images/decode_image.h"

namespace cohort {
namespace {

// A progressive file can name any number of scans, and each one passes over the whole image.
constexpr int kMaxScans = 500;

// A progressive image is kept whole while it is decoded, usually with 3 bytes per pixel, or 6 if
// its colors have full resolution: this is enough for photographs of 40 megapixels. A small file
// can name any size.
constexpr long kMaxCodecBytes = 256 << 20;

// What libjpeg's callbacks know: the way back, and the message of the error.
struct JpegFailure {
  jpeg_error_mgr manager;  // first: libjpeg has its address
  jmp_buf caller;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void Fail(j_common_ptr codec) {
  auto* const failure = reinterpret_cast<JpegFailure*>(codec->err);
  if (codec->err->msg_code == JERR_NO_BACKING_STORE) {  // libjpeg has reached its limit of memory
    std::snprintf(
        failure->message, sizeof(failure->message),
        "decoding it takes more than %ld MB of memory: make it smaller or not progressive",
        kMaxCodecBytes >> 20);
  } else {
    codec->err->format_message(codec, failure->message);
  }
  longjmp(failure->caller, 1);
}

// Warnings. An image that ends early or whose codes are wrong lacks pixels. Others are harmless:
// many cameras write superfluous bytes.
void Warn(j_common_ptr codec, int level) {
  if (level >= 0) return;
  switch (codec->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      Fail(codec);
    default:
      return;
  }
}

void LimitScans(j_common_ptr codec) {
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number <= kMaxScans) return;
  auto* const failure = reinterpret_cast<JpegFailure*>(codec->err);
  std::snprintf(failure->message, sizeof(failure->message), "it has more than %d scans", kMaxScans);
  longjmp(failure->caller, 1);
}

J_COLOR_SPACE OutputSpace(const jpeg_decompress_struct& codec, int channels) {
  // libjpeg converts these two to nothing else.
  if (codec.jpeg_color_space == JCS_CMYK || codec.jpeg_color_space == JCS_YCCK) return JCS_CMYK;
  return channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_EXT_RGBA;
}

// A decoder of one image.
class JpegDecoder {
 public:
  explicit JpegDecoder(std::string_view bytes) {
    codec_.err = jpeg_std_error(&failure_.manager);
    failure_.manager.error_exit = Fail;
    failure_.manager.emit_message = Warn;
    failure_.message[0] = '\0';
    progress_.progress_monitor = LimitScans;
    if (setjmp(failure_.caller) != 0) return;
    jpeg_create_decompress(&codec_);
    codec_.progress = &progress_;
    codec_.mem->max_memory_to_use = kMaxCodecBytes;
    jpeg_mem_src(&codec_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&codec_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  bool ReadHeader(int channels) {
    if (setjmp(failure_.caller) != 0) return false;
    jpeg_read_header(&codec_, TRUE);
    codec_.out_color_space = OutputSpace(codec_, channels);
    codec_.dct_method = JDCT_IFAST;  // as TensorFlow, so that the pixels are equal
    return true;
  }

  // Allocates what libjpeg needs, and reads a progressive image.
  bool Start() {
    if (setjmp(failure_.caller) != 0) return false;
    jpeg_start_decompress(&codec_);
    return true;
  }

  // Writes all rows to `pixels`, `stride` bytes each.
  bool ReadRows(uint8_t* pixels, size_t stride) {
    if (setjmp(failure_.caller) != 0) return false;
    while (codec_.output_scanline < codec_.output_height) {
      std::array<JSAMPROW, 16> rows;
      const size_t left = codec_.output_height - codec_.output_scanline;
      const size_t count = std::min(left, rows.size());
      for (size_t i = 0; i < count; ++i) rows[i] = pixels + (codec_.output_scanline + i) * stride;
      jpeg_read_scanlines(&codec_, rows.data(), static_cast<JDIMENSION>(count));
    }
    jpeg_finish_decompress(&codec_);
    return true;
  }

  absl::Status status() const {
    return DataLoss("the JPEG is damaged: {}", PrintableLine(failure_.message));
  }
  uint64_t height() const { return codec_.image_height; }
  uint64_t width() const { return codec_.image_width; }
  bool is_cmyk() const { return codec_.out_color_space == JCS_CMYK; }
  bool is_inverted() const { return codec_.saw_Adobe_marker != 0; }

 private:
  JpegFailure failure_ = {};
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct codec_ = {};
};

// Converts CMYK in place to `channels`, which are at most four. Adobe's programs write the inverse.
void ConvertCmyk(bool inverted, int channels, size_t pixels, uint8_t* values) {
  for (size_t i = 0; i < pixels; ++i) {
    std::array<int, 4> cmyk;
    for (size_t c = 0; c < 4; ++c) cmyk[c] = inverted ? values[4 * i + c] : 255 - values[4 * i + c];
    std::array<uint8_t, 4> color = {0, 0, 0, 255};
    for (size_t c = 0; c < 3; ++c) color[c] = static_cast<uint8_t>(cmyk[c] * cmyk[3] / 255);
    // ITU-R BT.601, as JPEG's own Y.
    if (channels == 1) {
      color[0] = static_cast<uint8_t>((299 * color[0] + 587 * color[1] + 114 * color[2]) / 1000);
    }
    std::copy_n(color.data(), channels, values + i * static_cast<size_t>(channels));
  }
}

}  // namespace

absl::Status DecodeJpeg(std::string_view bytes, int channels, Image* image) {
  JpegDecoder decoder(bytes);
  if (!decoder.ReadHeader(channels)) return decoder.status();
  COHORT_RETURN_IF_ERROR(CheckImageSize(decoder.height(), decoder.width(), bytes.size()));
  if (!decoder.Start()) return decoder.status();
  const size_t pixels = decoder.height() * decoder.width();
  const size_t stride = decoder.width() * static_cast<size_t>(decoder.is_cmyk() ? 4 : channels);
  if (image->pixels.size() < decoder.height() * stride) {
    image->pixels.resize(decoder.height() * stride);
  }
  if (!decoder.ReadRows(image->pixels.data(), stride)) return decoder.status();
  if (decoder.is_cmyk()) {
    ConvertCmyk(decoder.is_inverted(), channels, pixels, image->pixels.data());
  }
  image->shape = {static_cast<int64_t>(decoder.height()), static_cast<int64_t>(decoder.width()),
                  channels};
  return absl::OkStatus();
}

}  // namespace cohort
