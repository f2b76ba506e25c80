/* SPDX-License-Identifier: Apache-2.0 */
/* The files of an encoder's folder besides config.json. */
#ifndef LLS_ENCODER_FOLDER_H
#define LLS_ENCODER_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

struct lls_encoder_folder {
  bool first_row;       /* the first row is the text's vector, not the mean of all */
  uint64_t fingerprint; /* of the files that make the vectors */
};

int lls_encoder_folder_read(const char *folder, struct lls_encoder_folder *out,
                            struct lls_error *err);

#endif
