/**
 * Owns the first lines of `ringfence agent status`: what keeps the policy from being in force, and which rules are in
 * force.
 */
import { exceptionsOf, type Exception } from '../../agent/report/enforcement.ts';
import type { StatusDocument } from '../../agent/report/status-document.ts';
import { inForceAdvice, inForceTitles } from '../../api/enforcement/in-force.ts';
import { shortTime } from '../terminal/time.ts';

export type Field = readonly [name: string, value: string | readonly string[]];

export const count = (number: number, word: string, many = `${word}s`): string =>
  `${number} ${number === 1 ? word : many}`;

/** Exceptions by their words, then whether the device is isolated and what is in force. */
export function enforcementFields(status: StatusDocument): readonly Field[] {
  const exceptions = exceptionsOf(status);
  const fields = exceptions.map((word): Field => [inForceTitles[word], reasons(word, status)]);
  const { isolated } = status.policy;
  return [
    ...fields,
    ...(isolated === undefined ? [] : [['isolated', isolationLines(isolated)] as const]),
    ['in force', `${exceptions.length === 0 ? 'yes, ' : ''}${inForceLine(status)}`],
  ];
}

function isolationLines({
  until,
  reason,
  allowed,
}: NonNullable<StatusDocument['policy']['isolated']>): readonly string[] {
  const why = reason === undefined ? '' : `: ${reason}`;
  const others = allowed === 0 ? '' : ` and traffic with ${count(allowed, 'allowed peer')}`;
  return [
    `${until === undefined ? 'until a person lifts it' : `until ${shortTime(until)}`}${why}`,
    `  Only the agent's connection to the server${others} passes.`,
  ];
}

function inForceLine({ policy: { origin, revision, applied_at } }: StatusDocument): string {
  const since = applied_at === undefined ? '' : `, since ${shortTime(applied_at)}`;
  switch (origin) {
    case 'server':
    case 'kept':
      return `the rules of revision ${revision ?? 'unknown'}${since}`;
    case 'kernel':
      return 'the rules that the kernel held when the agent started';
    case 'first':
      return 'no policy yet: inbound is closed';
    case 'lost':
      return 'only traffic to the server passes: the saved policy is lost';
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
    case 'reverted':
      return [status.reverted?.why ?? ''];
    case 'offline':
      return [`no contact with ${server} since ${shortTime(stream.last_live_at ?? started_at)}${attempts(status)}`];
    case 'never_seen':
      return [`no contact with ${server} yet${attempts(status)}`];
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
  if (stream.phase !== 'live') return 'connected, and still reading changes';
  if (policy.origin !== 'server') return 'connected, and waiting for the first policy from the server';
  if (policy.pending) return 'the agent is writing a newer policy to the kernel';
  return 'the agent has not read the rules back from the kernel yet';
}
