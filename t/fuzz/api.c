/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the whole front end, over loopback: a client sends the input in pieces and
 * disconnects. The answers must be HTTP with bodies of JSON or events of JSON, and
 * nothing of the client may remain. The fake step loop of t/api is behind the front
 * end.
 *
 * The first byte: the size of the pieces (63), whether the client leaves before it is
 * answered (64), and what the rest is: the bytes of the connection (128), or requests
 * with a 0 between two, each a byte that picks its path and a body, for which the harness
 * writes the head, since a mutation would hardly ever keep Content-Length right.
 */
#include <errno.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "core/api/api_internal.h"
#include "core/http/connection.h"
#include "text/template/template.h"
#include "t/api/fake_loop.h"
#include "t/fuzz/fuzz.h"

#define MAX_TURNS 4000 /* most turns of the loop */
/* between two turns, for a timer of the fake loop, which emits tokens every ms */
#define PAUSE_US  100
#define MAX_BYTES (1 << 18)

struct rig {
  uv_loop_t uv;
  struct lls_log log;
  struct lls_api *api;
  struct sockaddr_in address;
};

struct client {
  int fd;
  char sent[MAX_BYTES];
  size_t n_sent;
  bool ended; /* the server has closed */
  struct lls_text got;
};

/* ---- the server ------------------------------------------------------------------- */

static void wake(void *context)
{
  lls_api_on_wake(*(struct lls_api **)context);
}

static void load(struct lls_tokenizer **tokenizer,
                 struct lls_chat_template **chat_template)
{
  static const char source[] =
      "{% for m in messages %}{% if loop.first and m.role == 'system' %}<<{{ m.content | "
      "trim }}>>{% else %}{{ '[' + m['role'] + ']' + m.content }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}{{ note | default('>') }}{% endif %}";
  assert(lls_tokenizer_load(fuzz_source("t/data/models/stories260K"), tokenizer, NULL) ==
         0);
  assert(lls_chat_template_compile(source, "<s>", "</s>", chat_template, NULL) == 0);
}

static void create(struct rig *rig)
{
  struct lls_tokenizer *tokenizer;
  struct lls_chat_template *chat_template;
  load(&tokenizer, &chat_template);
  const struct fake_options fake = {
      .uv = &rig->uv,
      .burst = 8,
      .max_requests = 20,
      .vocab = 512,
      .max_context = 64,
      .bos = 1,
      .eos = 2,
      .wake = wake,
      .wake_context = &rig->api,
  };
  struct lls_api_config config = {
      .uv = &rig->uv,
      .loop = fake_loop_create(&fake),
      .tokenizer = tokenizer,
      .chat_template = chat_template,
      .model_name = "m",
      .max_context = fake.max_context,
      .vocab = fake.vocab,
      .block_tokens = 16,
      .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
      .pooling = {.pooling = LLS_POOLING_LAST,
                  .matryoshka = true,
                  .n_dimensions = 1,
                  .dimensions = {2}},
      .vector_columns = FAKE_COLUMNS,
      .limits = LLS_API_DEFAULT_LIMITS,
      .log = &rig->log,
  };
  config.limits.http.max_header = 4096;
  assert(lls_api_create(&config, &rig->api, NULL) == 0);
  assert(lls_api_listen(rig->api, "127.0.0.1:0", NULL) == 0);
}

static struct rig *the_rig(void)
{
  static struct rig rig;
  if (rig.api != NULL)
    return &rig;
  uv_loop_init(&rig.uv);
  rig.log = (struct lls_log){.fd = open("/dev/null", O_WRONLY), .level = LLS_LOG_INFO};
  create(&rig);
  const char *port = strrchr(lls_http_server_address(rig.api->http), ':') + 1;
  rig.address = (struct sockaddr_in){.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)atoi(port)),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  return &rig;
}

/* ---- what is sent ----------------------------------------------------------------- */

static void add_request(struct client *client, const uint8_t *data, size_t size)
{
  static const char *const paths[] = {
      "POST /v1/completions",
      "POST /v1/completions",
      "POST /v1/chat/completions",
      "POST /v1/chat/completions",
      "POST /tokenize",
      "POST /detokenize",
      "GET /v1/models/m",
      "GET /metrics",
      "POST /v1/embeddings",
      "POST /v1/embeddings",
      "POST /v1/rerank",
      "POST /v1/score",
      "POST /v1/responses",
      "POST /v1/responses",
      "POST /v1/responses",
      "POST /responses",
      "POST /v1/messages",
      "POST /v1/messages/count_tokens",
  };
  if (size == 0 || client->n_sent + size + 256 > MAX_BYTES)
    return;
  unsigned which =
      (data[0] & 128) != 0 ? 16 + (data[0] & 1u) : (data[0] & 7u) + (data[0] >> 1 & 8u);
  const char *path = paths[which];
  const char *headers = (data[0] & 8) != 0 ? "x-slo-ttft-ms: 5\r\n" : "";
  client->n_sent += (size_t)sprintf(client->sent + client->n_sent,
                                    "%s HTTP/1.%d\r\nHost: x\r\n%sContent-Length: "
                                    "%zu\r\n\r\n",
                                    path, data[0] < 0xf0, headers, size - 1);
  memcpy(client->sent + client->n_sent, data + 1, size - 1);
  client->n_sent += size - 1;
}

static void compose(struct client *client, const uint8_t *data, size_t size)
{
  client->n_sent = 0;
  while (size > 0) {
    const uint8_t *zero = memchr(data + 1, 0, size - 1);
    size_t length = zero != NULL ? (size_t)(zero - data) : size;
    add_request(client, data, length);
    size -= zero != NULL ? length + 1 : length;
    data += zero != NULL ? length + 1 : length;
  }
}

/* ---- what comes back -------------------------------------------------------------- */

static void check_json(const char *text, size_t length)
{
  json_t *json = json_loadb(text, length, JSON_ALLOW_NUL, NULL);
  assert(json_is_object(json));
  json_decref(json);
}

static void check_event(const char *text, size_t length)
{
  if (length > 0 && text[0] == ':')
    return;
  if (length > 7 && memcmp(text, "event: ", 7) == 0) {
    const char *data = memchr(text, '\n', length);
    assert(data != NULL);
    length -= (size_t)(data + 1 - text);
    text = data + 1;
  }
  assert(length > 6 && memcmp(text, "data: ", 6) == 0);
  if (length != 12 || memcmp(text + 6, "[DONE]", 6) != 0)
    check_json(text + 6, length - 6);
}

/* Checks a complete body. */
static void check_body(const struct lls_text *body)
{
  const char *text = body->length > 0 ? body->data : "", *end = text + body->length;
  if (body->length > 0 && text[0] == '{')
    check_json(text, body->length);
  else if (body->length == 0 || text[0] == '#') /* /metrics */
    return;
  else
    while (text < end) {
      const char *blank = memmem(text, (size_t)(end - text), "\n\n", 2);
      assert(blank != NULL);
      check_event(text, (size_t)(blank - text));
      text = blank + 2;
    }
}

static int on_body(llhttp_t *llhttp, const char *at, size_t length)
{
  lls_text_append(llhttp->data, at, length);
  return 0;
}

static int on_complete(llhttp_t *llhttp)
{
  struct lls_text *body = llhttp->data;
  if (llhttp->status_code != 100)
    check_body(body);
  lls_text_free(body);
  return 0;
}

static void check_answers(const struct client *client)
{
  static const llhttp_settings_t callbacks = {.on_body = on_body,
                                              .on_message_complete = on_complete};
  struct lls_text body = {0};
  llhttp_t llhttp;
  /* answers to HEAD have no body, which llhttp cannot know */
  if (client->got.length == 0 || memmem(client->sent, client->n_sent, "HEAD", 4) != NULL)
    return;
  llhttp_init(&llhttp, HTTP_RESPONSE, &callbacks);
  llhttp.data = &body;
  llhttp_errno_t error = llhttp_execute(&llhttp, client->got.data, client->got.length);
  if (error == HPE_OK && client->ended)
    llhttp_finish(&llhttp);
  assert(error == HPE_OK || error == HPE_CLOSED_CONNECTION);
  lls_text_free(&body);
}

/* ---- a connection ----------------------------------------------------------------- */

static void receive(struct client *client)
{
  char piece[16384];
  ssize_t n;
  while ((n = recv(client->fd, piece, sizeof piece, MSG_DONTWAIT)) > 0)
    lls_text_append(&client->got, piece, (size_t)n);
  client->ended = client->ended || n == 0;
}

static uint32_t busy(const struct rig *rig)
{
  return lls_http_server_counters(rig->api->http)->busy;
}

/* Turns the loop until the server has nothing more to do. */
static void turn(struct rig *rig, struct client *client)
{
  unsigned idle = 0;
  for (unsigned i = 0; i < MAX_TURNS / 10 && idle < 3 && !client->ended; i++) {
    uv_run(&rig->uv, UV_RUN_NOWAIT);
    receive(client);
    idle = busy(rig) > 0 ? 0 : idle + 1;
    if (idle == 0)
      usleep(PAUSE_US);
  }
}

static void send_all(struct rig *rig, struct client *client, size_t piece)
{
  for (size_t at = 0, n; at < client->n_sent && !client->ended; at += n) {
    n = client->n_sent - at < piece ? client->n_sent - at : piece;
    if (send(client->fd, client->sent + at, n, MSG_NOSIGNAL) != (ssize_t)n)
      break;
    uv_run(&rig->uv, UV_RUN_NOWAIT);
  }
}

/* Resets the connection, so that no port is kept for its last packets. */
static void leave(struct rig *rig, struct client *client)
{
  const struct linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(client->fd);
  for (unsigned i = 0; i < MAX_TURNS; i++) {
    if (lls_api_idle(rig->api) && lls_http_server_counters(rig->api->http)->open == 0)
      return;
    uv_run(&rig->uv, UV_RUN_NOWAIT);
    if (i > 2)
      usleep(PAUSE_US);
  }
  assert(!"something is left of a client that is gone");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct client client;
  struct rig *rig = the_rig();
  /* after "break-" the fake engine would answer 503 forever */
  if (size < 2 || size > MAX_BYTES / 2 || memmem(data, size, "break-", 6) != NULL)
    return 0;
  if (data[0] >= 128) {
    client.n_sent = size - 1;
    memcpy(client.sent, data + 1, size - 1);
  } else {
    compose(&client, data + 1, size - 1);
  }
  client.ended = false;
  const int now = 1; /* no piece waits for others */
  client.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  setsockopt(client.fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
  if (connect(client.fd, (struct sockaddr *)&rig->address, sizeof rig->address) != 0) {
    /* libFuzzer's alarm, or other processes use all ports */
    assert(errno == EINTR || errno == EADDRNOTAVAIL);
    close(client.fd);
    return 0;
  }
  send_all(rig, &client, 1 + (data[0] & 63) * 64u);
  if ((data[0] & 64) == 0)
    turn(rig, &client);
  check_answers(&client);
  lls_text_free(&client.got);
  leave(rig, &client);
  return 0;
}
