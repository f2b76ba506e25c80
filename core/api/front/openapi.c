/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /openapi.json: the API as OpenAPI 3.1, made of the tables that route and read
 * requests: the routes, each dialect's members, the rows of parameters, and the shape of
 * its errors. It does not depend on the model or on a request, so it is made once.
 * t/api/openapi.t sends each field.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/api/front/openapi_bodies.h"
#include "core/base/json_memory.h"

#define JSON_TYPE "application/json"
#define MOST_PATH 160

/* ---- schemas ----------------------------------------------------------------------- */

/* Returns a schema that the value is valid by, with the same members. */
static json_t *schema_like(const json_t *value)
{
  static const char *const types[] = {
      [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
      [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
      [JSON_FALSE] = "boolean",   [JSON_NULL] = NULL};
  const char *key, *type = types[json_typeof(value)];
  json_t *member, *schema = json_object();
  if (type != NULL)
    json_object_set_new(schema, "type", json_string(type));
  if (!json_is_object(value))
    return schema;
  json_t *members = json_object();
  json_object_foreach((json_t *)value, key, member)
  {
    json_object_set_new(members, key, schema_like(member));
  }
  json_object_set_new(schema, "properties", members);
  return schema;
}

/* Returns the schema of a dialect's errors, from one of them. */
static json_t *error_schema(const struct lls_dialect *dialect)
{
  struct lls_api_error error;
  lls_api_fail(&error, 400, NULL, NULL, "why");
  json_t *sample = (dialect != NULL ? dialect->error : lls_api_error_json)(&error);
  json_t *schema = schema_like(sample);
  json_decref(sample);
  return schema;
}

/* Returns the schema of a dialect's bodies. Members that it does not name are ignored, or
 * refused with [server] strict_params. */
static json_t *body_schema(const struct lls_dialect *dialect)
{
  json_t *required = json_array();
  json_t *members =
      dialect->alone ? json_object() : lls_params_schema(dialect->params_of);
  lls_openapi_put_members(members, required, dialect->members);
  json_t *schema = json_pack("{s:s, s:o, s:o}", "type", "object", "properties", members,
                             "x-refused", lls_params_refused(dialect->params_of));
  if (json_array_size(required) > 0)
    json_object_set(schema, "required", required);
  json_decref(required);
  return schema;
}

/* Writes a name for a path: its letters and digits, '_' between them. */
static void name_of(const char *method, const char *path, char out[MOST_PATH])
{
  size_t n = (size_t)snprintf(out, MOST_PATH, "%s", method);
  for (; *path != '\0' && n + 2 < MOST_PATH; path++) {
    bool letter = strchr("/{}*", *path) == NULL;
    if (letter)
      out[n++] = *path == '-' || *path == '.' ? '_' : *path;
    else if (n > 0 && out[n - 1] != '_')
      out[n++] = '_';
  }
  while (n > 0 && out[n - 1] == '_')
    n--;
  out[n] = '\0';
}

/* Writes the name of the dialect's schema: that of the first path that has it. */
static void schema_name(const struct lls_api *api, const struct lls_dialect *dialect,
                        char out[MOST_PATH])
{
  size_t i = 0;
  while (i < api->n_routes && api->routes[i].dialect != dialect)
    i++;
  name_of("body", api->routes[i].path, out);
}

static json_t *reference(const char *kind, const char *name)
{
  return json_pack("{s:o}", "$ref", json_sprintf("#/components/%s/%s", kind, name));
}

/* ---- operations -------------------------------------------------------------------- */

static json_t *content(const char *type, json_t *schema)
{
  return json_pack("{s:{s:o}}", type, "schema", schema);
}

/* True for the paths whose GET answers with events. */
static bool has_events(const char *path)
{
  return strcmp(path, "/admin/kv_events") == 0 || strcmp(path, "/admin/events") == 0 ||
         lls_route_is(path, "/responses/{id}");
}

/* Returns what a request gets: an object, and the events of a stream. */
static json_t *success(const struct lls_dialect *dialect, const char *path)
{
  bool events = dialect != NULL ? dialect->framing != NULL : has_events(path);
  json_t *made = dialect != NULL
                     ? content(JSON_TYPE, json_pack("{s:[s,s,s]}", "type", "object",
                                                    "array", "string"))
                     : content("*/*", json_object());
  if (events)
    json_object_set_new(made, "text/event-stream", json_object());
  return json_pack("{s:s, s:o}", "description",
                   events ? "the answer, whole or as events" : "the answer", "content",
                   made);
}

static json_t *failure(const struct lls_api *api, const struct lls_dialect *dialect,
                       const char *what)
{
  char name[MOST_PATH];
  json_t *schema;
  if (dialect == NULL || dialect->error == lls_api_error_json)
    schema = reference("schemas", "Error");
  else {
    schema_name(api, dialect, name);
    schema = error_schema(dialect);
  }
  return json_pack("{s:s, s:o}", "description", what, "content",
                   content(JSON_TYPE, schema));
}

static void put_path_parameters(json_t *operation, const char *path)
{
  json_t *parameters = json_array();
  const char *at = path;
  while ((at = strchr(at, '{')) != NULL) {
    size_t n = strcspn(at, "}");
    json_array_append_new(parameters, json_pack("{s:s%, s:s, s:b, s:{s:s}}", "name",
                                                at + 1, n - 1, "in", "path", "required",
                                                1, "schema", "type", "string"));
    at += n;
  }
  if (json_array_size(parameters) > 0)
    json_object_set(operation, "parameters", parameters);
  json_decref(parameters);
}

static json_t *operation_of(const struct lls_api *api,
                            const struct lls_route_stats *route, const char *path)
{
  char name[MOST_PATH], id[MOST_PATH];
  const struct lls_dialect *dialect = route->dialect;
  name_of(route->method, path, id);
  json_t *operation =
      json_pack("{s:s, s:{s:o, s:o, s:o}}", "operationId", id, "responses", "200",
                success(dialect, path), "4XX",
                failure(api, dialect, "the request is refused: the message says why"),
                "5XX", failure(api, dialect, "the server can't answer it, or not now"));
  put_path_parameters(operation, path);
  if (dialect != NULL) {
    schema_name(api, dialect, name);
    json_object_set_new(operation, "requestBody",
                        json_pack("{s:b, s:o}", "required", 1, "content",
                                  content(JSON_TYPE, reference("schemas", name))));
  }
  json_t *body = dialect == NULL && strcmp(route->method, "POST") == 0
                     ? lls_openapi_plain_body(path)
                     : NULL;
  if (body != NULL)
    json_object_set_new(operation, "requestBody", body);
  return operation;
}

/* The paths of routes that end with '*' and have several, and the names of their parts.
 */
static const struct {
  const char *method, *route, *path;
} spelt[] = {
    {"GET", "/responses/*", "/responses/{id}"},
    {"GET", "/responses/*", "/responses/{id}/input_items"},
    {"POST", "/responses/*", "/responses/{id}/cancel"},
    {"GET", "/conversations/*", "/conversations/{id}"},
    {"GET", "/conversations/*", "/conversations/{id}/items"},
    {"GET", "/conversations/*", "/conversations/{id}/items/{item}"},
    {"POST", "/conversations/*", "/conversations/{id}"},
    {"POST", "/conversations/*", "/conversations/{id}/items"},
    {"DELETE", "/conversations/*", "/conversations/{id}"},
    {"DELETE", "/conversations/*", "/conversations/{id}/items/{item}"},
    {"GET", "/files/*", "/files/{id}"},
    {"GET", "/files/*", "/files/{id}/content"},
    {"POST", "/batches/*", "/batches/{id}/cancel"},
};

static void put_operation(const struct lls_api *api, json_t *paths,
                          const struct lls_route_stats *route, const char *path)
{
  char method[16];
  size_t n = 0;
  json_t *item = json_object_get(paths, path);
  for (; route->method[n] != '\0' && n + 1 < sizeof method; n++)
    method[n] = (char)(route->method[n] | 0x20);
  method[n] = '\0';
  if (item == NULL) {
    item = json_object();
    json_object_set_new(paths, path, item);
  }
  json_object_set_new(item, method, operation_of(api, route, path));
}

/* Puts a route whose path has a '*', under the name of the part that it stands for. */
static void put_star(const struct lls_api *api, json_t *paths,
                     const struct lls_route_stats *route)
{
  char path[MOST_PATH];
  const char *star = strchr(route->path, '*');
  bool found = false;
  for (size_t i = 0; i < sizeof spelt / sizeof *spelt; i++) {
    if (strcmp(spelt[i].method, route->method) != 0 ||
        !lls_route_is(route->path, spelt[i].route))
      continue;
    bool v1 = strcmp(route->path, spelt[i].route) != 0;
    snprintf(path, sizeof path, "%s%s", v1 ? "/v1" : "", spelt[i].path);
    put_operation(api, paths, route, path);
    found = true;
  }
  if (found)
    return;
  snprintf(path, sizeof path, "%.*s{id}%s", (int)(star - route->path), route->path,
           star + 1);
  put_operation(api, paths, route, path);
}

/* ---- the document ------------------------------------------------------------------ */

static json_t *schemas_of(const struct lls_api *api)
{
  json_t *schemas = json_pack("{s:o}", "Error", error_schema(NULL));
  for (size_t i = 0; i < api->n_routes; i++) {
    char name[MOST_PATH];
    const struct lls_dialect *dialect = api->routes[i].dialect;
    if (dialect == NULL)
      continue;
    schema_name(api, dialect, name);
    if (json_object_get(schemas, name) == NULL)
      json_object_set_new(schemas, name, body_schema(dialect));
  }
  return schemas;
}

static json_t *paths_of(const struct lls_api *api)
{
  json_t *paths = json_object();
  /* the last route is for requests without one */
  for (size_t i = 0; i + 1 < api->n_routes; i++) {
    const struct lls_route_stats *route = &api->routes[i];
    size_t length = strlen(route->path);
    if (strchr(route->path, '*') != NULL)
      put_star(api, paths, route);
    else if (length == 1 || route->path[length - 1] != '/')
      put_operation(api, paths, route, route->path);
  }
  return paths;
}

static json_t *document(const struct lls_api *api)
{
  return json_pack(
      "{s:s, s:{s:s, s:s, s:s, s:{s:s, s:s}}, s:o, s:{s:o, s:{s:{s:s, s:s}, s:{s:s, s:s, "
      "s:s}}}, s:[{}, {s:[]}, {s:[]}]}",
      "openapi", "3.1.0", "info", "title", "llmserve", "version", PACKAGE_VERSION,
      "description",
      "doc/api.md says what the fields mean. The header x-llmserve-ignored of an answer "
      "names the members of its request that have no effect; x-refused lists members "
      "that are an error.",
      "license", "name", "Apache-2.0", "identifier", "Apache-2.0", "paths", paths_of(api),
      "components", "schemas", schemas_of(api), "securitySchemes", "bearer", "type",
      "http", "scheme", "bearer", "header", "type", "apiKey", "in", "header", "name",
      "x-api-key", "security", "bearer", "header");
}

void lls_handle_openapi(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_api_error error;
  if (api->openapi == NULL) {
    json_t *json = document(api);
    api->openapi = json != NULL ? lls_json_text(json, JSON_COMPACT) : NULL;
    json_decref(json);
  }
  if (api->openapi != NULL) {
    lls_http_reply(exchange, 200, JSON_TYPE, api->openapi, strlen(api->openapi));
    return;
  }
  lls_api_fail(&error, 503, NULL, NULL, "out of memory");
  lls_api_error_reply(exchange, &error);
}
