#ifndef COHORT_COMMON_DATA_IMAGES_DISPLACE_H_
#define COHORT_COMMON_DATA_IMAGES_DISPLACE_H_

#include "common/data/images/affine.h"

namespace cohort {

// Makes each pixel from the place that lies `down` rows below it and `right` columns beside it:
// both have a number for each pixel. As keras.ops.image.map_coordinates, whose fill mode `reflect`
// has the image's border pixel once where a negative position is reflected.
void DisplaceImage(const float* pixels, const ImageShape& shape, const float* down,
                   const float* right, const AffineOptions& options, float* out);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_DISPLACE_H_
