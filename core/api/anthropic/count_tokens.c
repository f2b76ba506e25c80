/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/messages/count_tokens: the tokens of the prompt that a request would have,
 * also of one that is too long for the context. */
#include <stdlib.h>
#include <string.h>

#include "core/api/anthropic/messages.h"
#include "core/api/chat.h"
#include "core/api/plain_text.h"
#include "core/api/work.h"
#include "core/base/json_memory.h"

struct counting {
  struct lls_work work;
  struct lls_unknown_names unknown;
  size_t count;
  struct lls_api_error error; /* status 0: the count is valid */
};

static int count_text(struct counting *c, const char *text, size_t length,
                      bool add_special)
{
  int32_t *ids = NULL;
  struct lls_error why = {0};
  if (length > LLS_MAX_TEXT)
    return lls_api_fail(&c->error, 413, NULL, NULL,
                        "the prompt has %zu bytes; at most %d are tokenised at once",
                        length, LLS_MAX_TEXT);
  int rc = lls_plain_encode(c->work.config.tokenizer, text, length, add_special, &ids,
                            &c->count, &why);
  free(ids);
  if (rc == 0)
    return 0;
  return lls_api_fail(&c->error, 500, NULL, NULL, "the prompt can't be tokenised: %s",
                      lls_error_text(&why, rc));
}

static int count_chat(struct counting *c, const json_t *chat)
{
  const struct lls_api_config *config = &c->work.config;
  struct lls_api_params params;
  char *text;
  size_t length;
  if (lls_api_read_params(config, chat, LLS_CHAT, &c->unknown, &params, &c->error) != 0)
    return -1;
  int status = lls_chat_render(config, chat, &params, &text, &length, &c->error);
  bool add_special = params.add_special_tokens;
  lls_api_params_free(&params);
  if (status != 0)
    return -1;
  status = count_text(c, text, length, add_special);
  free(text);
  return status;
}

static void run(struct lls_work *work)
{
  struct counting *c = (struct counting *)work;
  uint64_t shortages = lls_json_shortages();
  json_t *body = lls_api_body(&work->body, &c->error);
  json_t *chat =
      body != NULL ? lls_messages_as_chat(body, true, &c->unknown, &c->error) : NULL;
  int status = chat != NULL ? count_chat(c, chat) : -1;
  json_decref(chat);
  json_decref(body);
  if (lls_json_shortages() != shortages)
    lls_api_fail(&c->error, 503, NULL, NULL, "out of memory");
  else if (status == 0)
    c->error.status = 0;
}

static void answer(struct lls_work *work, struct lls_http_exchange *exchange)
{
  struct counting *c = (struct counting *)work;
  lls_api_note_unknown(work->api, exchange, &c->unknown);
  if (c->error.status != 0)
    lls_api_error_reply(exchange, &c->error);
  else
    lls_api_reply_json(exchange, 200,
                       json_pack("{s:I}", "input_tokens", (json_int_t)c->count));
}

static void destroy(struct lls_work *work)
{
  struct counting *c = (struct counting *)work;
  lls_unknown_free(&c->unknown);
  free(c);
}

void lls_handle_count_tokens(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct counting *c = calloc(1, sizeof *c);
  LLS_API_ON_MAIN(api);
  if (c == NULL) {
    struct lls_api_error error;
    lls_api_fail(&error, 503, NULL, NULL, "out of memory");
    lls_api_error_reply(exchange, &error);
    return;
  }
  c->work = (struct lls_work){.run = run, .answer = answer, .destroy = destroy};
  lls_work_begin(api, exchange, &c->work,
                 exchange->request.body.length >= LLS_WORK_LARGE);
}
