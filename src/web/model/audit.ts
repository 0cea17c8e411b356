/** Owns the audit in words: operations as people would say them. */
import type { AuditEntry } from '../../api/audit.ts';
import { actionText } from '../../client/audit-text.ts';

export type ActionKind = 'made' | 'changed' | 'ended' | 'entered';

const beginnings: readonly (readonly [RegExp, ActionKind])[] = [
  [/^(create|add|enroll)/, 'made'],
  [/^(delete|remove|revoke|leave)/, 'ended'],
  [/^sign(In|Out)/, 'entered'],
];

export const actionKind = (operation: string): ActionKind =>
  beginnings.find(([beginning]) => beginning.test(operation))?.[1] ?? 'changed';

const credentials: Readonly<Record<string, string>> = {
  user_token: 'token',
  device_token: 'device token',
  enrollment_key: 'enrollment key',
  access_token: "a provider's token",
  session: 'a browser session',
};
export const credentialName = (kind: string): string => credentials[kind] ?? kind.replaceAll('_', ' ');

/** Everything of an entry that a search looks at. */
export const auditText = (entry: AuditEntry): string =>
  [
    entry.username,
    entry.operation,
    actionText(entry),
    entry.address,
    entry.subject_id ?? '',
    entry.request_id,
    credentialName(entry.credential.kind),
    entry.credential.id ?? '',
    ...(entry.fields ?? []),
  ]
    .join(' ')
    .toLowerCase();

/** Whether every word stands somewhere in the text. */
export const hasWords = (text: string, words: string): boolean =>
  words.split(/\s+/).every((word) => text.includes(word));
