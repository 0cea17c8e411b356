/** Owns the answer of the stream operation: an admitted request becomes a stream, or a refusal that says why (reference 4.3). */
import {
  completePreference,
  heartbeatHeader,
  readyPreference,
  reportPreference,
  signsPreference,
  tokensPreference,
} from '../../../api/kinds.ts';
import type { WatchRequest } from '../../../api/watch.ts';
import { HttpError, problemTable, refuseInvalid } from '../../problems.ts';
import { headersAt } from '../headers.ts';
import { credentialId, groupReader } from '../../identity/authenticate.ts';
import type { AdmittedRequest, Params } from '../call.ts';
import type { Hub } from '../../watch/hub.ts';
import type { ConnectedSink, Refusal } from '../../watch/opening.ts';
import { watchProblems } from '../../watch/request.ts';
import type { Holder } from '../../watch/stream.ts';
import { signsApplied, type SignSource } from '../../watch/signs.ts';
import { responseHead, twoWayResponseHead } from '../../watch/wire.ts';

function holderOf({ principal }: AdmittedRequest): Holder {
  // The table of rights lets no enrollment key in; without a token there would be nothing to revoke.
  if (principal.kind === 'enrollment') throw new HttpError('forbidden', 'An enrollment key cannot read events.');
  const { user_id, token_id, expires_at } = principal;
  return {
    user: user_id,
    reader: groupReader(principal),
    kind: principal.kind,
    device: principal.kind === 'device' ? principal.device_id : undefined,
    credential: credentialId(principal),
    token: token_id,
    expiresAt: expires_at === undefined ? undefined : Date.parse(expires_at),
  };
}

/** Seconds after which it makes sense to try again. */
const retryAfter = 10;

const tooMany = (who: string): HttpError =>
  new HttpError(
    'rate_limited',
    `${who} has reached its maximum number of open streams. Close one, or try again later.`,
    {
      headers: { 'Retry-After': String(retryAfter) },
    },
  );

function refusal(why: Refusal): HttpError {
  switch (why) {
    case 'not_found':
      return problemTable.not_found({ what: 'organization' });
    case 'revision_gone':
      return problemTable.revision_gone({});
    case 'draining':
      return new HttpError('unavailable', 'The server is shutting down. Try again.', {
        headers: { 'Retry-After': '1' },
      });
    case 'credential_streams':
      return tooMany('This credential');
    case 'organization_streams':
      return tooMany('This organization');
    default:
      return why satisfies never;
  }
}

let date = { second: 0, line: '' };

/** Headers that every answer carries, as lines. A date lasts a second. */
function headerLines(id: string, now: number, common: string): string {
  const second = Math.floor(now / 1_000);
  if (date.second !== second) date = { second, line: `Date: ${new Date(now).toUTCString()}\r\n` };
  return `${date.line}x-request-id: ${id}\r\n${common}`;
}

/** Whether the reader has this preference: `report` lines (reference 4.3 (21)), or signs of life (4.3 (22)). */
const prefers = (prefer: string | readonly string[] | undefined, preference: string): boolean =>
  typeof prefer === 'string' && prefer.split(',').some((one) => one.trim().toLowerCase() === preference);

/** A request for a stream by somebody who was let in. */
export interface StreamRequest {
  readonly admitted: AdmittedRequest;
  readonly params: Params<'watchEvents'>;
  readonly id: string;
  readonly body: unknown;
  /** Milliseconds since it came in. */
  readonly elapsedMs: number;
  /** The `Prefer` header. */
  readonly prefer: string | readonly string[] | undefined;
  /** False for a client that speaks HTTP/1.0, and for a stream that goes both ways. */
  readonly chunked: boolean;
  /** Whether the client may send signs of life on the stream. */
  readonly twoWay: boolean;
  /** Makes its connection the stream's own. */
  readonly accept: () => ConnectedSink;
}

/** Answers the stream operation: takes over the connection, or throws the reason for a refusal. */
export type StreamHandler = (request: StreamRequest) => Promise<void>;

export interface StreamHandlerOptions {
  readonly hub: Hub;
  readonly clock: () => number;
  /** The URL at which people reach the server, if it is known. */
  readonly publicUrl: string | undefined;
}

export function streamHandler({ hub, clock, publicUrl }: StreamHandlerOptions): StreamHandler {
  const common = headersAt(publicUrl)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  return async ({ admitted, params, id, body, elapsedMs, prefer, chunked, twoWay, accept }) => {
    refuseInvalid(watchProblems(body));
    const now = clock();
    const promises = prefers(prefer, signsPreference);
    const signs: SignSource = twoWay ? 'stream' : promises ? 'requests' : 'unpromised';
    const tokens = prefers(prefer, tokensPreference);
    const complete = prefers(prefer, completePreference);
    const leavesWhenNotReady = prefers(prefer, readyPreference);
    const takesReceiptRequests = prefers(prefer, reportPreference);
    const preferences = [
      ...(promises || twoWay ? [signsApplied(hub.settings)] : []),
      ...(takesReceiptRequests ? [reportPreference] : []),
      ...(tokens ? [tokensPreference] : []),
      ...(complete ? [completePreference] : []),
      ...(leavesWhenNotReady ? [readyPreference] : []),
    ];
    const applied = preferences.length > 0 ? `Preference-Applied: ${preferences.join(', ')}\r\n` : '';
    const heartbeat = `${heartbeatHeader}: ${hub.settings.heartbeatMs / 1_000}\r\n`;
    const headers = `${headerLines(id, now, common)}${heartbeat}${applied}`;
    const refused = await hub.open({
      org: params.org_id,
      items: body as WatchRequest,
      holder: holderOf(admitted),
      admittedAt: now - elapsedMs,
      takesReceiptRequests,
      tokens,
      complete,
      leavesWhenNotReady,
      signs,
      chunked,
      preface: twoWay ? twoWayResponseHead(headers) : responseHead(chunked, headers),
      accept,
    });
    if (refused !== undefined) throw refusal(refused);
  };
}
