/** Owns what `ringfence agent status` says first: what keeps the policy from being in force, and which rules are. */
import { exceptionsOf, type Exception } from '../../agent/report/enforcement.ts';
import type { StatusDocument } from '../../agent/report/status-document.ts';
import { inForceAdvice, inForceTitles } from '../../api/enforcement/in-force.ts';
import { shortTime } from '../terminal/time.ts';

export type Field = readonly [name: string, value: string | readonly string[]];

export const count = (number: number, word: string, many = `${word}s`): string =>
  `${number} ${number === 1 ? word : many}`;

/** Exceptions by their words, then what is in force. */
export function enforcementFields(status: StatusDocument): readonly Field[] {
  const exceptions = exceptionsOf(status);
  const fields = exceptions.map((word): Field => [inForceTitles[word], reasons(word, status)]);
  return [...fields, ['in force', `${exceptions.length === 0 ? 'yes, ' : ''}${inForceLine(status)}`]];
}

function inForceLine({ policy: { origin, revision, applied_at } }: StatusDocument): string {
  const since = applied_at === undefined ? '' : `, since ${shortTime(applied_at)}`;
  switch (origin) {
    case 'server':
    case 'kept':
      return `the rules of revision ${revision ?? 'unknown'}${since}`;
    case 'kernel':
      return 'what the kernel held when the agent started';
    case 'first':
      return 'no policy yet: inbound is closed';
    case 'lost':
      return 'nothing passes but the way to the server: the saved policy is lost';
    case 'none':
      return 'nothing';
    default:
      return origin satisfies never;
  }
}

function reasons(word: Exception, status: StatusDocument): readonly string[] {
  const { held, stream, server, started_at } = status;
  switch (word) {
    case 'not_understood':
      return [held ?? '', `  ${inForceAdvice.not_understood ?? ''}`];
    case 'failed':
      return failures(status);
    case 'offline':
      return [`not heard of ${server} since ${shortTime(stream.last_live_at ?? started_at)}${attempts(status)}`];
    case 'never_seen':
      return [`never heard of ${server}${attempts(status)}`];
    case 'behind':
      return [whyBehind(status)];
    default:
      return word satisfies never;
  }
}

function failures({ troubles, held, held_code }: StatusDocument): readonly string[] {
  return [
    ...troubles.flatMap(({ what, message, advice, at }) => [
      `${what}: ${message} (${shortTime(at)})`,
      ...(advice === undefined ? [] : [`  ${advice}`]),
    ]),
    ...(held === undefined || held_code === 'not_understood' ? [] : [held]),
  ];
}

function attempts({ stream: { failures: times, last_error } }: StatusDocument): string {
  if (times === 0) return '';
  const last = last_error === undefined ? '' : `, the last: ${last_error.message} (${shortTime(last_error.at)})`;
  return `, ${count(times, 'failure')}${last}`;
}

function whyBehind({ policy, stream }: StatusDocument): string {
  if (stream.phase !== 'live') return 'connected, and still reading what is new';
  if (policy.origin !== 'server') return 'connected, and no policy has come from the server yet';
  if (policy.pending) return 'a newer policy is on its way into the kernel';
  return 'the rules have not been read back from the kernel yet';
}
