#include "common/data/images/decode_image.h"

#include "common/base/printable.h"
#include "common/base/status.h"

namespace cohort {
namespace {

constexpr std::string_view kJpegStart = "\xff\xd8\xff";
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";

// The name of a format that other programs read.
std::string_view OtherFormat(std::string_view bytes) {
  if (bytes.starts_with("GIF8")) return "a GIF";
  if (bytes.starts_with("BM")) return "a BMP";
  constexpr size_t kWebpName = 8;  // after "RIFF" and a size
  if (bytes.starts_with("RIFF") && bytes.size() > kWebpName &&
      bytes.substr(kWebpName).starts_with("WEBP")) {
    return "a WebP";
  }
  return "";
}

}  // namespace

absl::Status CheckImageSize(uint64_t height, uint64_t width, size_t bytes) {
  if (height == 0 || width == 0) return DataLoss("the image has no pixels");
  if (height <= kMaxImagePixels / width) {
    if (height * width / kMaxPixelsPerByte <= bytes) return absl::OkStatus();
    return DataLoss("the image has {} x {} pixels, too many for its {} bytes: it is damaged",
                    height, width, bytes);
  }
  return DataLoss("the image has {} x {} pixels; at most {} pixels are decoded", height, width,
                  kMaxImagePixels);
}

absl::Status DecodeImage(std::string_view bytes, int channels, Image* image) {
  if (bytes.starts_with(kJpegStart)) return DecodeJpeg(bytes, channels, image);
  if (bytes.starts_with(kPngStart)) return DecodePng(bytes, channels, image);
  if (bytes.empty()) return DataLoss("the image has no bytes");
  const std::string_view other = OtherFormat(bytes);
  if (!other.empty()) return DataLoss("{} is neither a JPEG nor a PNG: convert it", other);
  return DataLoss("neither a JPEG nor a PNG starts with \"{}\"", PrintableLine(bytes.substr(0, 8)));
}

}  // namespace cohort
