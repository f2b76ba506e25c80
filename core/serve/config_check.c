/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what would keep a server from starting, without starting it: the model is put
 * together on the simulated device, which takes shapes and sizes but no values, so that
 * weights are found and measured but not read. Scheduler and cache manager are created
 * on it and check whether they can work with it and each other. The predictor is not
 * created, because it may open files that a running server uses.
 */
#include <errno.h>
#include <stdio.h>

#include "core/assembly/options.h"
#include "core/base/text.h"
#include "core/serve/serve.h"
#include "core/serve/daemon.h"

static void print_warning(void *context, const char *text)
{
  (void)context;
  fprintf(stderr, "warning: %s\n", text);
}

/* ---- single checks; each returns 0 or a negative errno ---------------------------- */

static int check_model(struct server *s, struct lls_error *err)
{
  const char *path = s->config->model.path;
  int rc = lls_model_config_read_for(path, (enum lls_model_task)s->config->model.task,
                                     &s->model, err);
  if (rc == 0)
    rc = lls_model_tokenizer(path, &s->tokenizer, err);
  return rc < 0 ? lls_config_fail(s->config, err, rc, "model", "path", "%s",
                                  lls_error_text(err, rc))
                : server_read_pooling(s->config, &s->model, &s->pooling, err);
}

/* A chat template that cannot be used is only a warning: the server refuses chat
 * requests. */
static int check_template(struct server *s, struct lls_error *err)
{
  int rc = server_load_template(s, err);
  if (rc < 0)
    return rc;
  const char *problem = lls_chat_template_problem(s->chat_template);
  const char *warning = lls_chat_template_warning(s->chat_template);
  if (!s->model.encoder && (problem != NULL || warning != NULL))
    fprintf(stderr, "warning: %s: chat requests%s will be refused\n",
            problem != NULL ? problem : warning,
            problem != NULL ? "" : " that reach this");
  return 0;
}

static int check_places(struct server *s, struct lls_error *err)
{
  return server_check_places(s->config, err);
}

static int check_keys(struct server *s, struct lls_error *err)
{
  return server_load_keys(s->config, &s->wanted_keys, err);
}

static int check_tls(struct server *s, struct lls_error *err)
{
  struct lls_tls *tls;
  int rc = server_load_tls(s->config, &tls, print_warning, NULL, err);
  lls_tls_destroy(tls);
  return rc;
}

/* Checks the real device as a start would. Memory in use now is not a reason to fail,
 * since a server with this configuration may be running. */
static int check_device(struct server *s, struct lls_error *err)
{
  struct lls_device_options options = lls_device_options_of(s->config, &s->model);
  enum lls_device_choice choice = lls_device_choice_of(s->config, &s->model);
  bool cuda = choice == LLS_DEVICE_CUDA;
  struct lls_error why_not;
  struct lls_device *device;
  options.index = s->instances.gpu[0];
  int rc = lls_device_create(choice, s->builtin, &options, &device, &why_not, err);
  if (rc == -ENOMEM)
    return 0;
  if (rc < 0)
    return lls_config_fail(s->config, err, rc, "engine", cuda ? "device" : "isa", "%s",
                           lls_error_text(err, rc));
  rc = server_check_memory(s, s->config, device, err);
  device->ops->destroy(device);
  return rc;
}

static int check_ranks(struct server *s, struct lls_error *err)
{
  int64_t wanted = s->config->engine.tensor_parallel_size;
  return wanted != LLS_NEVER ? server_check_ranks(s, (uint32_t)wanted, err) : 0;
}

static int check_engine(struct server *s, struct lls_error *err)
{
  struct lls_engine_options options = lls_engine_options_of(s->config, &s->model);
  int rc = s->builtin->empty->create(NULL, &s->devices[0], err);
  if (rc == 0)
    rc = lls_engine_create(&options, &s->model, s->devices[0], &s->engines[0], err);
  return rc < 0 ? lls_config_fail(s->config, err, rc, "model", "path", "%s",
                                  lls_error_text(err, rc))
                : 0;
}

/* ---- policies ---------------------------------------------------------------------- */

static int create_stand_in(const struct lls_host *host, const void *params, void **self)
{
  (void)host;
  (void)params;
  *self = NULL;
  return 0;
}

static void destroy_stand_in(void *self)
{
  (void)self;
}

/* True, because whether the real predictor predicts is checked elsewhere (server_warn).
 */
static uint32_t flags_of_stand_in(void *self)
{
  (void)self;
  return LLS_PREDICTOR_PREDICTS;
}

/* Stands for a drafter, which is not created: it guesses nothing. */
static uint32_t no_flags(void *self)
{
  (void)self;
  return 0;
}

static const struct lls_plugin drafter_stand_in = {
    .kind = LLS_KIND_DRAFTER, .id = "stand-in", .version = ""};
static const struct lls_plugin_module drafter_stand_in_module = {
    .descriptor = &drafter_stand_in,
    .drafter = {
        .create = create_stand_in, .destroy = destroy_stand_in, .flags = no_flags}};

/* Stands for the predictor, which is not created. */
static const struct lls_plugin stand_in = {
    .kind = LLS_KIND_PREDICTOR, .id = "stand-in", .version = ""};
static const struct lls_plugin_module stand_in_module = {
    .descriptor = &stand_in,
    .predictor = {.create = create_stand_in,
                  .destroy = destroy_stand_in,
                  .flags = flags_of_stand_in},
};

/* Creates the policies. All instances share the one engine of the check, since no step
 * runs. */
static int check_policies(struct server *s, struct lls_error *err)
{
  struct lls_loop_options options = lls_loop_options_of(s->config, &s->model);
  options.builtin = s->builtin;
  struct lls_loop_instance instances[LLS_MAX_INSTANCES];
  struct lls_log silent = {.fd = 2, .level = LLS_LOG_ERROR};
  struct lls_loop *loop;
  if (s->engines[0] == NULL) /* the engine's failure was reported before */
    return 0;
  for (uint32_t i = 0; i < s->instances.n; i++)
    instances[i] =
        (struct lls_loop_instance){.engine = s->engines[0], .role = s->instances.role[i]};
  options.instances = instances;
  options.n_instances = s->instances.n;
  options.policies.predictor = (struct lls_loop_policy){.module = &stand_in_module};
  options.policies.drafter = (struct lls_loop_policy){.module = &drafter_stand_in_module};
  options.log = &silent;
  options.manual = true;
  options.trial = true;
  int rc = lls_loop_create(&options, &loop, err);
  if (rc == 0)
    lls_loop_destroy(loop);
  return rc;
}

/* ---- all of them ------------------------------------------------------------------- */

/* Prints how much of the cache a sequence takes. */
static void print_cache(const struct server *s)
{
  const struct lls_engine *e = s->engines[0];
  struct lls_text text = {0};
  lls_engine_describe_cache(e, lls_engine_caps(e)->max_context, &text);
  if (!text.failed)
    printf("cache: %s\n", text.data);
  lls_text_free(&text);
}

static void print(void *context, const char *text)
{
  fprintf(context, "%s\n", text);
}

int lls_serve_check(struct lls_config *config, const struct lls_devices *builtin)
{
  static int (*const of_model[])(struct server *, struct lls_error *) = {
      check_template, server_read_draft_model, check_ranks, check_device,
      check_engine,   check_policies};
  struct server s = {.config = config, .builtin = builtin};
  struct lls_error err = {0};
  const char *key;
  bool good = lls_instances_read(&config->engine, &s.instances, &key, &err) == 0;
  bool model = check_model(&s, &err) == 0;
  if (!model)
    print(stderr, err.text);
  if (check_places(&s, &err) < 0)
    good = (print(stderr, err.text), false);
  if (check_keys(&s, &err) < 0)
    good = (print(stderr, err.text), false);
  if (check_tls(&s, &err) < 0)
    good = (print(stderr, err.text), false);
  for (size_t i = 0; model && i < sizeof of_model / sizeof of_model[0]; i++) {
    int rc = of_model[i](&s, &err);
    if (rc < 0)
      good = (print(stderr, err.text), false);
    /* policies would ask for tables of a cache that cannot be created */
    if (rc == -ENOMEM)
      break;
  }
  if (model && good && s.engines[0] != NULL && !s.model.encoder)
    print_cache(&s);
  if (s.engines[0] != NULL)
    server_warn(config, &s.model, s.engines[0], print, stderr);
  server_destroy_parts(&s);
  return model && good ? 0 : -1;
}
