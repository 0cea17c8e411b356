/** Owns the input of a stream request for the hub, and the reasons to refuse it. */
import type { WatchItem } from '../../api/watch.ts';
import type { OrganizationId } from '../../policy/ids.ts';
import type { SignSource } from './signs.ts';
import type { Holder, Sink, Stream } from './stream.ts';

export interface Opening {
  readonly org: OrganizationId;
  readonly items: readonly WatchItem[];
  readonly holder: Holder;
  /** When the request came in: rights are judged after that. */
  readonly admittedAt: number;
  /** Whether the reader understands being asked for its word. */
  readonly takesReceiptRequests?: boolean | undefined;
  /** Whether the reader is sent the token of each revision. */
  readonly tokens?: boolean | undefined;
  /** Whether the reader gets a line when no change is half sent. */
  readonly complete?: boolean | undefined;
  /** How its reader shows signs of life; promises none unless given. */
  readonly signs?: SignSource | undefined;
  /** Whether the reader knows another server, and goes there when this one cannot reach its database. */
  readonly leavesWhenNotReady?: boolean | undefined;
  /** False for a client that speaks HTTP/1.0. */
  readonly chunked: boolean;
  /** The response's head. */
  readonly preface?: Buffer | undefined;
  /** Called when the stream may begin, just before its first bytes: makes the connection the stream's own. */
  readonly accept: () => ConnectedSink;
}

/** Whether the reader is an agent: it has the token of a device, or reports what it enforces with the token of its user. */
export const isAgent = ({ holder, takesReceiptRequests }: Opening): boolean =>
  holder.device !== undefined || takesReceiptRequests === true;

export interface ConnectedSink extends Sink {
  /** Sets the stream that receives the connection's events. */
  connect(stream: Stream): void;
}

export type Refusal =
  | 'not_found'
  | 'revision_gone'
  | 'draining'
  /** The credential, or the organization, has as many streams as it may have. */
  | 'credential_streams'
  | 'organization_streams';
