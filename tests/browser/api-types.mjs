// Turns the binary's OpenAPI document into the types of the API's payloads, `api.d.ts`.
//
//   node tests/browser/api-types.mjs    writes api.d.ts again, after a change of the API
//
// types.test.mjs fails when the file differs from what the binary says. Descriptions are left out, so
// that another wording of a comment does not change the file.

import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Swarm } from "./harness.mjs";

export const FILE = fileURLToPath(new URL("api.d.ts", import.meta.url));

const HEAD = `// Payloads of the HTTP API. Made by api-types.mjs from the binary's OpenAPI document: do not edit.

declare namespace Api {
`;

/** The text of `api.d.ts` for an OpenAPI 3.1 document. */
export function typesOf(document) {
  const schemas = Object.entries(document.components.schemas).sort(([a], [b]) => (a < b ? -1 : 1));
  return `${HEAD}${schemas.map(([name, schema]) => declaration(name, schema)).join("\n")}}\n`;
}

function declaration(name, schema) {
  if (schema.type === "object" && schema.properties) return `  interface ${name} {\n${fields(schema, "    ")}  }\n`;
  return `  type ${name} = ${typeOf(schema)};\n`;
}

function fields({ properties, required = [] }, indent) {
  const names = Object.keys(properties).sort();
  return names.map((name) => `${indent}${name}${required.includes(name) ? "" : "?"}: ${typeOf(properties[name])};\n`).join("");
}

/** A schema as a type. A kind of schema that the API does not use yet is an error, and never `unknown`. */
function typeOf(schema) {
  if (schema.$ref) return schema.$ref.replace("#/components/schemas/", "");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const parts = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (parts) return parts.map(typeOf).join(schema.allOf ? " & " : " | ");
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type })).join(" | ");
  switch (schema.type) {
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "integer":
    case "number":
      return "number";
    case "array":
      return `Array<${typeOf(schema.items)}>`;
    case "object":
      if (schema.properties) return `{ ${fields(schema, "").trim().replaceAll("\n", " ")} }`;
      return `Record<string, ${schema.additionalProperties ? typeOf(schema.additionalProperties) : "unknown"}>`;
    default:
      throw new Error(`api-types.mjs knows no type for ${JSON.stringify(schema)}; teach it one`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const hooks = [];
  try {
    const swarm = await Swarm.start({ after: (hook) => hooks.push(hook) });
    await writeFile(FILE, typesOf(await swarm.api("openapi.json")));
  } finally {
    for (const hook of hooks) await hook();
  }
}
