/** Owns which fields of a stored record this program knows, read from the wire schemas. */
import { isObject } from '../policy/json.ts';
import { Device } from './device.ts';
import { SecurityGroup } from './group.ts';

/** The fields of an object by name, each with those of the objects in it. Undefined: it holds no objects that are listed here. */
export interface KnownFields {
  readonly [name: string]: KnownFields | undefined;
}

/** Of a schema that allows no other fields, directly, as the items of a list, or where it is not null. */
function fieldsIn(schema: unknown): KnownFields | undefined {
  if (!isObject(schema)) return undefined;
  const { properties, additionalProperties, items, anyOf } = schema;
  if (items !== undefined) return fieldsIn(items);
  if (Array.isArray(anyOf)) return anyOf.map(fieldsIn).find((fields) => fields !== undefined);
  if (!isObject(properties) || additionalProperties !== false) return undefined;
  return Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, fieldsIn(inner)]));
}

const deviceFields = fieldsIn(Device) ?? {};
const groupFields = fieldsIn(SecurityGroup) ?? {};

const isKnown = (value: unknown, known: KnownFields): boolean => {
  if (Array.isArray(value)) return value.every((item) => isKnown(item, known));
  if (!isObject(value)) return value === null;
  return Object.entries(value).every(([name, inner]) => {
    if (!Object.hasOwn(known, name)) return false;
    const fields = known[name];
    return fields === undefined || inner === undefined || isKnown(inner, fields);
  });
};

/** Whether the record of a group, or a part of it, has only fields that are known. */
export const isKnownGroup = (record: object): boolean => isKnown(record, groupFields);
/** The same of a device. */
export const isKnownDevice = (record: object): boolean => isKnown(record, deviceFields);
