/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the request headers. A malformed number is answered as the client's error; see
 * request_headers.h. */
#include "core/api/request_headers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/api_internal.h"

#define MAX_NS 1e18

/* ---- ids ------------------------------------------------------------------------ */

void lls_api_new_id(char *id)
{
  uint64_t bits[2] = {0};
  uv_random(NULL, NULL, bits, sizeof bits, 0, NULL);
  snprintf(id, LLS_ID_BYTES, "%016llx%016llx", (unsigned long long)bits[0],
           (unsigned long long)bits[1]);
}

/* True if a client's request id is printable and not too long: it is copied to logs and
 * headers. */
static bool is_sound_id(const char *id)
{
  size_t length = strlen(id);
  for (size_t i = 0; i < length; i++)
    if (id[i] <= ' ' || id[i] > '~')
      return false;
  return length > 0 && length < LLS_HTTP_ID_BYTES;
}

void lls_api_choose_id(struct lls_http_exchange *exchange)
{
  const char *id = lls_http_request_header(&exchange->request, "x-request-id");
  if (exchange->id[0] != '\0')
    return;
  if (id != NULL && is_sound_id(id))
    strcpy(exchange->id, id);
  else
    lls_api_new_id(exchange->id);
}

void lls_api_name_request(struct lls_http_exchange *exchange)
{
  lls_api_choose_id(exchange);
  lls_http_add_header(exchange, "x-request-id", exchange->id);
}

/* ---- deadlines and tenants ------------------------------------------------------- */

/* Reads a header that is a number of `unit`, each of them ns long. Returns 0, or -1 with
 * *error set; *out_ns stays as it is if there is no such header. */
static int read_time(const struct lls_http_exchange *exchange, const char *name,
                     const char *unit, double ns, int64_t *out_ns,
                     struct lls_api_error *error)
{
  const char *text = lls_http_request_header(&exchange->request, name);
  char *end;
  if (text == NULL)
    return 0;
  double number = strtod(text, &end);
  if (end == text || *end != '\0' || !(number >= 0 && number * ns <= MAX_NS))
    return lls_api_fail(error, 400, NULL, name,
                        "the header %s must be a number of %s, not \"%.40s\"", name, unit,
                        text);
  *out_ns = (int64_t)(number * ns);
  return 0;
}

static int read_deadline(const struct lls_http_exchange *exchange, const char *name,
                         int64_t *deadline_ns, struct lls_api_error *error)
{
  int64_t ns = *deadline_ns;
  if (read_time(exchange, name, "milliseconds", 1e6, &ns, error) != 0)
    return -1;
  if (*deadline_ns == LLS_NEVER)
    *deadline_ns = ns;
  return 0;
}

static int read_session(const struct lls_http_exchange *exchange,
                        struct lls_api_params *params, struct lls_api_error *error)
{
  const char *name = lls_http_request_header(&exchange->request, "x-session-id");
  if (name != NULL && *name != '\0')
    lls_api_params_set_session(params, name, strlen(name));
  return read_time(exchange, "x-session-returns", "seconds", 1e9, &params->away_ns,
                   error);
}

int lls_api_read_headers(const struct lls_http_exchange *exchange, const char *key_tenant,
                         struct lls_api_params *params, struct lls_api_error *error)
{
  lls_trace_parent_read(lls_http_request_header(&exchange->request, "traceparent"),
                        &params->trace);
  const char *fairness = lls_http_request_header(&exchange->request, LLS_FAIRNESS_HEADER);
  if (key_tenant != NULL && *key_tenant != '\0')
    lls_api_params_set_tenant(params, key_tenant);
  else if (fairness != NULL && *fairness != '\0')
    lls_api_params_set_tenant(params, fairness);
  if (read_session(exchange, params, error) != 0 ||
      read_deadline(exchange, "x-slo-ttft-ms", &params->slo.ttft_ns, error) != 0)
    return -1;
  return read_deadline(exchange, "x-slo-tpot-ms", &params->slo.tpot_ns, error);
}
