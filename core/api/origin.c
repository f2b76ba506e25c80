/* SPDX-License-Identifier: Apache-2.0 */
#include "core/api/origin.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define MAX_MS 1e12

static int read_deadline(const struct lls_http_exchange *exchange, const char *name,
                         int64_t *deadline_ns, struct lls_api_error *error)
{
  const char *text = lls_http_request_header(&exchange->request, name);
  char *end;
  if (text == NULL)
    return 0;
  double ms = strtod(text, &end);
  if (end == text || *end != '\0' || !(ms >= 0 && ms <= MAX_MS))
    return lls_api_fail(error, 400, NULL, name,
                        "the header %s must be a number of milliseconds, not \"%.40s\"",
                        name, text);
  if (*deadline_ns == LLS_NEVER)
    *deadline_ns = (int64_t)(ms * 1e6);
  return 0;
}

int lls_api_origin_read(const struct lls_http_exchange *exchange, const char *key_tenant,
                        struct lls_api_params *params, struct lls_api_error *error)
{
  const char *fairness =
      lls_http_request_header(&exchange->request, "x-gateway-inference-fairness-id");
  if (fairness != NULL && *fairness != '\0')
    lls_api_params_set_tenant(params, fairness);
  else if (params->tenant[0] == '\0' && key_tenant != NULL)
    lls_api_params_set_tenant(params, key_tenant);
  if (read_deadline(exchange, "x-slo-ttft-ms", &params->slo.ttft_ns, error) != 0)
    return -1;
  return read_deadline(exchange, "x-slo-tpot-ms", &params->slo.tpot_ns, error);
}
