/* SPDX-License-Identifier: Apache-2.0 */
/* See store_front.h. */
#include "core/api/store/store_front.h"

#include <errno.h>
#include <stdlib.h>

#include "core/api/store/batch_runner.h"

/* [store] */
static void wake(void *context)
{
  struct lls_store_front *front = context;
  uv_async_send(&front->wake);
}

static void on_wake(uv_async_t *handle)
{
  struct lls_store_front *front = handle->data;
  LLS_API_ON_MAIN(front->api);
  if (front->store == NULL)
    return;
  lls_store_deliver(front->store);
  lls_runner_feed(front->runner);
}

static void free_front(uv_handle_t *handle)
{
  struct lls_store_front *front = handle->data;
  lls_runner_free(front->runner);
  free(front);
}

int lls_store_front_open(struct lls_api *api, const char *folder, struct lls_error *err)
{
  struct lls_store_front *front = calloc(1, sizeof *front);
  /* a line that names an adapter is checked when it runs: adapters come and go */
  bool any_model =
      api->config.limits.any_model == LLS_ANY_MODEL_TRUE || api->config.adapters != NULL;
  const struct lls_store_options options = {
      .folder = folder,
      .database = api->config.state_database,
      .files = api->config.state_files,
      .model_name = any_model ? NULL : api->model_name,
      .served_model = api->model_name,
      .replica = api->config.replica,
      .max_line = (size_t)api->config.limits.http.max_body,
      .log = api->config.log,
      .wake = wake,
      .wake_context = front,
  };
  LLS_API_ON_MAIN(api);
  if (front == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  front->api = api;
  front->wake.data = front;
  front->runner = lls_runner_create(front);
  int status = front->runner != NULL
                   ? uv_async_init(api->config.uv, &front->wake, on_wake)
                   : -ENOMEM;
  if (status != 0) {
    lls_runner_free(front->runner);
    free(front);
    return lls_fail(err, status, "out of memory");
  }
  status = lls_store_open(&options, &front->store, err);
  if (status == 0) {
    api->front = front;
    return 0;
  }
  uv_close((uv_handle_t *)&front->wake, free_front);
  return lls_fail_at(err, status, "[server] state");
}

void lls_store_front_feed(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  if (api->front != NULL && api->front->store != NULL)
    lls_runner_feed(api->front->runner);
}

void lls_store_front_tick(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  if (api->front != NULL && api->front->store != NULL)
    lls_runner_tick(api->front->runner);
}

void lls_store_front_drain(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  if (api->front != NULL)
    lls_runner_drain(api->front->runner);
}

bool lls_store_front_count(const struct lls_api *api, struct lls_store_counts *out)
{
  LLS_API_ON_MAIN(api);
  if (api->front == NULL || api->front->store == NULL)
    return false;
  lls_store_count(api->front->store, out);
  return true;
}

void lls_store_errand(struct lls_api *api, struct lls_store_job *job)
{
  LLS_API_ON_MAIN(api);
  api->n_errands++;
  lls_store_post(api->front->store, job);
}

void lls_store_errand_over(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  LLS_CHECK(api->n_errands > 0);
  api->n_errands--;
  lls_api_check_idle(api);
}

static void on_closed(uv_handle_t *handle)
{
  struct lls_store_front *front = handle->data;
  front->closed(front->api);
}

void lls_store_front_close(struct lls_api *api, void (*closed)(struct lls_api *api))
{
  struct lls_store_front *front = api->front;
  LLS_API_ON_MAIN(api);
  if (front == NULL) {
    closed(api);
    return;
  }
  struct lls_store *store = front->store;
  front->store = NULL;
  front->closed = closed;
  lls_store_close(store);
  uv_close((uv_handle_t *)&front->wake, on_closed);
}

void lls_store_front_free(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  if (api->front != NULL)
    free_front((uv_handle_t *)&api->front->wake);
  api->front = NULL;
}
