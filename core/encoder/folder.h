/* SPDX-License-Identifier: Apache-2.0 */
/* The files of an encoder's folder besides config.json. */
#ifndef LLS_ENCODER_FOLDER_H
#define LLS_ENCODER_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

struct lls_encoder_folder {
  bool first_row;       /* pool by the first row instead of the mean of all rows */
  uint64_t fingerprint; /* hash of the files that determine the vectors */
};

int lls_encoder_folder_read(const char *folder, struct lls_encoder_folder *out,
                            struct lls_error *err);

#endif
