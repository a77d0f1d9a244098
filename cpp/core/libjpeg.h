// libjpeg-turbo's headers, which expect <cstdio> to have been read.
#pragma once

// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on
