/** Owns safe access to untrusted JSON. */

export type JsonObject = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** An own field only: `__proto__` and friends of a hostile document are fields like others. */
export const field = (object: JsonObject, name: string): unknown =>
  Object.hasOwn(object, name) ? object[name] : undefined;
