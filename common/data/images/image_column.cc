#include "common/data/images/image_column.h"

#include "common/base/status.h"
#include "common/data/images/decode_image.h"
#include "common/data/release_if_large.h"
#include "common/schema/class_registry.h"

namespace cohort {
namespace {

int64_t ChannelsOf(const std::string& color_mode) {
  return color_mode == "grayscale" ? 1 : color_mode == "rgb" ? 3 : 4;
}

// The memory of a thread for an image, so that decoding allocates little.
Image* ThreadImage() {
  thread_local Image image;
  return &image;
}

}  // namespace

std::vector<Argument> ImageColumn::Arguments(std::vector<Argument> others) {
  for (Argument argument :
       {Ints("image_size", "Height and width of the records; one number: of a square.")
            .Default({256, 256})
            .Between(1, 1 << 14),
        String("color_mode", "The channels: 3, 1 or 4.")
            .Default("rgb")
            .OneOf({"rgb", "grayscale", "rgba"}),
        String("interpolation", "How images are resized.")
            .Default("bilinear")
            .OneOf({"bilinear", "nearest"}),
        Bool("crop_to_aspect_ratio",
             "True: crops images to the aspect ratio of `image_size`, which otherwise distorts "
             "them.")
            .Default(false)}) {
    others.push_back(std::move(argument));
  }
  return others;
}

absl::Status ImageColumn::Check(const Config& config) {
  const size_t sizes = config.Ints("image_size").size();
  if (sizes == 1 || sizes == 2) return absl::OkStatus();
  return InvalidArgument("image_size must be the height and the width, not {} numbers", sizes);
}

ImageColumn::ImageColumn(const Config& config)
    : interpolation_(InterpolationOf(config.String("interpolation"))),
      crop_to_aspect_ratio_(config.Bool("crop_to_aspect_ratio")) {
  const std::vector<int64_t> size = config.Ints("image_size");
  shape_ = {size.front(), size.back(), ChannelsOf(config.String("color_mode"))};
}

absl::Status ImageColumn::Decode(std::string_view bytes, std::span<std::byte> record) const {
  Image* const image = ThreadImage();
  const ReleaseIfLarge release(&image->pixels);
  COHORT_RETURN_IF_ERROR(DecodeImage(bytes, static_cast<int>(shape_.channels), image));
  const ImageBox box = crop_to_aspect_ratio_
                           ? BoxOfAspectRatio(image->shape, shape_.height, shape_.width)
                           : WholeImage(image->shape);
  ResizeImage(image->pixels.data(), image->shape, box, shape_.height, shape_.width, interpolation_,
              reinterpret_cast<float*>(record.data()));
  return absl::OkStatus();
}

absl::Status ImageColumn::CheckImage(std::string_view bytes) const {
  Image* const image = ThreadImage();
  const ReleaseIfLarge release(&image->pixels);
  return DecodeImage(bytes, static_cast<int>(shape_.channels), image);
}

}  // namespace cohort
