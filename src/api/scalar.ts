/** Owns the schemas of small values in records: ids, revisions, times, texts. */
import { Type, type Static, type TSchema } from 'typebox';
import type { OrganizationId } from '../policy/ids.ts';
import { digestPattern } from '../policy/digest/digest-form.ts';
import { labelLimits } from '../policy/label.ts';
import { largestRevision, limits } from './limits.ts';

/** The type of a schema's value as the program passes it around: records are never changed in place. */
export type Wire<S extends TSchema> = Frozen<Static<S>>;
type Frozen<T> = T extends string | number | boolean | null | undefined
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Frozen<Item>[]
    : { readonly [K in keyof T]: Frozen<T[K]> };

/** An id in an answer: branded, since the server parsed it. */
export const id = <Brand extends string>(description: string) =>
  Type.Unsafe<Brand>(Type.String({ format: 'uuid', description }));

/** An id in a request: any text that is a UUID. */
export const givenId = (description: string) => Type.String({ format: 'uuid', description });

export const Revision = Type.Integer({
  minimum: 0,
  maximum: largestRevision,
  description: 'One counter per organization, shared by all kinds: gap-free, in commit order.',
});

export const Timestamp = Type.String({ format: 'date-time', description: 'RFC 3339, UTC.' });

export const Name = (description: string) =>
  Type.String({ minLength: 1, maxLength: limits.name, limit: 'name', description });
export const Text = (description: string) =>
  Type.String({ maxLength: limits.description, limit: 'description', multiline: true, description });
export const ShortText = (description: string) => Type.String({ maxLength: limits.name, description });

export const Label = Type.String({
  pattern: '^[a-z0-9]([a-z0-9._/-]*[a-z0-9])?$',
  minLength: 1,
  maxLength: labelLimits.length,
  description: '`a-z 0-9 . _ / -`, beginning and ending with a letter or digit.',
});

export const Digest = (description: string) => Type.String({ pattern: digestPattern, description });

/** Labels in a request: what a device is, in words that its owners chose. */
export const GivenLabels = (description: string) =>
  Type.Array(Label, {
    maxItems: limits.deviceLabels,
    uniqueItems: true,
    description,
    examples: [['db', 'prod']],
  });
/** Labels in an answer. */
export const Labels = (description: string) => Type.Array(Type.String(), { description });

/** An object that refuses every field it does not name. */
export const strict = { additionalProperties: false } as const;

/** An organization, for readers who may not be its members. */
export const NamedOrganization = Type.Object(
  { id: id<OrganizationId>('The organization.'), name: Type.String() },
  strict,
);
