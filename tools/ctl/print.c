/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a status; see print.h. Values that a server does not send are printed as
 * "-". */
#include "tools/ctl/print.h"

#include <stdio.h>
#include <time.h>

const char *const ctl_kinds[CTL_KINDS] = {"scheduler", "cache", "predictor", "drafter"};

const char *ctl_text(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text != NULL ? text : "-";
}

static json_int_t number_of(const json_t *object, const char *key)
{
  return json_integer_value(json_object_get(object, key));
}

static const char *format_time(json_int_t unix_s, char out[32])
{
  time_t time = (time_t)unix_s;
  struct tm local;
  localtime_r(&time, &local);
  strftime(out, 32, "%Y-%m-%d %H:%M:%S", &local);
  return out;
}

static void print_reload(const json_t *status)
{
  char when[32];
  const json_t *last = json_object_get(status, "last_reload");
  json_int_t reloads = number_of(status, "reloads");
  printf("generation  %lld, %lld reload%s, %lld refused\n",
         (long long)number_of(status, "generation"), (long long)reloads,
         reloads == 1 ? "" : "s", (long long)number_of(status, "reloads_refused"));
  if (json_is_object(last))
    printf("last reload %s %s: %s\n", format_time(number_of(last, "time"), when),
           json_is_true(json_object_get(last, "ok")) ? "worked" : "was refused",
           ctl_text(last, "message"));
}

/* Prints the status of a server of several models. */
static void print_models(const json_t *status)
{
  char when[32];
  const char *name;
  json_t *model;
  printf("llmserve    %s, %s, since %s\nconfig      %s\n", ctl_text(status, "version"),
         ctl_text(status, "state"), format_time(number_of(status, "started"), when),
         ctl_text(status, "config"));
  json_object_foreach(json_object_get(status, "models"), name, model)
  {
    printf("%-11s %s%s%s, %lld requests, %lld MiB\n", name, ctl_text(model, "value"),
           json_is_true(json_object_get(model, "pinned")) ? ", pinned" : "",
           json_is_true(json_object_get(model, "failed")) ? ", failed" : "",
           (long long)number_of(model, "requests"),
           (long long)number_of(model, "memory_bytes") >> 20);
  }
}

void ctl_print_status(const json_t *status)
{
  if (json_object_get(status, "models") != NULL) {
    print_models(status);
    return;
  }
  char when[32];
  const json_t *requests = json_object_get(status, "requests");
  const json_t *cache = json_object_get(status, "cache");
  const json_t *plugins = json_object_get(status, "plugins");
  printf("llmserve    %s, %s, serving %s since %s\n", ctl_text(status, "version"),
         ctl_text(status, "state"), ctl_text(status, "model"),
         format_time(number_of(status, "started"), when));
  printf("config      %s\n", ctl_text(status, "config"));
  print_reload(status);
  for (size_t i = 0; i < CTL_KINDS; i++) {
    const json_t *plugin = json_object_get(plugins, ctl_kinds[i]);
    printf("%-11s %s %s\n", ctl_kinds[i], ctl_text(plugin, "name"),
           ctl_text(plugin, "version"));
  }
  if (json_is_string(json_object_get(status, "scheduler_fallback")))
    printf("            switched off: %s\n", ctl_text(status, "scheduler_fallback"));
  printf("requests    %lld running, %lld waiting, %lld preempted\n",
         (long long)number_of(requests, "running"),
         (long long)number_of(requests, "waiting"),
         (long long)number_of(requests, "preempted"));
  printf("cache       %lld of %lld units free, on the host %lld of %lld\n",
         (long long)number_of(cache, "device_units_free"),
         (long long)number_of(cache, "device_units"),
         (long long)number_of(cache, "host_units_free"),
         (long long)number_of(cache, "host_units"));
}

/* Removes control characters: texts of clients and plugins must not control the
 * terminal. */
static void print_line(const char *text)
{
  for (; *text != '\0'; text++)
    putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
  putchar('\n');
}

static void print_request(const json_t *r)
{
  const json_t *predicted = json_object_get(r, "predicted_tokens");
  printf("  %10lld %-9s %-11s %7lld %7lld %7lld ", (long long)number_of(r, "id"),
         ctl_text(r, "state"), ctl_text(r, "class"),
         (long long)number_of(r, "prompt_tokens"),
         (long long)number_of(r, "generated_tokens"),
         (long long)number_of(r, "cached_tokens"));
  if (json_is_integer(predicted))
    printf("%9lld", (long long)json_integer_value(predicted));
  else
    printf("%9s", "-");
  printf(" %8.1f  ", json_number_value(json_object_get(r, "seconds")));
  print_line(ctl_text(r, "label"));
}

static void print_left_out(const json_t *instance, const char *key, const char *what)
{
  if (number_of(instance, key) > 0)
    printf("  ... and %lld more %s\n", (long long)number_of(instance, key), what);
}

void ctl_print_queues(const json_t *queues)
{
  size_t i, k;
  const json_t *instance, *item;
  json_array_foreach(json_object_get(queues, "instances"), i, instance)
  {
    printf("instance %zu, %s: %s%s\n", i, ctl_text(instance, "role"),
           ctl_text(instance, "scheduler"),
           json_is_true(json_object_get(instance, "switched_off")) ? ", switched off"
                                                                   : "");
    printf("          id state     class        prompt  answer  cached predicted  "
           "seconds  request\n");
    json_array_foreach(json_object_get(instance, "requests"), k, item)
        print_request(item);
    print_left_out(instance, "requests_left_out", "requests");
    printf("  the scheduler's own words:\n");
    json_array_foreach(json_object_get(instance, "lines"), k, item)
    {
      printf("  ");
      print_line(json_string_value(item));
    }
    print_left_out(instance, "lines_left_out", "lines");
  }
}

void ctl_print_plugins(const json_t *status)
{
  const json_t *plugins = json_object_get(status, "plugins");
  for (size_t i = 0; i < CTL_KINDS; i++) {
    const json_t *plugin = json_object_get(plugins, ctl_kinds[i]);
    const char *key;
    json_t *value;
    printf("%s %s %s: %s\n  %s\n", ctl_kinds[i], ctl_text(plugin, "name"),
           ctl_text(plugin, "version"), ctl_text(plugin, "description"),
           ctl_text(plugin, "path"));
    json_object_foreach(json_object_get(plugin, "parameters"), key, value)
        printf("  %s = %s\n", key, json_string_value(value));
  }
}

void ctl_print_watch(const json_t *status, const json_t *before, double seconds,
                     int heading)
{
  const json_t *requests = json_object_get(status, "requests");
  const json_t *cache = json_object_get(status, "cache");
  json_int_t steps = number_of(status, "steps") - number_of(before, "steps");
  if (heading)
    printf("state     gen  running waiting preempted  units free    steps/s\n");
  printf("%-9s %3lld  %7lld %7lld %9lld %11lld ", ctl_text(status, "state"),
         (long long)number_of(status, "generation"),
         (long long)number_of(requests, "running"),
         (long long)number_of(requests, "waiting"),
         (long long)number_of(requests, "preempted"),
         (long long)number_of(cache, "device_units_free"));
  if (before != NULL)
    printf("%10.1f\n", (double)steps / seconds);
  else
    printf("%10s\n", "-");
  fflush(stdout);
}
