/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /console: a page for monitoring and controlling the server, made of the files in
 * share/console, which are compiled in. The files contain no secrets, so they need no
 * key: the page requests its data like any client, with the key that its user enters.
 * Its content security policy lets it load from and connect to this server only.
 */
#include <string.h>

#include "core/api/api_internal.h"
#include "core/api/admin/console_files.h"

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static const char *type_of(const char *name)
{
  const char *dot = strrchr(name, '.');
  if (strcmp(dot, ".css") == 0)
    return "text/css; charset=utf-8";
  return strcmp(dot, ".js") == 0 ? "text/javascript; charset=utf-8"
                                 : "text/html; charset=utf-8";
}

static void not_found(struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  lls_api_fail(&error, 404, "not_found", NULL, "%s %s: there is no such path",
               exchange->request.method, exchange->request.path);
  lls_api_error_reply(exchange, &error);
}

static void send_file(const struct lls_api *api, struct lls_http_exchange *exchange,
                      const char *name)
{
  size_t i = 0;
  while (i < N_CONSOLE_FILES && strcmp(console_files[i].name, name) != 0)
    i++;
  if (!api->config.limits.console || i == N_CONSOLE_FILES) {
    not_found(exchange);
    return;
  }
  lls_http_add_header(exchange, "content-security-policy", policy);
  lls_http_add_header(exchange, "x-content-type-options", "nosniff");
  lls_http_add_header(exchange, "referrer-policy", "no-referrer");
  lls_http_add_header(exchange, "cache-control",
                      /* without it a browser may show another version's files */
                      "no-cache");
  lls_http_reply(exchange, 200, type_of(name), console_files[i].text,
                 console_files[i].length);
}

void lls_handle_console(void *context, struct lls_http_exchange *exchange)
{
  send_file(context, exchange, "console.html");
}

void lls_handle_docs(void *context, struct lls_http_exchange *exchange)
{
  send_file(context, exchange, "docs.html");
}

void lls_handle_console_file(void *context, struct lls_http_exchange *exchange)
{
  send_file(context, exchange, exchange->request.tail);
}

/* Redirects browsers to the console, and answers other clients with 404. */
void lls_handle_root(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  const char *accept = lls_http_request_header(&exchange->request, "accept");
  if (strcmp(exchange->request.method, "HEAD") == 0) { /* asks whether a server is here */
    lls_http_reply(exchange, 200, NULL, NULL, 0);
    return;
  }
  if (!api->config.limits.console || accept == NULL ||
      strstr(accept, "text/html") == NULL) {
    not_found(exchange);
    return;
  }
  lls_http_add_header(exchange, "location", "console");
  lls_http_reply(exchange, 302, NULL, NULL, 0);
}
