/* SPDX-License-Identifier: Apache-2.0 */
/* See print.h. What a server doesn't tell is printed as "-". */
#include "tools/ctl/print.h"

#include <stdio.h>
#include <time.h>

static const char *const kinds[] = {"scheduler", "cache", "predictor"};

static const char *text_of(const json_t *object, const char *key)
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
  printf("generation  %lld, %lld reloads, %lld refused\n",
         (long long)number_of(status, "generation"),
         (long long)number_of(status, "reloads"),
         (long long)number_of(status, "reloads_refused"));
  if (json_is_object(last))
    printf("last reload %s %s: %s\n", format_time(number_of(last, "time"), when),
           json_is_true(json_object_get(last, "ok")) ? "worked" : "was refused",
           text_of(last, "message"));
}

void ctl_print_status(const json_t *status)
{
  char when[32];
  const json_t *requests = json_object_get(status, "requests");
  const json_t *cache = json_object_get(status, "cache");
  const json_t *plugins = json_object_get(status, "plugins");
  printf("llmserve    %s, %s, serving %s since %s\n", text_of(status, "version"),
         text_of(status, "state"), text_of(status, "model"),
         format_time(number_of(status, "started"), when));
  printf("config      %s\n", text_of(status, "config"));
  print_reload(status);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const json_t *plugin = json_object_get(plugins, kinds[i]);
    printf("%-11s %s %s\n", kinds[i], text_of(plugin, "name"),
           text_of(plugin, "version"));
  }
  if (json_is_string(json_object_get(status, "scheduler_fallback")))
    printf("            switched off: %s\n", text_of(status, "scheduler_fallback"));
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

void ctl_print_plugins(const json_t *status)
{
  const json_t *plugins = json_object_get(status, "plugins");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const json_t *plugin = json_object_get(plugins, kinds[i]);
    const char *key;
    json_t *value;
    printf("%s %s %s: %s\n  %s\n", kinds[i], text_of(plugin, "name"),
           text_of(plugin, "version"), text_of(plugin, "description"),
           text_of(plugin, "path"));
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
  printf("%-9s %3lld  %7lld %7lld %9lld %11lld ", text_of(status, "state"),
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
