/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/files/ID/content: a file at its reader's pace, a piece of it in memory. */
#ifndef LLS_API_DOWNLOAD_H
#define LLS_API_DOWNLOAD_H

#include "core/api/api_internal.h"

/* [main] Answers with the file whose id is the first (length) bytes of the tail. */
void lls_download(struct lls_api *api, struct lls_http_exchange *exchange, size_t length);

#endif
