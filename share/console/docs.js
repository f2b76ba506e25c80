// SPDX-License-Identifier: Apache-2.0
// The page /docs: the endpoints of /openapi.json with the fields of their bodies.
import { switchBy } from "./colours.js";
import { ask } from "./connection.js";
import { element, table } from "./elements.js";

const at = (id) => document.getElementById(id);

function schemaOf(doc, operation) {
  const schema = operation.requestBody?.content?.["application/json"]?.schema;
  const name = schema?.$ref?.split("/").pop();
  return name ? doc.components.schemas[name] : schema;
}

function rowOf([name, field], required) {
  const types = [field.type ?? "any"].flat().filter((type) => type !== "null");
  const range = [field.minimum, field.maximum].map((bound) => bound ?? "");
  return [required.includes(name) ? `${name} (required)` : name, types.join(", "), ...range];
}

function fieldsOf(schema) {
  const made = table("Fields of the body", ["Field", "Type", "Least", "Most"]);
  made.fill(Object.entries(schema.properties).map((field) => rowOf(field, schema.required ?? [])));
  return made;
}

function entryOf(doc, path, method, operation) {
  const schema = schemaOf(doc, operation);
  const entry = element("details", {}, element("summary", {}, `${method.toUpperCase()} ${path}`));
  const fill = () => {
    if (!entry.open || entry.childElementCount > 1) return;
    const refused = schema?.["x-refused"] ?? [];
    entry.append(schema?.properties ? fieldsOf(schema) : element("p", {}, "Its body has no described fields."));
    entry.append(element("p", {}, `Answers: ${Object.keys(operation.responses).join(", ")}`));
    if (refused.length > 0) entry.append(element("p", {}, `Refused by name: ${refused.join(", ")}`));
  };
  entry.addEventListener("toggle", fill);
  entry.dataset.words = [path, ...Object.keys(schema?.properties ?? {})].join(" ");
  return entry;
}

function show(doc) {
  const entries = Object.entries(doc.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => entryOf(doc, path, method, operation)));
  at("server").textContent = `version ${doc.info.version}, ${entries.length} endpoints`;
  at("paths").replaceChildren(...entries);
  at("find").addEventListener("input", () => {
    for (const entry of entries) entry.hidden = !entry.dataset.words.includes(at("find").value.trim());
  });
}

switchBy(at("colours"));
ask("GET", "openapi.json").then(show).catch((error) => {
  at("server").textContent = `openapi.json can't be read: ${error.message}`;
});
