/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/files/ID/content: sends a file as fast as the client reads, with one piece of
 * it in memory. */
#ifndef LLS_API_DOWNLOAD_H
#define LLS_API_DOWNLOAD_H

#include "core/api/api_internal.h"

/* [main] Answers with the file whose id is the first `length` bytes of the path after
 * "/v1/files/". */
void lls_download(struct lls_api *api, struct lls_http_exchange *exchange, size_t length);

#endif
