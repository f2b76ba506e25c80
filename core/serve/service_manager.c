/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the service manager: ready, reloading, stopping (systemd's Type=notify
 * and Type=notify-reload), and, if it requests that, the watchdog's keep-alive. The
 * main thread sends it while steps complete or no request is running, so it stops if a
 * plugin or a device hangs.
 */
#include <time.h>

#include "core/obs/notify.h"
#include "core/serve/daemon.h"

/* True if an instance has requests but completed no step since the last check. */
static bool hangs(struct server *s, uint32_t instance)
{
  struct lls_loop_status status;
  uint32_t role;
  lls_loop_instance_status(s->loop, instance, &role, &status);
  bool alive = s->instances.n == 1
                   ? !lls_loop_idle(s->loop)
                   : status.waiting + status.running + status.preempted > 0;
  bool stands = status.steps == s->steps_seen[instance];
  s->steps_seen[instance] = status.steps;
  if (stands && alive)
    lls_log(&s->log, LLS_LOG_WARNING, "server",
            "no step has ended since the last look, after step %llu",
            (unsigned long long)status.steps);
  return stands && alive;
}

static void on_watchdog(uv_timer_t *timer)
{
  struct server *s = timer->data;
  bool well = !lls_loop_hangs(s->loop, NULL);
  for (uint32_t i = 0; i < s->instances.n; i++)
    well = !hangs(s, i) && well;
  if (well)
    lls_notify("WATCHDOG=1");
}

static void start_watchdog(struct server *s)
{
  uint64_t every_ms = (uint64_t)lls_notify_watchdog_ns() / 1000000 / 2;
  if (every_ms > 0)
    uv_timer_start(&s->watchdog, on_watchdog, every_ms, every_ms);
}

static void tell_generation(const struct server *s)
{
  const struct lls_admin_state *a = &s->admin;
  char urls[LLS_ERROR_MAX];
  lls_http_server_urls(s->http, urls, sizeof urls);
  lls_notify("READY=1\nSTATUS=%s %s, generation %llu%s%s",
             s->config->server.served_model_name, urls, (unsigned long long)a->generation,
             a->reloads_begun > 0 && !a->reload_good ? "; last reload refused: " : "",
             a->reloads_begun > 0 && !a->reload_good ? a->reload_message : "");
}

void server_ready(struct server *s)
{
  char urls[LLS_ERROR_MAX];
  lls_http_server_urls(s->http, urls, sizeof urls);
  lls_log(&s->log, LLS_LOG_INFO, "server", "listening on %s", urls);
  tell_generation(s);
  start_watchdog(s);
  server_look(s);
}

void server_reloading(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  lls_notify("RELOADING=1\nMONOTONIC_USEC=%lld",
             (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

void server_reload_over(struct server *s)
{
  if (!s->stopping)
    tell_generation(s);
}

void server_stopping(void)
{
  lls_notify("STOPPING=1\nSTATUS=finishing what runs");
}
