/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /admin/history: the traffic of the last minutes as lines of text, which
 * llmserve-whatif and `llmserve-sim --dataset-name decisions` read. A thread of the pool
 * writes it, because a full history is 10 MB.
 */
#include "core/record/history.h"

#include <stdlib.h>

#include "core/api/work.h"

struct telling {
  struct lls_work work;
  struct lls_text text;
};

static void run(struct lls_work *work)
{
  struct telling *telling = (struct telling *)work;
  lls_history_write(work->config.admin.history, &telling->text);
  lls_loop_write_steps(work->config.loop, &telling->text);
}

static void answer(struct lls_work *work, struct lls_http_exchange *exchange)
{
  const struct telling *telling = (const struct telling *)work;
  struct lls_api_error error;
  if (!telling->text.failed) {
    lls_http_reply(exchange, 200, "text/plain; charset=utf-8", telling->text.data,
                   telling->text.length);
    return;
  }
  lls_api_fail(&error, 503, "out_of_memory", NULL, "out of memory");
  lls_api_error_reply(exchange, &error);
}

static void destroy(struct lls_work *work)
{
  struct telling *telling = (struct telling *)work;
  lls_text_free(&telling->text);
  free(telling);
}

void lls_handle_admin_history(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_api_error error;
  struct telling *telling = NULL;
  if (api->config.admin.history == NULL)
    lls_api_fail(&error, 404, "not_found", NULL,
                 "no history of requests is kept: [server] history is 0");
  else if ((telling = calloc(1, sizeof *telling)) == NULL)
    lls_api_fail(&error, 503, "out_of_memory", NULL, "out of memory");
  if (telling == NULL) {
    lls_api_error_reply(exchange, &error);
    return;
  }
  telling->work = (struct lls_work){.run = run, .answer = answer, .destroy = destroy};
  lls_work_begin(api, exchange, &telling->work, true);
}
