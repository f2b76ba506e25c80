/* SPDX-License-Identifier: Apache-2.0 */
/* Hash tables of uthash. An addition without memory leaves the element out, with hh.tbl
 * == NULL, and does not end the process. */
#ifndef LLS_BASE_HASH_H
#define LLS_BASE_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
