/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a model at a hub: OWNER/NAME, or OWNER/NAME:QUANT for one GGUF file of a
 * repository, where QUANT is a quantisation such as Q4_K_M or the file's own name. */
#ifndef LLS_HUB_NAME_H
#define LLS_HUB_NAME_H

#include <stdbool.h>

#define LLS_HUB_PART 97 /* longest owner or name that the hub allows, and NUL */

struct lls_hub_name {
  char owner[LLS_HUB_PART], name[LLS_HUB_PART];
  char quant[LLS_HUB_PART * 2]; /* "": none was given */
};

/* [any] Returns true if the text has the form of a name; whether the model exists is not
 * checked. A relative path of one slash has this form too, unless it ends in .gguf:
 * callers look for a file first. */
bool lls_hub_name_read(const char *text, struct lls_hub_name *out);

#endif
