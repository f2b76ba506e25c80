/* SPDX-License-Identifier: Apache-2.0 */
/* See hub_client.h. */
#include "config.h"

#include "core/hub/hub_client.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define CONNECT_S   15L
#define STALLED_S   60L /* without a byte */
#define MOST_TRIES  6   /* in a row without a new byte */
#define LONGEST_S   300 /* that the hub may ask to wait */
#define REDIRECTS   8L
#define WATCH_MS    500
#define BACKOFF_MS  1000
#define OPTION(...) rc |= (int)curl_easy_setopt(__VA_ARGS__)

struct attempt {
  struct lls_hub_client *client;
  struct lls_hub_request *request;
  struct lls_hub_answer answer;
  bool begun; /* the body's first byte has come */
  int rc;     /* why the body was refused */
};

/* ---- signals ----------------------------------------------------------------------- */

static int take_signals(struct lls_hub_client *c)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  int rc = pthread_sigmask(SIG_BLOCK, &set, &c->before);
  if (rc != 0)
    return -rc;
  c->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (c->signals >= 0)
    return 0;
  rc = -errno;
  pthread_sigmask(SIG_SETMASK, &c->before, NULL);
  return rc;
}

static bool was_cancelled(struct lls_hub_client *c)
{
  struct signalfd_siginfo info;
  if (read(c->signals, &info, sizeof info) == (ssize_t)sizeof info)
    c->caught = (int)info.ssi_signo;
  return c->caught != 0;
}

int lls_hub_client_wait(struct lls_hub_client *c, int64_t ms)
{
  struct pollfd fd = {.fd = c->signals, .events = POLLIN};
  for (; ms > 0 && !was_cancelled(c); ms -= WATCH_MS) {
    poll(&fd, 1, ms < WATCH_MS ? (int)ms : WATCH_MS);
    c->watch->progress(c->watch->context, c->done, c->total);
  }
  return was_cancelled(c) ? -ECANCELED : 0;
}

/* ---- beginning and end ------------------------------------------------------------- */

static size_t on_header(char *line, size_t size, size_t n, void *context)
{
  struct attempt *a = context;
  lls_hub_answer_header(&a->answer, line, size * n);
  return size * n;
}

static size_t on_body(char *data, size_t size, size_t n, void *context)
{
  struct attempt *a = context;
  struct lls_hub_request *r = a->request;
  curl_easy_getinfo(a->client->easy, CURLINFO_RESPONSE_CODE, &a->answer.status);
  if (a->answer.status >= 300)
    return size * n; /* the headers say why */
  if (!a->begun && r->from > 0 && a->answer.status != 206) {
    r->from = 0;
    a->rc = r->restart(r->context);
  } else if (!a->begun && a->answer.range_from != r->from)
    a->rc = -EPROTO;
  a->begun = true;
  if (a->rc == 0)
    a->rc = r->take(r->context, data, size * n);
  if (a->rc < 0)
    return 0;
  r->from += size * n;
  return size * n;
}

/* Returns the file of trusted authorities; NULL: where libcurl was built to look. A
 * bundle may have been built on a system that keeps it elsewhere. */
static const char *find_authorities(void)
{
  static const char *const files[] = {"/etc/ssl/certs/ca-certificates.crt",
                                      "/etc/pki/tls/certs/ca-bundle.crt",
                                      "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
  const char *own = getenv("SSL_CERT_FILE");
  if (own != NULL && own[0] != '\0')
    return own;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (access(files[i], R_OK) == 0)
      return files[i];
  return NULL;
}

static int set_options(struct lls_hub_client *c)
{
  const char *authorities = find_authorities();
  int rc = 0;
  if (authorities != NULL)
    OPTION(c->easy, CURLOPT_CAINFO, authorities);
  OPTION(c->easy, CURLOPT_NOSIGNAL, 1L);
  OPTION(c->easy, CURLOPT_FOLLOWLOCATION, 1L);
  OPTION(c->easy, CURLOPT_MAXREDIRS, REDIRECTS);
  OPTION(c->easy, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
  OPTION(c->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  OPTION(c->easy, CURLOPT_LOW_SPEED_TIME, STALLED_S);
  OPTION(c->easy, CURLOPT_USERAGENT, "llmserve/" PACKAGE_VERSION);
  OPTION(c->easy, CURLOPT_ERRORBUFFER, c->why);
  OPTION(c->easy, CURLOPT_HTTPHEADER, c->headers);
  OPTION(c->easy, CURLOPT_HEADERFUNCTION, on_header);
  OPTION(c->easy, CURLOPT_WRITEFUNCTION, on_body);
  OPTION(c->easy, CURLOPT_BUFFERSIZE, 512L * 1024);
#if LIBCURL_VERSION_NUM >= 0x075500
  OPTION(c->easy, CURLOPT_PROTOCOLS_STR, "http,https");
  /* a hub over TLS does not lead away from it */
  OPTION(c->easy, CURLOPT_REDIR_PROTOCOLS_STR,
         strncmp(c->places->endpoint, "https:", 6) == 0 ? "https" : "http,https");
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
  OPTION(c->easy, CURLOPT_QUICK_EXIT, 1L);
#endif
  return rc == 0 ? 0 : -ENOTSUP;
}

/* libcurl sends the header to no other host that a redirect leads to. */
static int add_token(struct lls_hub_client *c)
{
  char line[LLS_HUB_TOKEN + 32];
  if (c->places->token[0] == '\0')
    return 0;
  snprintf(line, sizeof line, "Authorization: Bearer %s", c->places->token);
  c->headers = curl_slist_append(NULL, line);
  return c->headers != NULL ? 0 : -ENOMEM;
}

int lls_hub_client_open(struct lls_hub_client *c, const struct lls_hub_places *places,
                        const struct lls_hub_name *name,
                        const struct lls_hub_watch *watch, struct lls_error *err)
{
  *c = (struct lls_hub_client){.places = places, .name = name, .watch = watch};
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return lls_fail(err, -ENOTSUP, "libcurl does not start");
  int rc = take_signals(c);
  if (rc < 0) {
    curl_global_cleanup();
    return lls_fail(err, rc, "signals cannot be waited for: %s", strerror(-rc));
  }
  c->multi = curl_multi_init();
  c->easy = curl_easy_init();
  rc = c->multi != NULL && c->easy != NULL ? add_token(c) : -ENOMEM;
  if (rc == 0)
    rc = set_options(c);
  if (rc == 0)
    return 0;
  lls_hub_client_close(c);
  return lls_fail(err, rc, "libcurl: %s", strerror(-rc));
}

void lls_hub_client_close(struct lls_hub_client *c)
{
  curl_easy_cleanup(c->easy);
  curl_multi_cleanup(c->multi);
  curl_slist_free_all(c->headers);
  curl_global_cleanup();
  close(c->signals);
  pthread_sigmask(SIG_SETMASK, &c->before, NULL);
}

/* ---- requests ---------------------------------------------------------------------- */

/* Runs the transfer. Returns 0 with its result, or -ECANCELED. */
static int run_transfer(struct lls_hub_client *c, CURLcode *result)
{
  struct curl_waitfd fd = {.fd = c->signals, .events = CURL_WAIT_POLLIN};
  int running = 1, left;
  *result = CURLE_OK;
  while (running > 0) {
    if (was_cancelled(c))
      return -ECANCELED;
    if (curl_multi_perform(c->multi, &running) != CURLM_OK)
      return -EIO;
    if (running > 0)
      curl_multi_poll(c->multi, &fd, 1, WATCH_MS, NULL);
    c->watch->progress(c->watch->context, c->done, c->total);
  }
  const CURLMsg *message = curl_multi_info_read(c->multi, &left);
  if (message != NULL)
    *result = message->data.result;
  return 0;
}

static int attempt(struct attempt *a, CURLcode *result)
{
  struct lls_hub_client *c = a->client;
  char range[32];
  int rc = 0;
  curl_off_t wait_s = 0;
  snprintf(range, sizeof range, "%" PRIu64 "-", a->request->from);
  OPTION(c->easy, CURLOPT_URL, a->request->url);
  OPTION(c->easy, CURLOPT_RANGE, a->request->from > 0 ? range : NULL);
  OPTION(c->easy, CURLOPT_HEADERDATA, a);
  OPTION(c->easy, CURLOPT_WRITEDATA, a);
  c->why[0] = '\0';
  if (rc != 0 || curl_multi_add_handle(c->multi, c->easy) != CURLM_OK)
    return -ENOMEM;
  rc = run_transfer(c, result);
  curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &a->answer.status);
  curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &wait_s);
  a->answer.retry_after_s = (int64_t)wait_s;
  curl_multi_remove_handle(c->multi, c->easy);
  c->reached = c->reached || a->answer.status != 0;
  return rc < 0 ? rc : a->rc;
}

/* Returns true if the request is complete. */
static bool is_complete(const struct attempt *a, CURLcode result)
{
  const struct lls_hub_request *r = a->request;
  return result == CURLE_OK && a->answer.status >= 200 && a->answer.status < 300 &&
         (r->expected == 0 || r->from >= r->expected);
}

/* Returns the error of an attempt that failed. *again tells whether another one may
 * succeed. */
static int judge(const struct attempt *a, CURLcode result, bool *again,
                 struct lls_error *err)
{
  const struct lls_hub_client *c = a->client;
  *again = false;
  if (result == CURLE_OK && a->answer.status >= 300) {
    *again = lls_hub_may_retry(&a->answer) && a->answer.retry_after_s <= LONGEST_S;
    return lls_hub_refusal(&a->answer, c->places, c->name, a->request->what, err);
  }
  /* before the first answer the cause is more likely a wrong address than a bad moment */
  *again = c->reached && result != CURLE_PEER_FAILED_VERIFICATION &&
           result != CURLE_TOO_MANY_REDIRECTS && result != CURLE_UNSUPPORTED_PROTOCOL;
  if (c->reached)
    return lls_fail(err, -EIO, "the transfer from %s broke off: %s", c->places->endpoint,
                    result == CURLE_OK  ? "it ended too early"
                    : c->why[0] != '\0' ? c->why
                                        : curl_easy_strerror(result));
  return lls_fail(err, -EIO, "%s cannot be reached: %s", c->places->endpoint,
                  c->why[0] != '\0' ? c->why : curl_easy_strerror(result));
}

/* Waits before attempt `tries`; the first is repeated at once. */
static int wait_before(struct lls_hub_client *c, const struct lls_hub_answer *a,
                       unsigned tries, const char *what, const struct lls_error *why)
{
  struct lls_error text;
  int64_t ms = a->retry_after_s > 0 ? a->retry_after_s * 1000
               : tries > 1          ? (int64_t)BACKOFF_MS << (tries - 2)
                                    : 0;
  lls_fail(&text, 0, "%s: %s; trying again%s", what != NULL ? what : "its files",
           why->text, ms > 0 ? " soon" : "");
  c->watch->say(c->watch->context, text.text);
  return lls_hub_client_wait(c, ms);
}

/* Reports an error that is not the hub's, but for a body that cannot be used. */
static int fail_at_home(const struct lls_hub_client *c, int rc, struct lls_error *err)
{
  if (rc == -ECANCELED)
    return lls_fail(err, rc, "a signal ended it");
  if (rc == -EPROTO)
    return lls_fail(err, rc, "%s sends another part of the file than it was asked for",
                    c->places->endpoint);
  if (rc == -EFBIG)
    return lls_fail(err, rc, "%s sends more bytes than it said", c->places->endpoint);
  return lls_fail(err, rc, "what comes cannot be kept: %s", strerror(-rc));
}

/* Forgets a part that the server cannot continue. */
static int begin_again(struct lls_hub_request *r)
{
  r->from = 0;
  return r->restart(r->context);
}

int lls_hub_client_get(struct lls_hub_client *c, struct lls_hub_request *r,
                       struct lls_error *err)
{
  struct lls_error why;
  for (unsigned tries = 1;; tries++) {
    struct attempt a = {.client = c, .request = r};
    uint64_t before = r->from;
    CURLcode result = CURLE_OK;
    bool again;
    int rc = attempt(&a, &result);
    if (rc < 0)
      return fail_at_home(c, rc, err);
    if (is_complete(&a, result))
      return 0;
    if (result == CURLE_OK && a.answer.status == 416 && r->from > 0) {
      if ((rc = begin_again(r)) < 0)
        return rc;
      continue;
    }
    rc = judge(&a, result, &again, &why);
    if (r->from > before)
      tries = 1;
    if (!again || tries == MOST_TRIES)
      return lls_fail(err, rc, "%s", why.text);
    if (wait_before(c, &a.answer, tries, r->what, &why) < 0)
      return fail_at_home(c, -ECANCELED, err);
  }
}

/* ---- text -------------------------------------------------------------------------- */

struct text {
  struct lls_text *out;
  size_t most;
};

static int take_text(void *context, const void *data, size_t n)
{
  struct text *t = context;
  if (n > t->most - t->out->length)
    return -EFBIG;
  lls_text_append(t->out, data, n);
  return t->out->failed ? -ENOMEM : 0;
}

static int restart_text(void *context)
{
  lls_text_clear(((struct text *)context)->out);
  return 0;
}

int lls_hub_client_get_text(struct lls_hub_client *c, const char *url, size_t most,
                            struct lls_text *out, struct lls_error *err)
{
  struct text t = {.out = out, .most = most};
  struct lls_hub_request r = {
      .url = url, .take = take_text, .restart = restart_text, .context = &t};
  return lls_hub_client_get(c, &r, err);
}
