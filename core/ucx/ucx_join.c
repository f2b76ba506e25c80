/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process gets a place.
 *
 *   process 0                        a process that joins
 *   listens                     <--- connects
 *                               <--- CLOCK, some times: a nonce, and the shortest way
 *                               <--- HELLO: version, model, proof, address
 *   checks it: WELCOME --------->    its place, or why not
 *   PEER to all others, and those with a place to it
 *
 * The proof is an HMAC, with [cluster] secret as its key, of the nonce of this connection
 * and the identity. Data of a process without a place is never more than a HELLO.
 */
#include "config.h"

#include "core/ucx/ucx_channel.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "core/base/address.h"

#define MAGIC        0x6c6c7568u
#define MOST_ADDRESS 4096
#define MOST_GUESTS  64
#define ROUNDS       16                   /* readings of process 0's clock */
#define GUEST_NS     INT64_C(10000000000) /* time for a HELLO */
#define REFUSED_NS   INT64_C(1000000000)  /* time for a refusal to arrive */
#define ANSWER_NS    INT64_C(30000000000) /* time for an answer of process 0 */
#define AGAIN_NS     500000000
#define NAP_NS       200000
#define SEPARATORS   " ,"

/* ---- proofs ------------------------------------------------------------------------ */

/* HMAC-SHA256, with the inner digest in hex digits. */
static void prove(const char *secret, const char *what, uint64_t nonce, uint64_t identity,
                  char proof[LLS_SHA256_HEX])
{
  unsigned char pad[64];
  for (int outer = 0; outer < 2; outer++) {
    struct lls_sha256 h;
    memset(pad, outer ? 0x5c : 0x36, sizeof pad);
    for (size_t i = 0; i < sizeof pad && secret[i] != '\0'; i++)
      pad[i] ^= (unsigned char)secret[i];
    lls_sha256_begin(&h);
    lls_sha256_add(&h, pad, sizeof pad);
    if (outer) {
      lls_sha256_add(&h, proof, LLS_SHA256_HEX - 1);
    } else {
      lls_sha256_add(&h, what, strlen(what));
      lls_sha256_add(&h, &nonce, sizeof nonce);
      lls_sha256_add(&h, &identity, sizeof identity);
    }
    lls_sha256_end(&h, proof);
  }
}

/* ---- process 0 --------------------------------------------------------------------- */

static void on_connection(ucp_conn_request_h request, void *context)
{
  struct lls_ucx_channel *u = context;
  uint32_t n = 0;
  for (const struct lls_ucx_guest *g = u->guests; g != NULL; g = g->next)
    n++;
  struct lls_ucx_guest *g = n < MOST_GUESTS ? calloc(1, sizeof *g) : NULL;
  if (g == NULL || getrandom(&g->nonce, sizeof g->nonce, 0) < 0) {
    free(g);
    ucp_listener_reject(u->listener, request);
    return;
  }
  g->request = request;
  g->since_ns = lls_ucx_now();
  g->next = u->guests;
  u->guests = g;
}

static int resolve(const char *address, bool listens, struct addrinfo **out,
                   struct lls_error *err)
{
  const struct addrinfo hints = {.ai_flags = listens ? AI_PASSIVE : 0,
                                 .ai_socktype = SOCK_STREAM};
  char host[LLS_HOST_MAX];
  const char *port;
  if (lls_address_split(address, host, &port) < 0)
    return lls_fail(err, -EINVAL, "'%s' is no HOST:PORT", address);
  int code = getaddrinfo(host[0] != '\0' ? host : NULL, port, &hints, out);
  return code != 0 ? lls_fail(err, -EADDRNOTAVAIL, "%s: %s", address, gai_strerror(code))
                   : 0;
}

static void say_address(struct lls_ucx_channel *u, const char *address)
{
  ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?",
       text[sizeof host + sizeof port + 96];
  if (ucp_listener_query(u->listener, &attr) == UCS_OK)
    getnameinfo((const struct sockaddr *)&attr.sockaddr, sizeof attr.sockaddr, host,
                sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  snprintf(text, sizeof text, "other processes can join at %.200s port %s", address,
           port);
  u->say(u->say_context, text);
}

int lls_ucx_listen(struct lls_ucx_channel *u, const char *address, struct lls_error *err)
{
  struct addrinfo *found = NULL;
  int rc = resolve(address, true, &found, err);
  if (rc < 0)
    return rc;
  const ucp_listener_params_t params = {
      .field_mask =
          UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
      .sockaddr = {.addr = found->ai_addr, .addrlen = found->ai_addrlen},
      .conn_handler = {.cb = on_connection, .arg = u}};
  ucs_status_t status = ucp_listener_create(u->worker, &params, &u->listener);
  freeaddrinfo(found);
  if (status != UCS_OK)
    return lls_fail(err, -EADDRNOTAVAIL, "UCX cannot listen on %s: %s", address,
                    ucs_status_string(status));
  say_address(u, address);
  return 0;
}

ucs_status_t lls_ucx_on_clock(void *context, const void *head, size_t head_bytes,
                              void *data, size_t bytes, const ucp_am_recv_param_t *param)
{
  struct lls_ucx_channel *u = context;
  bool has_ep = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
  struct lls_ucx_clock clock;
  (void)head;
  (void)head_bytes;
  if (bytes != sizeof clock || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
    return UCS_OK;
  memcpy(&clock, data, sizeof clock);
  if (u->joining != NULL) {
    u->clock = clock;
    u->has_clock = true;
    return UCS_OK;
  }
  const struct lls_ucx_guest *g = has_ep ? lls_ucx_find_guest(u, param->reply_ep) : NULL;
  if (g == NULL || g->broken)
    return UCS_OK;
  clock = (struct lls_ucx_clock){.nonce = g->nonce, .now_ns = lls_ucx_now()};
  lls_ucx_send_first(u, g->ep, LLS_UCX_CLOCK, &clock, sizeof clock);
  return UCS_OK;
}

ucs_status_t lls_ucx_on_hello(void *context, const void *head, size_t head_bytes,
                              void *data, size_t bytes, const ucp_am_recv_param_t *param)
{
  struct lls_ucx_channel *u = context;
  bool has_ep = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
  struct lls_ucx_guest *g = has_ep ? lls_ucx_find_guest(u, param->reply_ep) : NULL;
  (void)head;
  (void)head_bytes;
  if (g == NULL || g->hello != NULL || bytes < sizeof(struct lls_ucx_hello) ||
      bytes > sizeof(struct lls_ucx_hello) + MOST_ADDRESS)
    return UCS_OK;
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
    return UCS_OK; /* it is sent eagerly: it is small */
  g->hello = malloc(bytes);
  if (g->hello != NULL)
    memcpy(g->hello, data, bytes);
  g->hello_bytes = bytes;
  return UCS_OK;
}

static bool has_roles(const struct lls_ucx_channel *u, const struct lls_ucx_hello *h)
{
  bool same = h->n == u->base.n;
  for (uint32_t i = 0; same && i < h->n; i++)
    same = h->roles[i] == u->roles[i];
  return same;
}

/* Returns the reason why a process may not join; NULL: it may. */
static const char *why_not(const struct lls_ucx_channel *u, const struct lls_ucx_guest *g,
                           const struct lls_ucx_hello *h)
{
  char proof[LLS_SHA256_HEX];
  prove(u->secret, "join", g->nonce, h->identity, proof);
  if (h->magic != MAGIC || h->identity == 0 ||
      g->hello_bytes != sizeof *h + h->address_bytes)
    return "it is no llmserve, or one of another version";
  if (u->secret[0] != '\0' && memcmp(proof, h->proof, sizeof proof) != 0)
    return "it does not know [cluster] secret";
  if (strncmp(h->version, PACKAGE_VERSION, sizeof h->version) != 0)
    return "it is another version of llmserve than " PACKAGE_VERSION;
  if (!has_roles(u, h))
    return "it has another configuration: [engine] roles and instances have to be the "
           "same";
  return memcmp(h->model, u->model, sizeof h->model) != 0
             ? "it has another model than the front end"
             : NULL;
}

static uint32_t free_place(const struct lls_ucx_channel *u, uint32_t role)
{
  for (uint32_t i = 1; i < u->base.n; i++)
    if (u->others[i].identity == 0 && (role == LLS_ANY_ROLE || u->roles[i] == role))
      return i;
  return LLS_NOBODY;
}

/* Tells process `to` who has a place. */
static void introduce(struct lls_ucx_channel *u, uint32_t to, uint32_t index)
{
  const struct lls_ucx_other *o = &u->others[index];
  const struct lls_ucx_peer peer = {.index = index,
                                    .address_bytes = (uint32_t)o->address_bytes,
                                    .identity = o->identity};
  char *data = malloc(sizeof peer + o->address_bytes);
  if (data != NULL) {
    memcpy(data, &peer, sizeof peer);
    memcpy(data + sizeof peer, o->address, o->address_bytes);
  }
  if (data == NULL)
    u->others[to].broken = true;
  else
    lls_ucx_send(u, to, LLS_UCX_PEER, data, sizeof peer + o->address_bytes);
}

static void welcome(struct lls_ucx_channel *u, struct lls_ucx_guest *g,
                    const struct lls_ucx_hello *h, uint32_t index, const char *why)
{
  struct lls_ucx_welcome w;
  memset(&w, 0, sizeof w);
  w.magic = MAGIC;
  w.index = index;
  w.identity = u->identity;
  w.again = index == LLS_NOBODY && why == NULL;
  snprintf(w.machine, sizeof w.machine, "%s", u->machine);
  prove(u->secret, "welcome", g->nonce, h->identity, w.proof);
  if (index == LLS_NOBODY)
    snprintf(w.why, sizeof w.why, "%s", why != NULL ? why : "all places are taken");
  lls_ucx_send_first(u, g->ep, LLS_UCX_WELCOME, &w, sizeof w);
}

static void say_refused(struct lls_ucx_channel *u, const char *why)
{
  char text[LLS_ERROR_MAX];
  snprintf(text, sizeof text, "a process that wants to join is refused: %s", why);
  u->say(u->say_context, text);
}

static void admit(struct lls_ucx_channel *u, struct lls_ucx_guest *g,
                  const struct lls_ucx_hello *h, uint32_t index)
{
  struct lls_ucx_other *o = &u->others[index];
  lls_ucx_admit(u, index, h->identity, g->ep);
  g->ep = NULL;
  o->has_joined = true;
  o->address = malloc(h->address_bytes + (size_t)1);
  if (o->address == NULL) {
    o->broken = true;
    return;
  }
  memcpy(o->address, g->hello + sizeof *h, h->address_bytes);
  o->address_bytes = h->address_bytes;
  for (uint32_t i = 1; i < u->base.n; i++) {
    if (i == index || u->others[i].identity == 0)
      continue;
    introduce(u, i, index);
    introduce(u, index, i);
  }
}

static void judge(struct lls_ucx_channel *u, struct lls_ucx_guest *g)
{
  struct lls_ucx_hello h;
  memcpy(&h, g->hello, sizeof h);
  const char *why = why_not(u, g, &h);
  uint32_t index = why == NULL ? free_place(u, h.role) : LLS_NOBODY;
  if (why != NULL)
    say_refused(u, why);
  welcome(u, g, &h, index, why);
  g->done = true;
  g->since_ns = lls_ucx_now();
  if (index != LLS_NOBODY)
    admit(u, g, &h, index);
}

static void accept_guest(struct lls_ucx_channel *u, struct lls_ucx_guest *g)
{
  const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                  .conn_request = g->request,
                                  .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                  .err_handler = {.cb = lls_ucx_on_error, .arg = u}};
  g->request = NULL;
  if (ucp_ep_create(u->worker, &params, &g->ep) == UCS_OK)
    return;
  g->ep = NULL;
  g->broken = true;
}

static void free_guest(struct lls_ucx_channel *u, struct lls_ucx_guest *g)
{
  if (g->request != NULL)
    ucp_listener_reject(u->listener, g->request);
  lls_ucx_close_ep(u, g->ep, true);
  free(g->hello);
  free(g);
}

void lls_ucx_answer_guests(struct lls_ucx_channel *u)
{
  for (struct lls_ucx_guest **at = &u->guests; *at != NULL;) {
    struct lls_ucx_guest *g = *at;
    if (g->request != NULL)
      accept_guest(u, g);
    if (g->hello != NULL && !g->done && !g->broken)
      judge(u, g);
    bool waits = !g->broken && (g->ep != NULL || !g->done) &&
                 lls_ucx_now() - g->since_ns < (g->done ? REFUSED_NS : GUEST_NS);
    if (waits) {
      at = &g->next;
      continue;
    }
    *at = g->next;
    free_guest(u, g);
  }
}

void lls_ucx_free_guests(struct lls_ucx_channel *u)
{
  while (u->guests != NULL) {
    struct lls_ucx_guest *g = u->guests;
    u->guests = g->next;
    free_guest(u, g);
  }
}

/* ---- the process that joins -------------------------------------------------------- */

ucs_status_t lls_ucx_on_welcome(void *context, const void *head, size_t head_bytes,
                                void *data, size_t bytes,
                                const ucp_am_recv_param_t *param)
{
  struct lls_ucx_channel *u = context;
  struct lls_ucx_welcome *w = &u->welcome;
  char proof[LLS_SHA256_HEX];
  (void)head;
  (void)head_bytes;
  if (u->joining == NULL || u->has_welcome || bytes != sizeof *w ||
      (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
    return UCS_OK;
  memcpy(w, data, sizeof *w);
  w->why[sizeof w->why - 1] = '\0';
  prove(u->secret, "welcome", u->clock.nonce, u->identity, proof);
  bool knows = u->secret[0] == '\0' || memcmp(proof, w->proof, sizeof proof) == 0;
  if (w->magic != MAGIC || (w->index != LLS_NOBODY && !knows)) {
    w->index = LLS_NOBODY;
    w->again = 0;
    snprintf(w->why, sizeof w->why, "%s",
             knows ? "it is no llmserve, or one of another version"
                   : "it does not know [cluster] secret");
  }
  u->has_welcome = true;
  if (w->index == LLS_NOBODY || w->index == 0 || w->index >= u->base.n)
    return UCS_OK;
  /* from now on its messages are taken */
  u->base.self = w->index;
  u->others[0].identity = w->identity;
  u->others[0].ep = u->joining;
  return UCS_OK;
}

static int connect_to(struct lls_ucx_channel *u, const struct addrinfo *where,
                      struct lls_error *err)
{
  const ucp_ep_params_t params = {
      .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                    UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
      .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
      .sockaddr = {.addr = where->ai_addr, .addrlen = where->ai_addrlen},
      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
      .err_handler = {.cb = lls_ucx_on_error, .arg = u}};
  u->joining_broken = u->has_clock = u->has_welcome = false;
  ucs_status_t status = ucp_ep_create(u->worker, &params, &u->joining);
  return status != UCS_OK
             ? lls_fail(err, -ECONNREFUSED, "UCX: %s", ucs_status_string(status))
             : 0;
}

/* Waits for an answer. Returns 0 or a negative errno. */
static int await(struct lls_ucx_channel *u, const bool *answer,
                 const struct lls_ucx_options *o, struct lls_error *err)
{
  int64_t until_ns = lls_ucx_now() + ANSWER_NS;
  while (!*answer) {
    if (ucp_worker_progress(u->worker) == 0)
      nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    if (*answer) /* WELCOME has made the connection that of process 0 */
      break;
    if (u->joining_broken)
      return lls_fail(err, -ECONNREFUSED, "there is no front end at %s", u->trying);
    if (o->give_up != NULL && atomic_load(o->give_up))
      return lls_fail(err, -ECANCELED, "it is given up");
    if (lls_ucx_now() > until_ns)
      return lls_fail(err, -ETIMEDOUT, "the front end at %s does not answer", u->trying);
  }
  return 0;
}

/* Compares the clocks: process 0's is read at the middle of the shortest round trip. */
static int read_clock(struct lls_ucx_channel *u, const struct lls_ucx_options *o,
                      struct lls_error *err)
{
  int64_t shortest_ns = INT64_MAX;
  int rc = 0;
  for (int i = 0; i < ROUNDS && rc == 0; i++) {
    const struct lls_ucx_clock none = {0};
    int64_t began_ns = lls_ucx_now();
    u->has_clock = false;
    lls_ucx_send_first(u, u->joining, LLS_UCX_CLOCK, &none, sizeof none);
    rc = await(u, &u->has_clock, o, err);
    int64_t took_ns = lls_ucx_now() - began_ns;
    if (rc < 0 || took_ns >= shortest_ns)
      continue;
    shortest_ns = took_ns;
    u->base.clock_ahead_ns = u->clock.now_ns - (began_ns + took_ns / 2);
  }
  return rc;
}

static int say_hello(struct lls_ucx_channel *u, const struct lls_ucx_options *o,
                     struct lls_error *err)
{
  struct lls_ucx_hello h;
  char *data = malloc(sizeof h + u->address_bytes);
  if (data == NULL || u->address_bytes > MOST_ADDRESS) {
    free(data);
    return lls_fail(err, -ENOMEM, "an address of %zu bytes", u->address_bytes);
  }
  memset(&h, 0, sizeof h);
  h.magic = MAGIC;
  h.n = o->n;
  h.role = o->role;
  h.address_bytes = (uint32_t)u->address_bytes;
  h.identity = u->identity;
  for (uint32_t i = 0; i < o->n; i++)
    h.roles[i] = (uint8_t)o->roles[i];
  snprintf(h.version, sizeof h.version, "%s", PACKAGE_VERSION);
  snprintf(h.machine, sizeof h.machine, "%s", u->machine);
  snprintf(h.model, sizeof h.model, "%s", u->model);
  prove(u->secret, "join", u->clock.nonce, h.identity, h.proof);
  memcpy(data, &h, sizeof h);
  memcpy(data + sizeof h, u->address, u->address_bytes);
  lls_ucx_send_first(u, u->joining, LLS_UCX_HELLO, data, sizeof h + u->address_bytes);
  free(data);
  return await(u, &u->has_welcome, o, err);
}

/* Tries to join at one address. Returns -EPERM if this process is refused for good. */
static int join_at(struct lls_ucx_channel *u, const struct lls_ucx_options *o,
                   const struct addrinfo *where, struct lls_error *err)
{
  int rc = connect_to(u, where, err);
  if (rc == 0)
    rc = read_clock(u, o, err);
  if (rc == 0)
    rc = say_hello(u, o, err);
  if (rc == 0 && u->others[0].ep == NULL)
    rc = lls_fail(err, u->welcome.again ? -EAGAIN : -EPERM,
                  "the front end at %s does not let this process join: %s", u->trying,
                  u->welcome.why);
  if (rc == 0 && strcmp(u->welcome.machine, u->machine) == 0)
    u->base.clock_ahead_ns = 0;
  if (rc < 0 && u->others[0].ep != NULL)
    lls_ucx_leave_place(u, &u->others[0]); /* its connection is u->joining */
  else if (rc < 0)
    lls_ucx_close_ep(u, u->joining, true);
  u->joining = NULL;
  return rc;
}

/* Tries all addresses that a name has. */
static int try_name(struct lls_ucx_channel *u, const struct lls_ucx_options *o,
                    const char *name, struct lls_error *err)
{
  struct addrinfo *found = NULL;
  int rc = resolve(name, false, &found, err);
  if (rc < 0)
    return rc;
  snprintf(u->trying, sizeof u->trying, "%s", name);
  for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
    rc = join_at(u, o, a, err);
    if (rc == 0 || rc == -EPERM || rc == -ECANCELED)
      break;
  }
  freeaddrinfo(found);
  return rc;
}

/* Tries the front ends in their order: the next one if one is away, full, or refuses. */
static int try_all(struct lls_ucx_channel *u, const struct lls_ucx_options *o,
                   struct lls_error *err)
{
  char name[sizeof u->trying];
  bool all_refuse = true;
  int rc = lls_fail(err, -EINVAL, "'%s' is no HOST:PORT", o->join);
  for (const char *at = o->join; *(at += strspn(at, SEPARATORS)) != '\0';) {
    size_t n = strcspn(at, SEPARATORS);
    if (n >= sizeof name)
      return lls_fail(err, -EINVAL, "'%.*s' is no HOST:PORT", (int)n, at);
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    rc = try_name(u, o, name, err);
    if (rc == 0 || rc == -ECANCELED || rc == -EINVAL)
      return rc;
    all_refuse &= rc == -EPERM;
    at += n;
  }
  return rc == -EPERM && !all_refuse ? -EAGAIN : rc;
}

int lls_ucx_join(struct lls_ucx_channel *u, const struct lls_ucx_options *o,
                 struct lls_error *err)
{
  struct lls_error why = {0}, said = {0};
  u->base.self = LLS_NOBODY; /* no number yet */
  for (;;) {
    int rc = try_all(u, o, &why);
    if (rc == 0)
      return 0;
    if (rc == -EPERM || rc == -ECANCELED || rc == -EINVAL)
      return lls_fail(err, rc, "%s", why.text);
    if (strcmp(why.text, said.text) != 0)
      o->say(o->context, why.text);
    said = why;
    if (o->give_up != NULL && atomic_load(o->give_up))
      return lls_fail(err, -ECANCELED, "it is given up");
    nanosleep(&(struct timespec){.tv_nsec = AGAIN_NS}, NULL);
  }
}
